"""The address of a request: scheme, host, port and target as they are sent, all ASCII (RFC 3986)."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

import httpx

SCHEMES = frozenset({"http", "https"})
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PLAIN = re.compile(r"(https?://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?)((?:/[A-Za-z0-9_][A-Za-z0-9._~-]*)+)")
"""An origin without a login, and a path in which nothing is to be escaped or resolved."""
_MAX_PLAIN = 4096
_HOST = re.compile(r"[a-z0-9._-]+")


class _PlainAddress(httpx.URL):
    """A URL at an origin that was parsed before, to save parsing: httpx examines each character a dozen times."""

    def __init__(self, origin: httpx.URL, path: str) -> None:
        super().__init__(origin)
        self._target = path.encode()

    @property
    def raw_path(self) -> bytes:
        """The path as it is sent."""
        return self._target


def address_of(url: str) -> httpx.URL:
    """``url`` for a request. Raises httpx.InvalidURL; see ``parse``."""
    plain = _PLAIN.fullmatch(url) if len(url) <= _MAX_PLAIN else None
    return parse(url, SCHEMES) if plain is None else _PlainAddress(_origin(plain[1]), plain[2])


def request_to(address: httpx.URL, headers: dict[str, str], timeouts: dict[str, float | None]) -> httpx.Request:
    """A GET request, with no other headers than these and Host. Raises ValueError for one that is not ASCII."""
    request = httpx.Request(
        "GET",
        address,
        headers={"Host": address.netloc.decode("ascii"), **headers},
        stream=httpx.ByteStream(b""),
        extensions={"timeout": timeouts},
    )
    request.url = address  # httpx makes a plain URL of it
    return request


def parse(url: str, schemes: frozenset[str]) -> httpx.URL:
    """``url`` as httpx understands it. Raises httpx.InvalidURL, whose message quotes no part of the address.

    Everywhere else the host is the one that ``urllib.parse`` finds: in redirects, logins, proxies and messages. An
    address in which httpx finds another host is refused, so that the checked host is the requested one.
    """
    try:
        scheme, rest = url.partition(":")[::2]
        address = httpx.URL(f"{scheme.lower()}:{rest}")  # "HTTP" would keep ":80" in the Host header
        parts = urlsplit(url)
        host = address.raw_host.decode("ascii")
        checked = parts.hostname or ""
        same_host = checked == (host if checked.isascii() else address.host)
        default = _DEFAULT_PORTS.get(address.scheme)
        same_port = (address.port or default) == (default if parts.port is None else parts.port)
        same_scheme = address.scheme == parts.scheme.lower()
    except (httpx.InvalidURL, ValueError):  # idna.IDNAError and what urlsplit raises are ValueErrors
        raise httpx.InvalidURL("it cannot be parsed") from None
    if not host or address.scheme not in schemes:
        raise httpx.InvalidURL("without a host, or of another scheme")
    if not (same_scheme and same_host and same_port):
        raise httpx.InvalidURL("it is ambiguous")
    if ":" not in host and _HOST.fullmatch(host) is None:
        raise httpx.InvalidURL("the host name has characters that no host name has")
    return address


@lru_cache(maxsize=64)
def _origin(origin: str) -> httpx.URL:
    return parse(origin, SCHEMES)

"""The address of a request as httpcore takes it: scheme, host, port and target, all ASCII (RFC 3986)."""

from __future__ import annotations

import importlib
import ipaddress
import re
from functools import lru_cache
from urllib.parse import SplitResult, quote, urlsplit

import httpcore

SCHEMES = frozenset({"http", "https"})
MAX_LENGTH = 65536
_DEFAULT_PORTS = {b"http": 80, b"https": 443}
_PLAIN = re.compile(r"(https?://[a-z0-9][a-z0-9.-]*(?::[0-9]{1,5})?)((?:/[A-Za-z0-9_][A-Za-z0-9._~-]*)+)")
"""An origin without a login, and a path in which nothing is to be escaped or resolved."""
_HOST = re.compile(r"[a-z0-9._-]+")
_IPV4_STYLE = re.compile(r"[0-9]+(\.[0-9]+){3}")
_PORT = re.compile(r"[0-9]*")
_UNSAFE_IN_PATH = re.compile(r"[^!-~]|[\"#<>?`{}]")
_UNSAFE_IN_QUERY = re.compile(r"[^!-~]|[\"#<>]")


class InvalidAddressError(ValueError):
    """This text is not an address that can be requested. Its message quotes no part of the address."""


def address_of(url: str) -> httpcore.URL:
    """``url`` for a request; its login and fragment are not part of it. Raises InvalidAddressError."""
    plain = _PLAIN.fullmatch(url) if len(url) <= MAX_LENGTH else None
    if plain is not None:
        scheme, host, port = _origin(plain[1])
        return httpcore.URL(scheme=scheme, host=host, port=port, target=plain[2])
    parts = split(url)
    scheme, host, port = _origin_of(parts, SCHEMES)
    target = _escaped(_without_dots(parts.path) or "/", _UNSAFE_IN_PATH)
    before_fragment = url.partition("#")[0]
    if "?" in before_fragment:
        target += "?" + _escaped(parts.query, _UNSAFE_IN_QUERY)
    return httpcore.URL(scheme=scheme, host=host, port=port, target=target)


def proxy_address_of(parts: SplitResult, schemes: frozenset[str]) -> httpcore.URL:
    """The address of a proxy, ``split`` before, of one of these schemes. Raises InvalidAddressError."""
    scheme, host, port = _origin_of(parts, schemes)
    return httpcore.URL(scheme=scheme, host=host, port=port, target="/")


def host_header(address: httpcore.URL) -> bytes:
    """The Host header's value (RFC 9110 7.2)."""
    host = b"[%b]" % address.host if b":" in address.host else address.host
    if address.port is None or address.port == _DEFAULT_PORTS.get(address.scheme):
        return host
    return b"%b:%d" % (host, address.port)


def split(url: str) -> SplitResult:
    """The parts of ``url``. Raises InvalidAddressError."""
    # urlsplit would silently take tabs and line breaks out.
    if len(url) > MAX_LENGTH or any(each.isascii() and not each.isprintable() for each in url):
        raise InvalidAddressError("too long, or with control characters")
    try:
        return urlsplit(url)
    except ValueError:
        raise InvalidAddressError("it cannot be parsed") from None


@lru_cache(maxsize=64)
def _origin(origin: str) -> tuple[str, str, int | None]:
    return _origin_of(split(origin), SCHEMES)


def _origin_of(parts: SplitResult, schemes: frozenset[str]) -> tuple[str, str, int | None]:
    scheme = parts.scheme.lower()
    if scheme not in schemes or not parts.hostname:
        raise InvalidAddressError("without a host, or of another scheme")
    try:
        port = parts.port
    except ValueError:
        raise InvalidAddressError("the port is not a number below 65536") from None
    host = _host(parts.hostname, bracketed="[" in parts.netloc.rpartition("@")[2])
    return scheme, host, None if port == _DEFAULT_PORTS.get(scheme.encode()) else port


def _host(host: str, *, bracketed: bool) -> str:
    try:
        if bracketed or ":" in host:
            ipaddress.IPv6Address(host)
        elif _IPV4_STYLE.fullmatch(host):
            ipaddress.IPv4Address(host)
        elif not host.isascii():
            idna = importlib.import_module("idna")  # its tables are slow to load, and few hosts need them
            name: bytes = idna.encode(host)
            return name.decode("ascii")
        elif _HOST.fullmatch(host) is None:
            raise InvalidAddressError("the host name has characters that no host name has")
    except UnicodeError:  # idna.IDNAError is one
        raise InvalidAddressError("the host is not a name of the DNS (IDNA)") from None
    except ipaddress.AddressValueError:
        raise InvalidAddressError("the host is not an IP address") from None
    return host


def _without_dots(path: str) -> str:
    """RFC 3986 5.2.4."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == "..":
            if len(kept) > 1:
                kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in {".", ".."}:
        kept.append("")
    return "/".join(kept)


def _escaped(text: str, unsafe: re.Pattern[str]) -> str:
    try:
        return unsafe.sub(lambda found: quote(found[0], safe=""), text)
    except UnicodeEncodeError:
        raise InvalidAddressError("a character that UTF-8 does not have") from None

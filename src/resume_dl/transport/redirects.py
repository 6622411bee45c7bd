"""The target of a redirect, and whether it is followed (RFC 9110 15.4). No I/O here."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urljoin, urlsplit

from resume_dl.model.private_address import is_private_host

REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST = 10
_DEFAULT_PORTS = {"http": 80, "https": 443}
_KEPT = frozenset({"user-agent", "accept", "accept-encoding", "range", "if-range"})


class RedirectRefusedError(ValueError):
    """A redirect is not followed; the message says why, and quotes only the host of a URL."""


def target_of(current: str, location: str, seen: Collection[str], *, public: bool = False) -> str:
    """Resolve ``location`` against ``current``. Returns an absolute URL.

    ``seen``: all URLs requested so far, ``current`` included. ``public``: the redirecting server is not in a private
    network. Raises RedirectRefusedError for a loop, for more than 10 redirects in a row, from https to http, for other
    schemes than http and https, and from a public server into a private network.
    """
    try:
        target = urljoin(current, location).partition("#")[0]
        scheme, host, _ = origin(target)
    except ValueError:
        raise RedirectRefusedError("it redirects to an address that cannot be read") from None
    if scheme not in _DEFAULT_PORTS or not host:
        raise RedirectRefusedError("it redirects to something that is neither http nor https")
    if scheme == "http" and urlsplit(current).scheme.lower() == "https":
        raise RedirectRefusedError(f"it redirects from https to plain http at {host}")
    if public and is_private_host(host):
        raise private_refused(host)
    if target in seen:
        raise RedirectRefusedError("it redirects in a loop")
    if len(seen) > MOST:
        raise RedirectRefusedError(f"it redirects more than {MOST} times")
    return target


def private_refused(host: str) -> RedirectRefusedError:
    """The refusal of a redirect from a public server to this machine or a private network (SSRF, CWE-918)."""
    return RedirectRefusedError(f"it redirects into a private network, to {host}")


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of a URL (RFC 9110 4.3.1), ports made explicit. Raises ValueError."""
    parts = urlsplit(url)
    scheme = parts.scheme.lower()
    port = parts.port if parts.port is not None else _DEFAULT_PORTS.get(scheme)
    return scheme, (parts.hostname or "").lower(), port


def headers_for(target: str, current: str, headers: dict[str, str]) -> dict[str, str]:
    """The ``headers`` (lower-case names) to send to ``target``; to another origin only those that select bytes."""
    if origin(target) == origin(current):
        return headers
    return {name: value for name, value in headers.items() if name in _KEPT}

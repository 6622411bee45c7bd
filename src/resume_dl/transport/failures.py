"""Conversion of the exceptions of httpx and the layers below it to SourceError.

A message names the host and the failure. It quotes no URL and no text of another library, which may contain a secret.
"""

from __future__ import annotations

import errno
import socket
import ssl
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from resume_dl.errors import NetworkError, SourceError, StalledError
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.abortable_stream import ENDED_IN_BODY
from resume_dl.transport.proxy_login import LoginWantedError

FOREIGN = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.CookieConflict,
    httpx.StreamError,
    OSError,
    ValueError,  # header values that cannot be encoded
)
"""What sending a request and reading its answer may raise, apart from our own SourceErrors."""

_NO_ROUTE = frozenset(
    {errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}
)
_CANNOT_BE_WRITTEN = (httpx.LocalProtocolError, httpx.CookieConflict)
_TLS_HINT = (
    "If your network's own proxy re-signs connections, name its certificate as ssl_verify in condarc "
    "(cert in pip.conf for pip's packages); "
    "a wrong clock has this effect too."
)


class _Meaning(NamedTuple):
    why: str
    retryable: bool = True
    hint: str = ""
    reached: bool = True
    stalled: bool = False


def to_ours(
    error: Exception, *, host: str, source: str, network: NetworkSettings, proxy: str = "", asked: bool = True
) -> SourceError:
    """Convert ``error`` to a SourceError; ``source`` is a redacted URL, ``proxy`` the redacted proxy URL or empty.

    ``asked``: ``host`` is the requested host, not the target of a redirect.
    """
    meaning = _meaning(error, network, proxy)
    message = f"{host}: {meaning.why}" if host else meaning.why
    if meaning.stalled:
        return StalledError(message, source=source, hint=meaning.hint)
    name = (urlsplit(proxy).hostname or proxy if proxy else host) if asked and _is_unresolved(error) else ""
    return NetworkError(
        message,
        source=source,
        retryable=meaning.retryable,
        hint=meaning.hint,
        reached=meaning.reached,
        unresolved=name,
        no_route=asked and _has_no_route(error, proxy or f"//{host}"),
    )


def _is_unresolved(error: Exception) -> bool:
    return isinstance(error, httpx.ConnectError) and isinstance(_root_cause(error), socket.gaierror)


def _has_no_route(error: Exception, url: str) -> bool:
    """Whether a literal IP address cannot be reached, by the system's error; a name may have other addresses."""
    root = _root_cause(error) if isinstance(error, httpx.ConnectError) else None
    if root is None or root.errno not in _NO_ROUTE:
        return False
    try:
        ip_address(urlsplit(url).hostname or "")
    except ValueError:
        return False
    return True


def _meaning(error: Exception, network: NetworkSettings, proxy: str) -> _Meaning:
    through = f" through the proxy {proxy}" if proxy else ""
    root = _root_cause(error)
    if isinstance(root, ssl.SSLCertVerificationError):
        return _Meaning(f"its certificate is not trusted ({root.verify_message})", retryable=False, hint=_TLS_HINT)
    if isinstance(error, httpx.ConnectTimeout):
        return _Meaning(f"no connection{through} within {network.connect_timeout:g} s", reached=False)
    if isinstance(error, httpx.TimeoutException):
        return _Meaning(f"no answer{through} within {network.first_byte_timeout:g} s", stalled=True)
    if isinstance(error, (httpx.InvalidURL, httpx.UnsupportedProtocol)):
        return _Meaning(
            "this address cannot be requested",
            retryable=False,
            hint="Addresses begin with http://, https:// or file://.",
        )
    if proxy and isinstance(error.__cause__, LoginWantedError):
        wanted = error.__cause__
        return _Meaning(f"the proxy {proxy} {wanted.what}: {wanted.hint}", retryable=False, reached=False)
    if proxy and isinstance(error, httpx.ProxyError):
        return _Meaning(
            f"refused by the proxy {proxy}", hint="Check the proxy's address, login and rules.", reached=False
        )
    if isinstance(error, httpx.RemoteProtocolError):
        return _Meaning(f"{_protocol_trouble(error)}{through}")
    if isinstance(error, _CANNOT_BE_WRITTEN) or (isinstance(error, ValueError) and root is None):
        return _Meaning(
            "this request cannot be written as HTTP", retryable=False, hint="Check the address for odd characters."
        )
    if _is_unresolved(error):
        return _Meaning(f"cannot resolve host name{through}", reached=False)
    if isinstance(error, httpx.ConnectError):
        return _Meaning(f"cannot connect{through} ({_system_reason(root)})", reached=False)
    if isinstance(error, (httpx.NetworkError, OSError)):
        return _Meaning(f"the connection broke{through} ({_system_reason(root)})")
    return _Meaning(f"the exchange failed{through} ({type(error).__name__})")


def _root_cause(error: BaseException) -> OSError | None:
    """Return the deepest OSError in the chain of causes."""
    found: OSError | None = None
    step: BaseException | None = error
    for _ in range(10):  # bounded: an exception can be its own cause
        if step is None:
            break
        if isinstance(step, OSError):
            found = step
        step = step.__cause__ or step.__context__
    return found


def _system_reason(root: OSError | None) -> str:
    if root is None:
        return "closed"
    if isinstance(root, ssl.SSLEOFError):
        return "it ended in the TLS handshake"
    if isinstance(root, ssl.SSLError):
        return f"TLS: {(root.reason or 'failed').replace('_', ' ').lower()}"
    if root.errno == errno.ECONNRESET:
        return "reset"
    return (root.strerror or type(root).__name__).lower()


def _protocol_trouble(error: httpx.RemoteProtocolError) -> str:
    """Describe a protocol error in our own words: the library's text may quote what the server sent."""
    text = str(error)
    if text == ENDED_IN_BODY or "without sending complete message body" in text or "incomplete chunked read" in text:
        return ENDED_IN_BODY
    if "without sending a response" in text:
        return "closed the connection without an answer"
    return "does not answer in HTTP/1.1"

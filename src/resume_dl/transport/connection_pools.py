"""httpcore's pools of kept-alive connections: one for each proxy and each way of checking certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote

import httpcore

from resume_dl.errors import ConfigurationError
from resume_dl.model.url import redact
from resume_dl.transport import request_address
from resume_dl.transport.abortable_stream import AbortableBackend
from resume_dl.transport.request_address import InvalidAddressError

MAX_IDLE = 20
"""Connections. How many are used at once is decided by the core."""
IDLE_SECONDS = 30.0
"""Shorter than most servers keep an idle connection."""
_SOCKS = frozenset({"socks5", "socks5h"})
_PROXIES = request_address.SCHEMES | _SOCKS


class Route(NamedTuple):
    """How a request leaves this machine: the pool, and its proxy, redacted (empty: direct)."""

    pool: httpcore.ConnectionPool
    proxy: str


def open_route(
    proxy: str | None, *, tls: ssl.SSLContext | None, proxy_tls: Callable[[], ssl.SSLContext], patience: float
) -> Route:
    """A new pool. Raises ConfigurationError for a proxy that cannot be used.

    ``tls``: for the servers, None where none is asked over https. ``proxy_tls`` is called for an https proxy, whose
    certificate is checked also where the server's is not. ``patience``: see AbortableBackend.
    """
    backend = AbortableBackend(patience)
    if proxy is None:
        return Route(
            httpcore.ConnectionPool(
                tls,
                max_connections=None,
                max_keepalive_connections=MAX_IDLE,
                keepalive_expiry=IDLE_SECONDS,
                network_backend=backend,
            ),
            "",
        )
    address = proxy if "://" in proxy else f"http://{proxy}"
    shown = redact(address)
    try:
        parts = request_address.split(address)
        url = request_address.proxy_address_of(parts, _PROXIES)
        login = (unquote(parts.username or "").encode(), unquote(parts.password or "").encode())
    except (InvalidAddressError, UnicodeEncodeError):
        # The password may be in the error's own text.
        raise ConfigurationError(
            f"the proxy {shown} cannot be used",
            hint="Write it as http://host:port; https, socks5 and socks5h proxies work too.",
        ) from None
    auth = login if any(login) else None
    if url.scheme.decode() in _SOCKS:  # both alike: the proxy resolves the names
        pool: httpcore.ConnectionPool = httpcore.SOCKSProxy(
            url,
            proxy_auth=auth,
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=backend,
        )
    else:
        pool = httpcore.HTTPProxy(
            url,
            proxy_auth=auth,
            ssl_context=tls,
            proxy_ssl_context=proxy_tls() if url.scheme == b"https" else None,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=backend,
        )
    return Route(pool, shown)

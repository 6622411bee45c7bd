"""Pools of kept-alive connections: one for each proxy and each way of checking certificates."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import NamedTuple

import httpcore
import httpx

from resume_dl.errors import ConfigurationError
from resume_dl.fs import system
from resume_dl.model.proxy_auth import ProxyAuth
from resume_dl.model.url import redact
from resume_dl.transport import request_address
from resume_dl.transport.abortable_stream import AbortableBackend
from resume_dl.transport.pooled_transport import PooledTransport
from resume_dl.transport.proxy_connection import ProxyBackend
from resume_dl.transport.proxy_login import ProxyLogin

MAX_IDLE = 20
"""Idle connections per pool. The core decides how many are used at once."""
IDLE_SECONDS = 30.0
"""Shorter than most servers keep an idle connection."""
_SOCKS = frozenset({"socks5", "socks5h"})
_PROXIES = request_address.SCHEMES | _SOCKS


class Route(NamedTuple):
    """How a request leaves this machine: by a pool, and through its proxy, redacted (empty: direct)."""

    transport: httpx.BaseTransport
    proxy: str


def open_route(
    proxy: str | None,
    *,
    tls: ssl.SSLContext | None,
    proxy_tls: Callable[[], ssl.SSLContext],
    patience: float,
    auth: ProxyAuth = ProxyAuth.BASIC,
) -> Route:
    """Make a pool. Raises ConfigurationError for a proxy that cannot be used.

    ``tls``: for the servers; None if no https is used. ``proxy_tls`` is called for an https proxy, whose certificate is
    verified even if the server's is not. ``patience``: see AbortableBackend. ``auth``: how to log in to an HTTP proxy.
    """
    backend = AbortableBackend(patience, in_slices=not system.shutdown_wakes_readers())
    if proxy is None:
        direct = httpcore.ConnectionPool(
            tls,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=backend,
        )
        return Route(PooledTransport(direct), "")
    address = proxy if "://" in proxy else f"http://{proxy}"
    shown = redact(address)
    try:
        url = request_address.parse(address, _PROXIES)
        login = (url.username.encode(), url.password.encode())
        host = url.raw_host.decode("ascii")
    except (httpx.InvalidURL, UnicodeEncodeError):
        # The password may be in the error's own text.
        raise ConfigurationError(
            f"the proxy {shown} cannot be used",
            hint="Write it as http://host:port; https, socks5 and socks5h proxies work too.",
        ) from None
    basic = login if any(login) else None
    server = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=b"/")
    if url.scheme in _SOCKS:  # both alike: the proxy resolves the names
        pool: httpcore.ConnectionPool = httpcore.SOCKSProxy(
            server,
            proxy_auth=basic,
            ssl_context=tls,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=backend,
        )
    else:
        proxy_login = ProxyLogin(auth, shown=shown, host=host, user=url.username, password=url.password)
        pool = httpcore.HTTPProxy(
            server,
            proxy_auth=basic if auth is ProxyAuth.BASIC else None,
            ssl_context=tls,
            proxy_ssl_context=proxy_tls() if url.scheme == "https" else None,
            max_connections=None,
            max_keepalive_connections=MAX_IDLE,
            keepalive_expiry=IDLE_SECONDS,
            network_backend=ProxyBackend(backend, proxy_login),
        )
    return Route(PooledTransport(pool, proxied=True), shown)

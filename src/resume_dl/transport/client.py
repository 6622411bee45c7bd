"""The network as the engine sees it: connections kept alive and shared by all threads, one pool for each way out."""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import weakref
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx

from resume_dl.errors import ConfigurationError
from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import redact
from resume_dl.ports import Exchange
from resume_dl.transport.credentials import Logins
from resume_dl.transport.exchange import HttpxExchange, Route
from resume_dl.transport.file_transport import FileExchange
from resume_dl.transport.trust import tls_context, trustful_context
from resume_dl.transport.wire import WireBackend

_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30.0)
"""How many connections there are is decided above; idle ones go before most servers would close them."""


class HttpxTransport:
    """``ports.Transport`` over HTTP/1.1 by httpx, and over ``file://``; may be used from any number of threads.

    httpx's *transports* are used and not its Client: the Client would log whole URLs with their tokens, keep cookies,
    and follow redirects by its own rules. The environment is not read: everything comes from ``network``.
    ``warn`` gets a line for what is wrong with the settings and does not stop a run; the default is this module's
    logger. Raises ConfigurationError (at the first https request or proxy) for certificates or proxies that cannot be
    used.
    """

    def __init__(self, network: NetworkSettings, *, warn: Callable[[str], None] | None = None) -> None:
        # Its debug lines hold whole answer heads, and so the signed addresses that redirects lead to.
        logging.getLogger("httpcore").setLevel(logging.INFO)
        self.network = network
        self.logins = Logins(network.netrc_path, warn or logging.getLogger(__name__).warning)
        self._lock = threading.Lock()
        self._routes: dict[tuple[str | None, bool, bool], Route] = {}
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._exchanges: weakref.WeakSet[HttpxExchange] = weakref.WeakSet()
        self._closed = False

    def exchange(self, request: RangeRequest) -> Exchange:
        """A request that is not sent yet; ``open()`` sends it."""
        if request.url.reveal()[:5].lower() == "file:":
            return FileExchange(request)
        exchange = HttpxExchange(request, network=self.network, logins=self.logins, route=self.route)
        with self._lock:
            self._exchanges.add(exchange)
        if self._closed:
            exchange.abort()
        return exchange

    def route(self, url: str) -> Route:
        """The pool that a request for ``url`` goes through. Raises ConfigurationError."""
        proxy = self.network.proxy_for(url)
        secure = any(address[:6].lower() == "https:" for address in (url, proxy or ""))
        trusted = secure and self.network.trusts(url)
        key = (proxy, secure, trusted)
        with self._lock:
            if key not in self._routes:
                self._routes[key] = self._open_route(proxy, secure=secure, trusted=trusted)
            return self._routes[key]

    def close(self) -> None:
        """Stop every exchange, close every connection. Never raises."""
        with self._lock:
            self._closed = True
            exchanges, routes = [*self._exchanges], [*self._routes.values()]
        for exchange in exchanges:
            exchange.abort()
        for route in routes:
            with contextlib.suppress(Exception):  # it complains about answers in flight; those are stopped
                route.pool.close()

    def _tls(self, *, trusted: bool = False) -> ssl.SSLContext:
        """``trusted``: for a host whose certificate is not checked."""
        if trusted not in self._contexts:
            self._contexts[trusted] = trustful_context(self.network) if trusted else tls_context(self.network)
        return self._contexts[trusted]

    def _open_route(self, proxy: str | None, *, secure: bool, trusted: bool) -> Route:
        context = self._tls(trusted=trusted) if secure else _trusting_nobody()
        if proxy is None:
            return Route(self._wired(httpx.HTTPTransport(verify=context, trust_env=False, limits=_LIMITS)), "")
        address = proxy if "://" in proxy else f"http://{proxy}"
        shown = redact(address)
        try:
            scheme = urlsplit(address).scheme.lower()
            if scheme == "socks5h":  # the same here: the proxy resolves names; httpx 0.27 knows only socks5
                address = "socks5" + address[len(scheme) :]
            # a host may be trusted as it is, the proxy on the way is not
            way = httpx.Proxy(address, ssl_context=self._tls() if scheme == "https" else None)
            pool = httpx.HTTPTransport(verify=context, trust_env=False, limits=_LIMITS, proxy=way)
        except (httpx.InvalidURL, ValueError):
            # Their own text would show the proxy's password.
            raise ConfigurationError(
                f"the proxy {shown} cannot be used",
                hint="Write it as http://host:port; https, socks5 and socks5h proxies work too.",
            ) from None
        return Route(self._wired(pool), shown)

    def _wired(self, pool: httpx.HTTPTransport) -> httpx.HTTPTransport:
        """``pool`` with connections whose readers can be woken; httpx has no public place to name a backend.

        Where a later httpx keeps its pool elsewhere, an exchange is woken by its time-outs only (a test fails then).
        """
        core = getattr(pool, "_pool", None)
        if hasattr(core, "_network_backend"):
            core._network_backend = WireBackend(self.network.first_byte_timeout)  # type: ignore[union-attr]  # noqa: SLF001
        return pool


def _trusting_nobody() -> ssl.SSLContext:
    """For connections without TLS: reading the trusted certificates takes 30 ms, and httpx reads its own for None."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

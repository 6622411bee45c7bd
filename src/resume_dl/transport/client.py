"""The transport: requests from any thread, over shared keep-alive connections."""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import weakref
from collections.abc import Callable

from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.ports import Exchange, Keyring, PluginLogins
from resume_dl.transport.connection_pools import Route, open_route
from resume_dl.transport.credentials import Logins
from resume_dl.transport.exchange import HttpExchange
from resume_dl.transport.file_transport import FileExchange
from resume_dl.transport.request_login import RequestLogin
from resume_dl.transport.tls_contexts import tls_context, unverified_context


class HttpTransport:
    """``ports.Transport`` over HTTP/1.1 by httpx, and over ``file://``; may be used from any number of threads.

    It uses httpx's transport interface and not its Client, which would log whole URLs with their tokens, keep cookies
    and follow redirects by its own rules. The environment is not read: all settings are in ``network``. ``warn`` gets a
    line for each invalid setting that does not stop a run; default: this module's logger. ``keyring``: for pip's
    packages. ``logins``: those of conda's plugins, whose process ends with the transport. Raises ConfigurationError (at
    the first https request or proxy) for certificates or proxies that cannot be used.
    """

    def __init__(
        self,
        network: NetworkSettings,
        *,
        warn: Callable[[str], None] | None = None,
        keyring: Keyring | None = None,
        logins: PluginLogins | None = None,
    ) -> None:
        # Its debug lines contain whole response heads, and so the signed URLs of redirects.
        logging.getLogger("httpcore").setLevel(logging.INFO)
        self.network = network
        self._warn = warn or logging.getLogger(__name__).warning
        self.logins = Logins(network.netrc_path, self._warn, keyring)
        self.plugin_logins = logins
        self._lock = threading.Lock()
        self._routes: dict[tuple[str | None, bool, bool], Route] = {}
        self._contexts: dict[bool, ssl.SSLContext] = {}
        self._exchanges: weakref.WeakSet[HttpExchange] = weakref.WeakSet()
        self._closed = False

    def exchange(self, request: RangeRequest) -> Exchange:
        """Prepare a request; ``open()`` sends it."""
        if request.url.reveal()[:5].lower() == "file:":
            return FileExchange(request, self.network.shares)
        plugins = None if self.plugin_logins is None else RequestLogin(self.plugin_logins, request.url, self._warn)
        exchange = HttpExchange(request, network=self.network, logins=self.logins, route=self.route, plugins=plugins)
        with self._lock:
            self._exchanges.add(exchange)
        if self._closed:
            exchange.abort()
        return exchange

    def route(self, url: str) -> Route:
        """Return the connection pool for a request for ``url``. Raises ConfigurationError."""
        proxy = self.network.proxy_for(url)
        secure = any(address[:6].lower() == "https:" for address in (url, proxy or ""))
        skip_verify = secure and self.network.trusts(url)
        key = (proxy, secure, skip_verify)
        with self._lock:
            if key not in self._routes:
                self._routes[key] = open_route(
                    proxy,
                    tls=self._tls(skip_verify=skip_verify) if secure else None,
                    proxy_tls=self._tls,
                    patience=self.network.first_byte_timeout,
                    auth=self.network.proxy_auth,
                )
            return self._routes[key]

    def close(self) -> None:
        """Stop every exchange, close every connection. Never raises."""
        with self._lock:
            self._closed = True
            exchanges, routes = [*self._exchanges], [*self._routes.values()]
        for exchange in exchanges:
            exchange.abort()
        self.logins.close()
        if self.plugin_logins is not None:
            self.plugin_logins.close()
        for route in routes:
            with contextlib.suppress(Exception):  # it raises for open responses, which are stopped already
                route.transport.close()

    def _tls(self, *, skip_verify: bool = False) -> ssl.SSLContext:
        if skip_verify not in self._contexts:
            self._contexts[skip_verify] = unverified_context(self.network) if skip_verify else tls_context(self.network)
        return self._contexts[skip_verify]

"""One request, with redirects and logins by our own rules; another thread can cancel it at any moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

import httpx

from resume_dl.errors import NetworkError, SourceError
from resume_dl.model.access import PluginLogin
from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.model.private_address import is_private_host
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Response
from resume_dl.transport import redirects
from resume_dl.transport.cancel_handle import CancelHandle
from resume_dl.transport.connection_pools import Route
from resume_dl.transport.credentials import Logins
from resume_dl.transport.failures import FOREIGN, to_ours
from resume_dl.transport.request_address import address_of, request_to
from resume_dl.transport.request_login import RequestLogin
from resume_dl.transport.response import HttpResponse

_UNAUTHORIZED = 401
_DRAINED = 64 * 1024
"""The body of a redirect or a 401 up to this many bytes is read, so that its connection can be used again."""


class HttpExchange:
    """``ports.Exchange``; ``open`` is called by one thread, ``abort`` by any."""

    def __init__(
        self,
        request: RangeRequest,
        *,
        network: NetworkSettings,
        logins: Logins,
        route: Callable[[str], Route],
        plugins: RequestLogin | None = None,
    ) -> None:
        self._request = request
        self._network = network if request.patience is None else _hurried(network, request.patience)
        self._logins = logins
        self._plugins = plugins
        self._asked = request.url.reveal().partition("#")[0]
        """The URL of the first request; a plugin may have added its login to it."""
        self._route = route
        self._handle = CancelHandle()
        self._proxied = False
        self._led_by = ""
        """The public URL that redirected to the current one; empty if none did."""

    def __repr__(self) -> str:
        return f"HttpExchange({self._request.url})"

    def open(self) -> Response:
        """Send the request and follow redirects. Returns the first other response, its body not read yet.

        Raises NetworkError or StalledError; NetworkError also after ``abort``; ConfigurationError for certificates and
        proxies in the settings that cannot be used.
        """
        if self._plugins is None:
            return self._follow(None)[0]
        login = self._plugins.first(self._is_cancelled)
        while True:
            response, url = self._follow(login)
            again = None if login is None else self._plugins.after(login, url, response.head, self._is_cancelled)
            if again is None:
                return response
            response.drain(_DRAINED)
            login = again

    def _follow(self, login: PluginLogin | None) -> tuple[HttpResponse, str]:
        """Send the request with this login, and follow redirects. Returns the answer, and the URL that gave it."""
        if login is not None:
            self._asked = login.url.reveal()
        url = self._asked
        headers = self._headers({} if login is None else login.headers)
        self._led_by = ""
        seen = {url}
        authorization = self._authorization(url)
        while True:
            sent = headers if authorization is None else {"authorization": authorization, **headers}
            attempt = self._send(url, sent)
            if attempt.head.status == _UNAUTHORIZED and self._logins.has_keyring:
                another = self._another_login(attempt, url, authorization)
                if another is None:
                    return attempt, url
                authorization = another  # terminates: the same login is no other one
                continue
            public = not self._is_private(url)
            location = attempt.head.headers.get("location")
            if attempt.head.status not in redirects.REDIRECTS or not location:
                return attempt, url
            try:
                target = redirects.target_of(url, location, seen, public=public)
            except redirects.RedirectRefusedError as refusal:
                attempt.close()
                raise self._refused(url, refusal) from None
            attempt.drain(_DRAINED)
            self._led_by = url if public else ""
            headers = redirects.headers_for(target, url, headers)
            if redirects.origin(target) != redirects.origin(url) or "@" in urlsplit(target).netloc:
                authorization = self._authorization(target)
            url = target
            seen.add(url)

    def _another_login(self, refused: HttpResponse, url: str, sent: str | None) -> str | None:
        """Another Authorization header after a 401, which is as much a step of one request as a redirect is.

        None if there is none; ``refused`` then says why.
        """
        refused.drain(_DRAINED)  # its connection may be used while the keyring is asked
        first = self._request.url.reveal()
        try:
            another, why = self._logins.after_refusal(url, first, sent, lambda: self._handle.cancelled)
        except ValueError:
            return None
        if self._handle.cancelled:
            raise self._stopped()
        refused.explain(why)
        return another

    def abort(self) -> None:
        """Wake the thread that waits in this exchange, and end the body. Never raises."""
        self._handle.cancel()

    def _is_cancelled(self) -> bool:
        return self._handle.cancelled

    def _is_private(self, url: str) -> bool:
        """Whether the server that has just answered for ``url`` is in a private network.

        The peer's address decides on a direct connection, the host name behind a proxy.
        """
        stream = self._handle.stream
        return is_private_host(urlsplit(url).hostname or "") if self._proxied or stream is None else stream.is_private

    def _refused(self, url: str, refusal: redirects.RedirectRefusedError) -> SourceError:
        return NetworkError(
            f"{_host(url)}: {refusal}",
            source=str(self._request.url),
            retryable=False,
            hint="Use another mirror, or the address to which it should redirect.",
        )

    def _headers(self, login: Mapping[str, str]) -> dict[str, str]:
        request = self._request
        headers = {name.lower(): value for name, value in (*login.items(), *request.headers.items())}
        headers.setdefault("user-agent", self._network.user_agent)
        headers.setdefault("accept", "*/*")
        headers["accept-encoding"] = "gzip" if request.packed else "identity"
        if not request.whole:
            last = "" if request.end is None else str(request.end - 1)
            headers["range"] = f"bytes={request.start}-{last}"
            if request.if_range is not None:
                headers["if-range"] = request.if_range
        return headers

    def _authorization(self, url: str) -> str | None:
        try:
            return self._logins.authorization(url)
        except ValueError:
            return None  # a malformed URL is refused when the request is sent

    def _send(self, url: str, headers: dict[str, str]) -> HttpResponse:
        network = self._network
        timeouts: dict[str, float | None] = {
            "connect": network.connect_timeout,
            "read": network.first_byte_timeout,
            "write": network.first_byte_timeout,
            "pool": network.connect_timeout,
        }
        proxy = ""
        while True:
            if self._handle.cancelled:
                raise self._stopped()
            try:
                route = self._route(url)
                proxy = route.proxy
                self._proxied = bool(proxy)
                self._handle.public_only = bool(self._led_by) and not proxy
                request = request_to(address_of(url), headers, timeouts)
                with self._handle.attached():
                    response = route.transport.handle_request(request)
            except FOREIGN as error:
                if self._handle.stream is not None:
                    self._handle.stream.close()  # httpcore leaves it open if a SOCKS handshake fails
                asked = url == self._asked
                ours = to_ours(
                    error, host=_host(url), source=str(self._request.url), network=network, proxy=proxy, asked=asked
                )
                # A DNS lookup cannot be interrupted; its failure is reported even after an abort.
                is_news = isinstance(ours, NetworkError) and bool(ours.unresolved)
                if self._handle.cancelled:
                    raise (ours if is_news else self._stopped()) from None
                if self._handle.met_private:
                    raise self._refused(self._led_by, redirects.private_refused(_host(url))) from None
                if isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError)) and self._handle.went_stale:
                    continue  # terminates: each iteration removes an idle connection from the pool
                # httpx's message for a bad URL may quote a password.
                raise ours from (error if ours.retryable else None)
            return HttpResponse(
                response,
                self._handle,
                timeouts,
                url=url,
                asked=self._asked,
                source=str(self._request.url),
                network=network,
            )

    def _stopped(self) -> SourceError:
        return NetworkError("the request was stopped", source=str(self._request.url))


def _hurried(network: NetworkSettings, patience: float) -> NetworkSettings:
    return replace(
        network,
        connect_timeout=min(network.connect_timeout, patience),
        first_byte_timeout=min(network.first_byte_timeout, patience),
        read_timeout=min(network.read_timeout, patience),
    )


def _host(url: str) -> str:
    try:
        return RedactedUrl(url).host
    except ValueError:
        return ""

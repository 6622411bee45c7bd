"""One request and its answer: redirects followed by hand, and a stop from another thread at any moment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx

from resume_dl.errors import NetworkError, SourceError, StalledError
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.network import NetworkSettings
from resume_dl.model.private_address import is_private_host
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Response
from resume_dl.transport import redirects
from resume_dl.transport.body import chunks_of
from resume_dl.transport.credentials import Logins
from resume_dl.transport.failures import FOREIGN, to_ours
from resume_dl.transport.plain_address import address_of
from resume_dl.transport.wire import Grip

_DRAINED = 64 * 1024
"""A redirect's own body up to this many bytes is read, so that its connection can be used again."""


class Route(NamedTuple):
    """One way out: the pool, and the proxy it goes through, redacted (empty: direct)."""

    pool: httpx.HTTPTransport
    proxy: str


class HttpxExchange:
    """``ports.Exchange``; ``open`` belongs to one worker thread, ``abort`` to everyone."""

    def __init__(
        self, request: RangeRequest, *, network: NetworkSettings, logins: Logins, route: Callable[[str], Route]
    ) -> None:
        self._request = request
        self._network = network if request.patience is None else _hurried(network, request.patience)
        self._logins = logins
        self._route = route
        self._grip = Grip()
        self._proxied = False
        self._led_by = ""
        """The public address that has led to the one that is asked now, if one has."""

    def __repr__(self) -> str:
        return f"HttpxExchange({self._request.url})"

    def open(self) -> Response:
        """Send the request and follow redirects; the answer of any other status, its body still on the wire.

        Raises NetworkError or StalledError; NetworkError also when ``abort`` came first. ConfigurationError where the
        settings' certificates or proxies cannot be used.
        """
        url = self._request.url.reveal().partition("#")[0]
        headers = self._headers()
        seen = {url}
        authorization = self._authorization(url)
        while True:
            sent = headers if authorization is None else {"authorization": authorization, **headers}
            attempt = self._send(url, sent)
            public = not self._is_private(url)
            location = attempt.response.headers.get("location")
            if attempt.response.status_code not in redirects.REDIRECTS or not location:
                return attempt
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

    def abort(self) -> None:
        """Wake the thread that waits in this exchange; what it reads from now on ends. Never raises."""
        self._grip.release()

    def _is_private(self, url: str) -> bool:
        """Whether the server that has just answered for ``url`` is in a private network.

        Of a connection of our own its other end tells; behind a proxy only the host's own name may.
        """
        wire = self._grip.wire
        return is_private_host(urlsplit(url).hostname or "") if self._proxied or wire is None else wire.is_private

    def _refused(self, url: str, refusal: redirects.RedirectRefusedError) -> SourceError:
        return NetworkError(
            f"{_host(url)}: {refusal}",
            source=str(self._request.url),
            retryable=False,
            hint="Use another mirror, or the address that it should lead to.",
        )

    def _headers(self) -> dict[str, str]:
        request = self._request
        headers = {name.lower(): value for name, value in request.headers.items()}
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
            return None  # an address that cannot be read is refused where it is sent

    def _send(self, url: str, headers: dict[str, str]) -> HttpxResponse:
        network = self._network
        timeouts: dict[str, float | None] = {
            "connect": network.connect_timeout,
            "read": network.first_byte_timeout,
            "write": network.first_byte_timeout,
            "pool": network.connect_timeout,
        }
        proxy = ""
        while True:
            if self._grip.aborted:
                raise self._stopped()
            try:
                if not _host(url):
                    raise httpx.InvalidURL("no host")
                route = self._route(url)
                proxy = route.proxy
                self._proxied = bool(proxy)
                self._grip.public_only = bool(self._led_by) and not proxy
                address = address_of(url)
                request = httpx.Request("GET", address, headers=headers, extensions={"timeout": timeouts})
                request.url = address  # a later httpx may make a copy of what it is given
                with self._grip.held():
                    response = _answer(route, request)
            except FOREIGN as error:
                if self._grip.wire is not None:
                    self._grip.wire.close()  # httpcore leaves it open where a SOCKS handshake fails
                asked = url == self._request.url.reveal().partition("#")[0]
                ours = to_ours(
                    error, host=_host(url), source=str(self._request.url), network=network, proxy=proxy, asked=asked
                )
                # a lookup cannot be woken, and what it says is news all the same
                is_news = isinstance(ours, NetworkError) and bool(ours.unresolved)
                if self._grip.aborted:
                    raise (ours if is_news else self._stopped()) from None
                if self._grip.met_private:
                    raise self._refused(self._led_by, redirects.private_refused(_host(url))) from None
                if isinstance(error, (httpx.ReadError, httpx.RemoteProtocolError)) and self._grip.went_stale:
                    continue  # ends: each time round one idle connection leaves the pool
                # The foreign text of a bad address may quote a password in it.
                raise ours from (error if ours.retryable else None)
            return HttpxResponse(
                response,
                self._grip,
                timeouts,
                url=url,
                asked=self._request.url.reveal().partition("#")[0],
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


class HttpxResponse:
    """``ports.Response``: a head, and a body that is still on the wire."""

    def __init__(
        self,
        response: httpx.Response,
        grip: Grip,
        timeouts: dict[str, float | None],
        *,
        url: str,
        asked: str,
        source: str,
        network: NetworkSettings,
    ) -> None:
        self.response = response
        self._grip = grip
        self._timeouts = timeouts
        self._source = source
        self._network = network
        moved = None if url == asked else RedactedUrl(url)
        self._head = ResponseHead(response.status_code, dict(response.headers.items()), _host(url), moved)

    @property
    def head(self) -> ResponseHead:
        """Status, headers and host of the last answer."""
        return self._head

    def chunks(self) -> Iterator[bytes]:
        """Raw body bytes as they come, at most ``body.MOST`` each; see ``ports.Response``."""
        # The body's time-out is read from this very dictionary when its first byte is waited for.
        self._timeouts["read"] = self._network.read_timeout
        return self._read()

    def _read(self) -> Iterator[bytes]:
        grip = self._grip
        try:
            for chunk in chunks_of(self.response, self._network.read_timeout):
                if grip.aborted:
                    break
                yield chunk
        except FOREIGN as error:
            if not grip.aborted:
                raise self._broken(error) from error
        finally:
            self.close()

    def drain(self, most: int) -> None:
        """Read a short body to its end, so that the connection can be used again; give up silently."""
        with contextlib.suppress(SourceError):
            for chunk in self._read():
                most -= len(chunk)
                if most < 0:
                    break
        self.close()

    def close(self) -> None:
        """Give the connection back, or drop it where the body was not read to its end. Never raises."""
        with contextlib.suppress(Exception):  # whatever goes wrong here, the bytes that came stay right
            self.response.close()
        self._grip.let_go()

    def _broken(self, error: Exception) -> SourceError:
        host = self._head.final_host
        if isinstance(error, httpx.TimeoutException):
            return StalledError(f"{host}: no byte came for {self._network.read_timeout:g} s", source=self._source)
        return to_ours(error, host=host, source=self._source, network=self._network)


def _answer(route: Route, request: httpx.Request) -> httpx.Response:
    try:
        return route.pool.handle_request(request)
    except FOREIGN:
        raise
    except Exception as error:
        if not route.proxy:
            raise
        # A SOCKS proxy's answer is parsed with assertions and indices: any exception may come of a strange one.
        raise httpx.ProxyError("its answer cannot be read") from error


def _host(url: str) -> str:
    try:
        return RedactedUrl(url).host
    except ValueError:
        return ""

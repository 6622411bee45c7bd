"""Connections to an HTTP proxy that are logged in before their first request is answered.

NTLM and Negotiate log in a connection, by several messages that must all go through it: httpcore sends one request and
takes one answer. So the first request of a connection is held here: it is sent again with each message of the login,
and httpcore gets only the last answer. Later requests pass as they are.
"""

from __future__ import annotations

import math
import ssl
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import h11
import httpcore

from resume_dl.model.proxy_auth import ProxyAuth, challenge_of
from resume_dl.transport.announced_body import MAX_HEAD
from resume_dl.transport.cancel_handle import current_handle
from resume_dl.transport.proxy_login import Messages, ProxyLogin

MAX_ANSWER = 256 * 1024
"""Bytes of a 407, page included, that are read before its connection is given up."""
MAX_MESSAGES = 6
"""Messages of one login: NTLM has two, Kerberos one or two, and each may be wrapped in one more negotiation."""
_READ = 64 * 1024
_PROVES = 1
"""The number, from 0, of the first message that may prove a password."""

Connect = Callable[[float | None], httpcore.NetworkStream]


class ProxyBackend(httpcore.NetworkBackend):
    """Opens the connections of one proxy's pool, by ``inner``."""

    def __init__(self, inner: httpcore.NetworkBackend, login: ProxyLogin) -> None:
        self._inner = inner
        self._login = login

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect. Raises what ``inner`` does, and ConfigurationError if the proxy has refused the login before."""
        self._login.check()

        def connect(left: float | None) -> httpcore.NetworkStream:
            within = left if timeout is None or left is None else min(timeout, left)
            return self._inner.connect_tcp(host, port, within, local_address, socket_options)

        return ProxyConnection(connect(timeout), connect, self._login)


class _EndedError(Exception):
    """The proxy has ended the connection before its answer, or says that it does so after it."""


@dataclass(frozen=True, slots=True)
class _Answer:
    received: bytes
    """Empty if the connection ended without an answer."""
    status: int = 0
    """0 for an answer that is not HTTP/1.1, which httpcore is to judge."""
    challenges: tuple[str, ...] = ()
    goes_on: bool = True
    """Whether the connection takes another request."""


class ProxyConnection(httpcore.NetworkStream):
    """A connection to a proxy, which logs in with its first request; ``connect`` makes another one to the same proxy.

    With ``ProxyAuth.BASIC`` it only reads the answer to CONNECT, whose refusal httpcore does not explain.
    """

    def __init__(self, stream: httpcore.NetworkStream, connect: Connect, login: ProxyLogin) -> None:
        self.stream = stream
        """The connection in use."""
        self._connect = connect
        self._login = login
        self._secured: Callable[[httpcore.NetworkStream, float | None], httpcore.NetworkStream] | None = None
        self._passed = False
        self._early = b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send; the first request is sent with the login, and its answer kept for ``read``.

        ``timeout`` in seconds; for the whole login. Raises httpcore's exceptions, and ConfigurationError if the proxy
        refuses the login.
        """
        is_basic = self._login.auth is ProxyAuth.BASIC
        if self._passed or not buffer or (is_basic and not buffer.startswith(b"CONNECT ")):
            self.stream.write(buffer, timeout)
            return
        with self._login.turn():
            ends = math.inf if timeout is None else time.monotonic() + timeout
            self._early = self._answered(buffer, ends) if is_basic else self._logged_in(buffer, ends)
        self._passed = True

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes; b"" at the end."""
        if not self._early:
            return self.stream.read(max_bytes, timeout)
        data, self._early = self._early[:max_bytes], self._early[max_bytes:]
        return data

    def close(self) -> None:
        """Close the connection."""
        self.stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Before the first request: TLS to the proxy. After it: TLS to the server, on the connection below."""
        if self._passed:
            return self.stream.start_tls(ssl_context, server_hostname, timeout)

        def secured(stream: httpcore.NetworkStream, timeout: float | None) -> httpcore.NetworkStream:
            return stream.start_tls(ssl_context, server_hostname, timeout)

        self.stream = secured(self.stream, timeout)
        self._secured = secured
        return self

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        return self.stream.get_extra_info(info)

    def _answered(self, request: bytes, ends: float) -> bytes:
        """Send ``request`` as it is."""
        self.stream.write(request, _left(ends))
        answer = self._receive(request, ends)
        if answer.status == 407:
            raise self._login.refused(answer.challenges)
        if answer.status:
            self._login.accepted()
        return answer.received

    def _logged_in(self, request: bytes, ends: float) -> bytes:
        """Log in, once more on another connection if the proxy ends this one between two messages."""
        try:
            return self._log_in(request, ends)
        except _EndedError:
            pass
        if _is_cancelled():
            raise httpcore.ReadError("stopped")
        self.stream.close()
        self.stream = self._connect(_left(ends))
        if self._secured is not None:
            self.stream = self._secured(self.stream, _left(ends))
        try:
            return self._log_in(request, ends)
        except _EndedError:
            raise httpcore.RemoteProtocolError("Server disconnected without sending a response.") from None

    def _log_in(self, request: bytes, ends: float) -> bytes:
        login = self._login
        messages = login.messages()
        message = messages.first
        for number in range(MAX_MESSAGES):
            header = f"Proxy-Authorization: {login.auth.scheme} ".encode()
            try:
                answer = self._ask(b"%b%b%b\r\n\r\n" % (request[:-2], header, message), ends)
            except _EndedError:
                if number < _PROVES:
                    raise
                login.unanswered()
                raise httpcore.RemoteProtocolError("Server disconnected without sending a response.") from None
            except httpcore.TimeoutException:
                if number >= _PROVES:
                    login.unanswered()
                raise
            if answer.status != 407:
                if answer.status:
                    login.accepted()
                return answer.received
            message = self._next(messages, answer)
            if not answer.goes_on:
                raise _EndedError
        raise login.unreadable()

    def _next(self, messages: Messages, answer: _Answer) -> bytes:
        try:
            challenge = challenge_of(answer.challenges, self._login.auth)
            if challenge and not messages.complete:
                return messages.answer(challenge)
        except ValueError:
            raise self._login.unreadable() from None
        raise self._login.refused(answer.challenges)

    def _ask(self, request: bytes, ends: float) -> _Answer:
        """Send ``request`` and read its answer. Raises _EndedError."""
        try:
            self.stream.write(request, _left(ends))
            answer = self._receive(request, ends)
        except (httpcore.WriteError, httpcore.ReadError):
            if _is_cancelled():
                raise
            raise _EndedError from None
        if not answer.received:
            raise _EndedError
        return answer

    def _receive(self, request: bytes, ends: float) -> _Answer:
        """The head of the answer and what came with it; of a 407 in a login the body too."""
        method, target, _ = request.split(b" ", 2)
        parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        parser.send(h11.Request(method=method, target=target, headers=[("Host", "proxy")]))
        parser.send(h11.EndOfMessage())
        received = bytearray()
        head: h11.Response | None = None
        while True:
            try:
                event = parser.next_event()
            except h11.RemoteProtocolError:
                event = h11.ConnectionClosed()
            if event is h11.NEED_DATA:
                data = self.stream.read(_READ, _left(ends))
                received += data
                if len(received) > MAX_ANSWER:
                    if head is None:  # httpcore would read on, for as long as interim heads (1xx) come
                        raise httpcore.RemoteProtocolError("the head is too long")
                    event = h11.ConnectionClosed()
                else:
                    parser.receive_data(data)
                    continue
            if isinstance(event, h11.Response):
                head = event
                if head.status_code != 407:
                    return _Answer(bytes(received), head.status_code)
                if self._login.auth is ProxyAuth.BASIC:  # ends the connection; its page may never come
                    return _Answer(bytes(received), 407, _values(head, b"proxy-authenticate"), goes_on=False)
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)) or event is h11.PAUSED:
                if head is None:
                    return _Answer(bytes(received))
                goes_on = isinstance(event, h11.EndOfMessage) and _goes_on(head, parser)
                return _Answer(bytes(received), 407, _values(head, b"proxy-authenticate"), goes_on)


def _goes_on(head: h11.Response, parser: h11.Connection) -> bool:
    options = ",".join(_values(head, b"connection") + _values(head, b"proxy-connection")).lower()
    words = {word.strip() for word in options.split(",")}
    if "close" in words or parser.trailing_data[0]:
        return False
    return parser.their_state is h11.DONE or "keep-alive" in words  # the latter: HTTP/1.0


def _values(head: h11.Response, name: bytes) -> tuple[str, ...]:
    return tuple(value.decode("latin-1") for each, value in head.headers if each == name)


def _is_cancelled() -> bool:
    handle = current_handle()
    return handle is not None and handle.cancelled


def _left(ends: float) -> float | None:
    """Seconds until ``ends``. Raises httpcore.ReadTimeout after it."""
    left = ends - time.monotonic()
    if left <= 0:
        raise httpcore.ReadTimeout("the login took too long")
    return None if ends == math.inf else left

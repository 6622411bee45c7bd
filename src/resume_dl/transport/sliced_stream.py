"""Connections that are read in slices of time, for systems on which no other thread can end a wait.

On Windows ``shutdown`` wakes neither ``recv`` nor ``select``, so a reader looks every ``SLICE`` seconds whether it is
still wanted. TLS is done in memory above these reads: ``ssl``'s own sockets close themselves when a handshake is cut
off, and can do no TLS in TLS.
"""

from __future__ import annotations

import contextlib
import math
import ssl
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import httpcore

SLICE = 0.2
"""Seconds of one wait: a cancelled reader ends within it."""
_AT_ONCE = 256 * 1024
"""Bytes of one read below TLS."""

T = TypeVar("T")


class SlicedStream(httpcore.NetworkStream):
    """``stream``, an unencrypted one, whose reads end within ``SLICE`` once ``stopped()``."""

    def __init__(self, stream: httpcore.NetworkStream, stopped: Callable[[], bool]) -> None:
        self._stream = stream
        self._stopped = stopped

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes; b"" at the end. Raises httpcore's ReadTimeout and ReadError, the latter once stopped."""
        ends = _end_of(timeout)
        while True:
            left = ends - time.monotonic()
            try:
                return self._stream.read(max_bytes, max(0.001, min(SLICE, left)))
            except httpcore.ReadTimeout:
                if self._stopped():
                    raise httpcore.ReadError("stopped") from None
                if left <= SLICE:
                    raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send. Not in slices: requests are far smaller than what the system takes without a wait."""
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """A stream with TLS above this one; see ``MemoryTls``."""
        return MemoryTls(self, ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        return self._stream.get_extra_info(info)


class MemoryTls(httpcore.NetworkStream):
    """TLS between this process's memory and the bytes of ``below``, which may be TLS itself.

    Making one does the handshake, in ``timeout`` seconds. Raises httpcore's ConnectTimeout and ConnectError.
    """

    def __init__(
        self, below: httpcore.NetworkStream, context: ssl.SSLContext, server_hostname: str | None, timeout: float | None
    ) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=server_hostname)
        try:
            with _translated(httpcore.ConnectError):
                self._run(self._tls.do_handshake, timeout)
        except httpcore.TimeoutException as error:
            raise httpcore.ConnectTimeout(error) from error
        except (httpcore.ReadError, httpcore.WriteError) as error:
            raise httpcore.ConnectError(error) from error

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """The next bytes; b"" at the end, also where the server ends the connection without ending TLS.

        ``timeout`` in seconds, for all reads below. Raises httpcore's ReadTimeout and ReadError.
        """
        with _translated(httpcore.ReadError):
            try:
                return self._run(lambda: self._tls.read(max_bytes), timeout)
            except ssl.SSLEOFError:
                return b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send. Raises httpcore's WriteTimeout and WriteError."""
        with _translated(httpcore.WriteError):
            view = memoryview(buffer)
            while view:
                view = view[self._run(partial(self._tls.write, view), timeout) :]

    def close(self) -> None:
        """Close the connection."""
        self._below.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """TLS in this TLS, to a server behind an https proxy."""
        return MemoryTls(self, ssl_context, server_hostname, timeout)

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        if info == "ssl_object":
            return self._tls
        if info == "is_readable" and self._incoming.pending:
            return True  # it was taken from the system already, which would deny it
        return self._below.get_extra_info(info)

    def _run(self, call: Callable[[], T], timeout: float | None) -> T:
        """The result of one TLS call, with the reads and writes below that it takes."""
        ends = _end_of(timeout)
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                self._flush(ends)
            except ssl.SSLError:
                with contextlib.suppress(httpcore.NetworkError, httpcore.TimeoutException):
                    self._flush(ends)  # the alert, which tells the server why
                raise
            else:
                self._flush(ends)
                return result
            data = self._below.read(_AT_ONCE, _left(ends))
            if data:
                self._incoming.write(data)
            else:
                self._incoming.write_eof()

    def _flush(self, ends: float) -> None:
        if data := self._outgoing.read():
            self._below.write(data, _left(ends))


def _end_of(timeout: float | None) -> float:
    return math.inf if timeout is None else time.monotonic() + timeout


def _left(ends: float) -> float | None:
    return None if ends == math.inf else max(0.001, ends - time.monotonic())


@contextlib.contextmanager
def _translated(kind: type[httpcore.NetworkError]) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # of ssl; the streams below raise httpcore's
        raise kind(error) from error

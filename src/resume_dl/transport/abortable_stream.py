"""Connections whose reader another thread can wake at any moment after the TCP connect.

``close()`` from another thread does not wake a thread that waits in ``recv``; ``shutdown`` does, but
``SSLSocket.shutdown`` also takes the TLS layer off, and its reader is then handed ciphertext as body bytes. So each
connection keeps a second, plain handle (``dup``) of its socket from the start and shuts that down: the same for
plain connections, in a TLS handshake, behind a proxy, and on a kept-alive connection whose next head is awaited.
On a system where that wakes no reader (Windows), connections are read in slices of time instead (``sliced_stream``).
A wait for DNS or for the TCP connect cannot be woken; both are bounded by the connect time-out.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable
from typing import Any

import httpcore

from resume_dl.model.private_address import is_private_address
from resume_dl.transport.announced_body import AnnouncedBody
from resume_dl.transport.cancel_handle import CancelHandle, current_handle
from resume_dl.transport.sliced_stream import SlicedStream


class AbortableStream(httpcore.NetworkStream):
    """A network stream that knows which exchange uses it; ``shut_down`` ends that exchange's wait.

    ``in_slices``: it is read in slices, each of which looks at the exchange's mark.
    """

    def __init__(
        self, stream: httpcore.NetworkStream, handle: socket.socket, patience: float, *, in_slices: bool
    ) -> None:
        self._in_slices = in_slices
        self._stream = SlicedStream(stream, self._is_cancelled) if in_slices else stream
        self._handle = handle
        self._patience = patience
        self._lock = threading.Lock()
        self._user: CancelHandle | None = None
        self.reused = False
        self.answered = False
        self.is_private = _is_private(handle)
        """Whether its other end is in a private network; of a connection through a proxy that is the proxy's."""
        self.body = AnnouncedBody()
        self._attach()

    def _attach(self) -> None:
        handle = current_handle()
        if handle is None:
            return
        with self._lock:
            if self._user is not handle:
                self.reused = self._user is not None
                self.answered = False
                self._user = handle
        handle.stream = self
        if handle.cancelled:
            raise httpcore.ReadError("stopped")
        if handle.public_only and self.is_private:
            handle.met_private = True
            raise httpcore.ConnectError("it leads into a private network")

    def shut_down(self, handle: CancelHandle) -> None:
        """Wake the reader if it still works for ``handle``. Never raises."""
        if self._in_slices:
            return  # it looks by itself
        with self._lock:  # so that the descriptor cannot be closed, and given to another file, in between
            if self._user is handle:
                with contextlib.suppress(OSError):  # not connected any more: no thread waits
                    self._handle.shutdown(socket.SHUT_RDWR)

    def _is_cancelled(self) -> bool:
        user = self._user
        return user is not None and user.cancelled

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What httpcore reads: the connection's bytes but for announced bodies; b"" at the end.

        ``timeout`` in seconds, for each read from the connection.
        """
        if self.body.awaits_head:
            return self.body.head(lambda: self._receive(max_bytes, timeout))
        return self._receive(max_bytes, timeout)

    def read_body(self, timeout: float | None) -> bytes:
        """The next bytes of a body that httpcore does not see; b"" at its end or if there is none.

        Raises httpcore.RemoteProtocolError if the connection ends before the body, ReadTimeout and ReadError.
        """
        data = self.body.read(lambda most: self._receive(most, timeout))
        if not data and self.body.left:
            raise httpcore.RemoteProtocolError(ENDED_IN_BODY)
        return data

    def _receive(self, max_bytes: int, timeout: float | None) -> bytes:
        # httpcore reads a SOCKS proxy's greeting without any time-out.
        data = self._stream.read(max_bytes, self._patience if timeout is None else timeout)
        if data:
            self.answered = True
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send; an exchange that sends on a kept-alive connection uses it from then on."""
        self._attach()
        self.body.sent(buffer)
        self._stream.write(buffer, self._patience if timeout is None else timeout)

    def close(self) -> None:
        """Close both handles: the connection ends with the last one."""
        with self._lock:
            self._handle.close()
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Put TLS on this connection. Returns this same object, so that its reader can still be woken."""
        try:
            self._stream = self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            self.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        """See httpcore; an idle connection that ``is_readable`` is closed by its pool and not used again."""
        if info == "is_readable" and self.body.has_surplus:
            return True
        return self._stream.get_extra_info(info)


ENDED_IN_BODY = "the connection ended before the body did"


def _is_private(handle: socket.socket) -> bool:
    try:
        peer = handle.getpeername()
    except OSError:
        return False  # it has ended already: nothing can be sent
    return is_private_address(str(peer[0]))


class AbortableBackend(httpcore.NetworkBackend):
    """Opens connections as httpcore does, each as an AbortableStream.

    ``patience``: the time-out in seconds of reads and writes for which httpcore states none. ``in_slices``: see there.
    """

    def __init__(self, patience: float, *, in_slices: bool = False) -> None:
        self._inner = httpcore.SyncBackend()
        self._patience = patience
        self._in_slices = in_slices

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect, as httpcore does. Raises httpcore's ConnectError and ConnectTimeout."""
        try:
            stream = self._connect(host, port, timeout, local_address, socket_options)
        except socket.gaierror as error:
            raise httpcore.ConnectError(error) from error
        try:
            handle = stream.get_extra_info("socket").dup()
        except OSError as error:
            stream.close()
            raise httpcore.ConnectError(error) from error
        try:
            return AbortableStream(stream, handle, self._patience, in_slices=self._in_slices)
        except BaseException:
            handle.close()
            stream.close()
            raise

    def _connect(self, host: str, *more: Any) -> httpcore.NetworkStream:
        try:
            return self._inner.connect_tcp(host, *more)
        except UnicodeError as error:  # what the name's encoding (IDNA) says before DNS is asked
            raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error

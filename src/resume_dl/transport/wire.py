"""Sockets that another thread can wake their reader from, at any moment after the TCP connect.

``close()`` from another thread does not wake a thread that waits in ``recv``; ``shutdown`` does, but
``SSLSocket.shutdown`` also takes the TLS layer off, and its reader is then handed ciphertext as body bytes. So each
connection keeps a second, plain handle (``dup``) of its socket from the start and shuts that down: the same for
plain connections, in a TLS handshake, behind a proxy, and on a kept-alive connection whose next head is awaited.
A wait for DNS or for the TCP connect cannot be woken; both are bounded by the connect time-out.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore

from resume_dl.model.private_address import is_private_address


class Grip:
    """One exchange's hold on the connection that it uses now; ``release`` works from any thread."""

    __slots__ = ("aborted", "met_private", "public_only", "wire")

    def __init__(self) -> None:
        self.aborted = False
        """Set once, never cleared. The reader looks at it after each read."""
        self.wire: Wire | None = None
        self.public_only = False
        """Nothing may be sent to an address in a private network: a public server has led here."""
        self.met_private = False
        """``public_only`` was set, and the connection leads to such an address."""

    def release(self) -> None:
        """Mark, then wake whoever waits on this exchange's connection. Never raises."""
        # In this order: a worker that takes a connection sets ``wire`` first and looks at the mark then.
        self.aborted = True
        wire = self.wire
        if wire is not None:
            wire.shut_down(self)

    def let_go(self) -> None:
        """The answer is over: its connection may already serve others, and is left alone from now on."""
        self.wire = None

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Connections that this thread opens or writes to inside the block belong to this exchange."""
        _here.grip = self
        try:
            yield
        finally:
            _here.grip = None

    @property
    def went_stale(self) -> bool:
        """Whether the connection had served before and closed without a byte of this answer.

        A server may close an idle connection while a request is on its way; a GET is sent again then (RFC 9112 9.3.1).
        """
        return self.wire is not None and self.wire.reused and not self.wire.answered


class _Here(threading.local):
    grip: Grip | None = None


_here = _Here()


class Wire(httpcore.NetworkStream):
    """A network stream of httpcore's that knows for whom it works and can be shut down by anyone."""

    def __init__(self, stream: httpcore.NetworkStream, handle: socket.socket, patience: float) -> None:
        self._stream = stream
        self._handle = handle
        self._patience = patience
        self._lock = threading.Lock()
        self._holder: Grip | None = None
        self._trouble: Exception | None = None
        self.reused = False
        self.answered = False
        self.is_private = _is_private(handle)
        """Whether its other end is in a private network; of a connection through a proxy that is the proxy's."""
        self._take()

    def _take(self) -> None:
        grip = _here.grip
        if grip is None:
            return
        with self._lock:
            if self._holder is not grip:
                self.reused = self._holder is not None
                self.answered = False
                self._holder = grip
        grip.wire = self
        if grip.aborted:
            raise httpcore.ReadError("stopped")
        if grip.public_only and self.is_private:
            grip.met_private = True
            raise httpcore.ConnectError("it leads into a private network")

    def shut_down(self, grip: Grip) -> None:
        """Wake the reader, if it still works for this exchange. Never raises."""
        with self._lock:  # so that the descriptor cannot be closed, and given to another file, in between
            if self._holder is grip:
                with contextlib.suppress(OSError):  # not connected any more: nobody waits
                    self._handle.shutdown(socket.SHUT_RDWR)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """At most ``max_bytes``; b"" at the end, and after ``shut_down`` once the kernel's buffer is empty."""
        if self._trouble is not None:
            raise self._trouble
        # httpcore reads a SOCKS proxy's greeting without any time-out.
        data = self._stream.read(max_bytes, self._patience if timeout is None else timeout)
        if data:
            self.answered = True
        return data

    def read_or_keep_trouble(self, max_bytes: int, timeout: float) -> bytes:
        """``read`` for who reads past httpcore: trouble is b"" here, and raised at httpcore's own next read."""
        try:
            return self.read(max_bytes, timeout)
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            self._trouble = error
            return b""

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send; whoever sends on a kept-alive connection holds it from then on."""
        self._take()
        self._stream.write(buffer, self._patience if timeout is None else timeout)

    def close(self) -> None:
        """Close both handles: the connection ends with the last one."""
        with self._lock:
            self._handle.close()
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        """Put TLS on this connection; the same object goes on, so that a reader in it can be woken."""
        try:
            self._stream = self._stream.start_tls(ssl_context, server_hostname, timeout)
        except BaseException:
            self.close()
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        """See httpcore."""
        return self._stream.get_extra_info(info)


def _is_private(handle: socket.socket) -> bool:
    try:
        peer = handle.getpeername()
    except OSError:
        return False  # it has ended already: nothing can be sent
    return is_private_address(str(peer[0]))


class WireBackend(httpcore.NetworkBackend):
    """Opens connections as httpcore does, each as a ``Wire``; ``patience`` in seconds where httpcore names none."""

    def __init__(self, patience: float) -> None:
        self._inner = httpcore.SyncBackend()
        self._patience = patience

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
            return Wire(stream, handle, self._patience)
        except BaseException:
            handle.close()
            stream.close()
            raise

    def _connect(self, host: str, *more: Any) -> httpcore.NetworkStream:
        try:
            return self._inner.connect_tcp(host, *more)
        except UnicodeError as error:  # what the name's encoding (IDNA) says before DNS is asked
            raise socket.gaierror(socket.EAI_NONAME, "not a host name") from error

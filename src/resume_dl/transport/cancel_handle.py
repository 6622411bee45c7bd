"""Stops a request from another thread, whatever its own thread waits for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol


class CancellableStream(Protocol):
    """What a CancelHandle needs of a connection."""

    reused: bool
    """It has served another exchange before."""
    answered: bool
    """A byte of this exchange's answer came."""
    is_private: bool
    """Its other end is in a private network."""

    def shut_down(self, handle: CancelHandle) -> None:
        """End the wait of the thread that reads for ``handle``. Never raises."""

    def close(self) -> None:
        """End the connection."""


class CancelHandle:
    """Cancels one exchange; ``cancel`` may be called from any thread."""

    __slots__ = ("cancelled", "met_private", "public_only", "stream")

    def __init__(self) -> None:
        self.cancelled = False
        """Set once, never cleared. The reader checks it after each read."""
        self.stream: CancellableStream | None = None
        """The connection that the exchange uses now."""
        self.public_only = False
        """Nothing may be sent to an address in a private network: a public server redirected to it."""
        self.met_private = False
        """``public_only`` was set, and the connection leads to such an address."""

    def cancel(self) -> None:
        """Mark the exchange as cancelled, then wake the thread that waits for its connection. Never raises."""
        # In this order: a thread that takes a connection sets ``stream`` first and checks the mark then.
        self.cancelled = True
        stream = self.stream
        if stream is not None:
            stream.shut_down(self)

    def detach(self) -> None:
        """Forget the connection: the answer has ended, and the connection may serve another exchange already."""
        self.stream = None

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Inside the block, connections that this thread opens or writes to belong to this exchange."""
        _thread.handle = self
        try:
            yield
        finally:
            _thread.handle = None

    @property
    def went_stale(self) -> bool:
        """Whether the connection had served before and closed without a byte of this answer.

        A server may close an idle connection while a request is on its way; a GET is sent again then (RFC 9112 9.3.1).
        """
        return self.stream is not None and self.stream.reused and not self.stream.answered


class _Thread(threading.local):
    handle: CancelHandle | None = None


_thread = _Thread()


def current_handle() -> CancelHandle | None:
    """The handle whose ``attached`` block this thread is in."""
    return _thread.handle

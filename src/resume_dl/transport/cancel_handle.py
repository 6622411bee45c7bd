"""Cancellation of a request by another thread, whatever the request's own thread waits for."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Protocol


class CancellableStream(Protocol):
    """What a CancelHandle needs of a connection."""

    reused: bool
    """Whether it has served another exchange before."""
    answered: bool
    """Whether a byte of this exchange's response has arrived."""
    is_private: bool
    """Whether its peer is in a private network."""

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
        """The exchange's current connection."""
        self.public_only = False
        """Whether private addresses are refused, because a public server redirected to this one."""
        self.met_private = False
        """Whether ``public_only`` was set and the connection leads to a private address."""

    def cancel(self) -> None:
        """Mark the exchange as cancelled, then wake the thread that waits for its connection. Never raises."""
        # In this order: a thread that takes a connection sets ``stream`` first and checks the mark then.
        self.cancelled = True
        stream = self.stream
        if stream is not None:
            stream.shut_down(self)

    def detach(self) -> None:
        """Forget the connection: the response has ended, and another exchange may use the connection already."""
        self.stream = None

    @contextlib.contextmanager
    def attached(self) -> Iterator[None]:
        """Attach connections that this thread opens or writes to, inside the block, to this exchange."""
        _thread.handle = self
        try:
            yield
        finally:
            _thread.handle = None

    @property
    def went_stale(self) -> bool:
        """Whether the connection was reused and closed without a byte of this response.

        A server may close an idle connection while a request is on its way; a GET is sent again then (RFC 9112 9.3.1).
        """
        return self.stream is not None and self.stream.reused and not self.stream.answered


class _Thread(threading.local):
    handle: CancelHandle | None = None


_thread = _Thread()


def current_handle() -> CancelHandle | None:
    """Return the handle in whose ``attached`` block this thread is, if any."""
    return _thread.handle

"""Calls in a thread pool, and their results or exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from resume_dl.engine.pool import Pool
from resume_dl.errors import Interrupted, ResumeDLError, internal_error

_TICK = 0.1
"""Seconds between two checks for cancellation."""

K = TypeVar("K")
V = TypeVar("V")


class Unavailable(Exception):  # noqa: N818 - a result, from which the caller makes a user-facing message
    """No source may be asked; the message gives the reason."""


class Answers(Generic[K, V]):
    """Yields the key and the result or exception of each call as it completes; calls may be added meanwhile."""

    def __init__(self, pool: Pool, cancelled: Callable[[], bool]) -> None:
        self._pool = pool
        self._cancelled = cancelled
        self._queue: SimpleQueue[tuple[K, V | BaseException]] = SimpleQueue()
        self._waiting = 0

    def submit(self, key: K, call: Callable[[], V]) -> None:
        """Schedule a call."""
        self._waiting += 1

        def made() -> None:
            self._queue.put((key, call()))

        self._pool.submit(made, lambda error: self._queue.put((key, error)))

    def __iter__(self) -> Iterator[tuple[K, V | BaseException]]:
        while self._waiting:
            if self._cancelled():
                raise Interrupted("stopped")
            try:
                found = self._queue.get(timeout=_TICK)
            except Empty:
                continue
            self._waiting -= 1
            yield found


def named_error(error: BaseException, subject: str) -> ResumeDLError:
    """Return a thread's exception as an error that names the subject of its work."""
    return error if isinstance(error, ResumeDLError) else internal_error(error, subject)

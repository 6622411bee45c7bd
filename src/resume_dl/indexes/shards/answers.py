"""Calls in the threads of a pool, and what each of them ended with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from resume_dl.engine.pool import Pool
from resume_dl.errors import Interrupted, ResumeDLError, internal_error

_TICK = 0.1
"""Seconds after which a wait looks whether the user has stopped it."""

K = TypeVar("K")
V = TypeVar("V")


class Unavailable(Exception):  # noqa: N818 - a result, whose caller makes words for people of it
    """No source may be asked; the message says why."""


class Answers(Generic[K, V]):
    """Yields the key of each call and its result or exception, as they come; calls may be added meanwhile."""

    def __init__(self, pool: Pool, cancelled: Callable[[], bool]) -> None:
        self._pool = pool
        self._cancelled = cancelled
        self._queue: SimpleQueue[tuple[K, V | BaseException]] = SimpleQueue()
        self._waiting = 0

    def submit(self, key: K, call: Callable[[], V]) -> None:
        """Make a call soon."""
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
    """What a thread ended with, as an error that says what the thread was working on."""
    return error if isinstance(error, ResumeDLError) else internal_error(error, subject)

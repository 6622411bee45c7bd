"""A clock for tests whose policies are short: time passes only while this process gets to run.

The real clock goes on while a busy machine lets nothing of ours run, so that a source that has answered long ago seems
silent. Here a thread of this process counts, one step each time that it is woken: where the readers, the servers of the
test and the engine wait for a processor, the clock waits with them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from resume_dl.engine import clock as engine_clock

STEP = 0.01
"""Seconds, of which at least so many pass between two counts."""


class OwnTime:
    """The engine's clock (``ports.Clock``); close it."""

    def __init__(self) -> None:
        self._counted = 0
        self._most: float | None = None
        self._happened: Callable[[], bool] = lambda: True
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._count, name="own time", daemon=True)
        self._thread.start()

    def now(self) -> float:
        return self._counted * STEP

    def wait(self, *, at: float, until: Callable[[], bool]) -> None:
        """Stand still when ``at`` seconds from now are over, ``until`` that has happened."""
        self._happened = until
        self._most = self.now() + at

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _count(self) -> None:
        while not self._closed.wait(STEP):
            if self._most is not None and self.now() >= self._most:
                if not self._happened():
                    continue
                self._most = None
            self._counted += 1


@contextmanager
def own_time(patch: pytest.MonkeyPatch) -> Iterator[OwnTime]:
    """Every engine of this process has this clock."""
    clock = OwnTime()
    patch.setattr(engine_clock.MonotonicClock, "now", lambda _: clock.now())
    yield clock
    clock.close()

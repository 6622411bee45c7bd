"""The process's clock, and how it is read without the time that the process slept."""

from __future__ import annotations

import threading
import time
import weakref

from resume_dl.core.awake_time import AwakeTime
from resume_dl.core.policy import DEFAULTS
from resume_dl.ports import Clock
from resume_dl.threads import start_thread

_BEAT = 0.5


class MonotonicClock:
    """The process's own clock; it runs on while the machine is suspended, where the system has such a clock."""

    def now(self) -> float:
        """Seconds since some moment."""
        # Linux's time.monotonic stands still in a suspend: connections that did not survive it would look alive.
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class AwakeClock:
    """``clock`` (default: the process's own) as ``core.awake_time`` reads it; from any thread.

    It has to be read often, as the engine's loop does; a caller that waits longer between two looks calls ``beat``.
    """

    def __init__(self, clock: Clock | None = None, longest_step: float = DEFAULTS.longest_step) -> None:
        self._clock = clock or MonotonicClock()
        self._time = AwakeTime(longest_step)
        self._lock = threading.Lock()
        self._beats = False

    def now(self) -> float:
        """Seconds since some moment, without sleep."""
        with self._lock:
            return self._time.read(self._clock.now())

    @property
    def slept(self) -> float:
        """Seconds that were left out so far."""
        with self._lock:
            return self._time.slept

    def beat(self) -> None:
        """Read it twice a second from a thread of its own, as long as it is in use."""
        with self._lock:
            begun, self._beats = self._beats, True
        if not begun:
            itself = weakref.ref(self)
            start_thread(lambda: _beat(itself), lambda _: None, name="clock")


def _beat(clock: weakref.ref[AwakeClock]) -> None:
    while (one := clock()) is not None:
        one.now()
        del one
        time.sleep(_BEAT)

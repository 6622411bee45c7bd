"""The process's clock, and a clock that leaves out the time during which the machine was suspended."""

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
    """A monotonic clock that includes time in suspend, if the system has one."""

    def now(self) -> float:
        """Return seconds since an arbitrary moment."""
        # Linux's time.monotonic stops during suspend: connections that did not survive it would look alive.
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class AwakeClock:
    """``clock`` (default: MonotonicClock) without time asleep, see ``core.awake_time``; may be used from any thread.

    It must be read often, as the engine's loop does; a caller that reads it seldom must call ``beat`` once.
    """

    def __init__(self, clock: Clock | None = None, longest_step: float = DEFAULTS.longest_step) -> None:
        self._clock = clock or MonotonicClock()
        self._time = AwakeTime(longest_step)
        self._lock = threading.Lock()
        self._beats = False

    def now(self) -> float:
        """Return seconds since an arbitrary moment, without time asleep."""
        with self._lock:
            return self._time.read(self._clock.now())

    @property
    def slept(self) -> float:
        """The seconds left out so far."""
        with self._lock:
            return self._time.slept

    def beat(self) -> None:
        """Start a thread that reads the clock twice a second while it is in use."""
        with self._lock:
            is_started, self._beats = self._beats, True
        if not is_started:
            itself = weakref.ref(self)
            start_thread(lambda: _beat(itself), lambda _: None, name="clock")


def _beat(clock: weakref.ref[AwakeClock]) -> None:
    while (one := clock()) is not None:
        one.now()
        del one
        time.sleep(_BEAT)

"""A clock without sleep: time in which the process was stopped or the machine suspended does not count."""

from __future__ import annotations

from resume_dl.core.policy import DEFAULTS


class AwakeTime:
    """Seconds of an injected clock; a step longer than ``longest_step`` counts as ``longest_step``.

    ``read`` must be called more often than that while the process runs.
    """

    def __init__(self, longest_step: float = DEFAULTS.longest_step) -> None:
        self._longest = longest_step
        self._last: float | None = None
        self.slept = 0.0
        """Seconds left out so far."""

    def read(self, clock: float) -> float:
        """The time of ``clock`` less ``slept``; never decreases."""
        if self._last is not None:
            self.slept += max(0.0, clock - self._last - self._longest)
            clock = max(clock, self._last)
        self._last = clock
        return clock - self.slept

"""Progress messages while the solver runs: a long silence looks like a hang."""

from __future__ import annotations

from collections.abc import Callable

from resume_dl.errors import Interrupted
from resume_dl.ports import Reporter

EVERY = 3.0
"""Seconds between two messages."""


class SolverWait:
    """A callback for ``RattlerWorker.waits`` that reports the wait every ``EVERY`` seconds, until ``cancelled``."""

    def __init__(self, reporter: Reporter, cancelled: Callable[[], bool] = lambda: False) -> None:
        self._reporter = reporter
        self._cancelled = cancelled
        self._said = 0

    def __call__(self, op: str, seconds: float) -> None:
        """Report the wait, if it is due; ``seconds`` is the time since ``op`` was requested. Raises Interrupted."""
        if self._cancelled():
            raise Interrupted("stopped", hint="run the same command again")
        due = int(seconds / EVERY)
        if due > self._said:
            doing = "still solving" if op == "solve" else "the solver is still loading"
            if op != "extract":  # the same worker unpacks later, with progress of its own
                self._reporter.message(f"{doing}, {seconds:.0f} s", level="info")
        self._said = due  # resets for the next operation

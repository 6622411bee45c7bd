"""What is said while the solver is waited for: a run that says nothing for long looks dead."""

from __future__ import annotations

from resume_dl.ports import Reporter

EVERY = 3.0
"""Seconds without a word."""


class SolverWait:
    """``RattlerWorker.waits``: told for which operation it waits and how long, it says so every ``EVERY`` seconds."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self._said = 0

    def __call__(self, op: str, seconds: float) -> None:
        """``seconds`` since ``op`` was asked for."""
        due = int(seconds / EVERY)
        if due > self._said:
            doing = "still solving" if op == "solve" else "the solver is still loading"
            if op != "extract":  # the same worker unpacks later, which the reporter shows as it goes
                self._reporter.message(f"{doing}, {seconds:.0f} s", level="info")
        self._said = due  # smaller again for another operation

"""One line every few seconds, for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from resume_dl.model.artifact import Artifact
from resume_dl.ports import ArtifactProgress
from resume_dl.progress.console import Console, duration_text, labelled, size_text
from resume_dl.progress.tally import OVER, Tally

INTERVAL = 5.0


class PlainReporter:
    """``ports.Reporter`` as lines; ``interval`` in seconds of ``clock``. What is done sooner has no line of its own."""

    def __init__(
        self, console: Console, *, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._interval = interval
        self._clock = clock
        self._tally = Tally()
        self._shown_at = clock()
        self._shown_bytes = 0
        self._waiting: set[str] = set()

    def plan(self, artifacts: list[Artifact], total_bytes: int, cached_bytes: int) -> None:
        """One line: how much there is to do."""
        self._tally.plan(artifacts, total_bytes, cached_bytes)
        if artifacts and self._console.shows("info"):
            here = f", {size_text(cached_bytes)} already here" if cached_bytes else ""
            files = "1 file" if len(artifacts) == 1 else f"{len(artifacts)} files"
            self._console.line(f"{files}, {size_text(total_bytes)} in all{here}")
        self._shown_at, self._shown_bytes = self._clock(), 0

    def progress(self, progress: ArtifactProgress) -> None:
        """A line if the last one is old enough; at once when a file begins to wait for another process."""
        self._tally.add(progress)
        if not self._console.shows("info"):
            return
        if progress.state != "locked":
            self._waiting.discard(progress.key)
        elif progress.key not in self._waiting:
            self._waiting.add(progress.key)
            self._console.line(f"{progress.filename}: {progress.note or 'waits for another process'}")
        now = self._clock()
        if now - self._shown_at >= self._interval:
            self._console.line(self._line(progress, now - self._shown_at))
            self._shown_at = now

    def _line(self, progress: ArtifactProgress, seconds: float) -> str:
        tally = self._tally
        if tally.planned:
            done, before, total = tally.done, tally.before, tally.total
            over, files = tally.files
            tail = f", {over} of {files} files" if files > 1 else ""
        else:
            done, before, total = progress.done, progress.resumed, progress.size or 0
            tail = f", {progress.filename}"
        fetched = done - before
        speed = max(0.0, (fetched - self._shown_bytes) / seconds) if seconds > 0 else 0.0
        self._shown_bytes = fetched
        if not total:
            return f"{size_text(done)}, {size_text(speed)}/s{tail}"
        left = f", {duration_text((total - done) / speed)} left" if speed > 0 and done < total else ""
        doing = f" ({progress.state})" if progress.state not in OVER and done >= total else ""
        # Rounded down: 100 % is said when it is true.
        return f"{done * 100 // total}% of {size_text(total)}, {size_text(speed)}/s{left}{tail}{doing}"

    def message(self, text: str, *, level: str = "info") -> None:
        """A line, if its level is wanted."""
        if self._console.shows(level):
            self._console.line(labelled(text, level))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """For programs; not shown."""

    def close(self) -> None:
        """Every line is complete already."""

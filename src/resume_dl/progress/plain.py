"""Progress as one line every few seconds, for logs and pipes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from resume_dl.model.units import show_bytes
from resume_dl.ports import ArtifactProgress, PlannedFile
from resume_dl.progress.console import Console, duration_text, labelled
from resume_dl.progress.indexes import IndexTally
from resume_dl.progress.tally import OVER, Tally, percent_of

INTERVAL = 5.0


class PlainReporter:
    """A ``ports.Reporter`` with lines every ``interval`` seconds of ``clock``; shorter runs have none."""

    def __init__(
        self, console: Console, *, interval: float = INTERVAL, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._interval = interval
        self._clock = clock
        self._tally = Tally()
        self._indexes = IndexTally()
        self._shown_index = 0
        self._shown_at = clock()
        self._shown_bytes = 0
        self._waiting: set[str] = set()

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Print one line with the total."""
        self._tally.plan(files, replaces)
        if files and self._console.shows("info"):
            self._console.line(_planned(files))
        self._shown_at, self._shown_bytes = self._clock(), self._tally.fetched

    def progress(self, progress: ArtifactProgress) -> None:
        """Print a line if the interval has passed, or if a file starts to wait for another process."""
        self._tally.add(progress)
        self._indexes.add(progress)
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
        if progress.index and self._indexes.active:
            came, self._shown_index = max(0, self._indexes.fetched - self._shown_index), self._indexes.fetched
            return self._indexes.lines(came / seconds if seconds > 0 else None)[0]
        if tally.planned:
            done, fetched, total = tally.done, tally.fetched, tally.total
            whole, files = tally.files
            tail = f", {whole} of {files} files" if files > 1 else ""
        else:
            done, fetched, total = progress.done, progress.done - progress.resumed, progress.size or 0
            tail = f", {progress.filename}"
        speed = max(0.0, (fetched - self._shown_bytes) / seconds) if seconds > 0 else 0.0
        self._shown_bytes = fetched
        rate = f"{show_bytes(speed)}/s"
        if not done and not progress.done and progress.state == "downloading":
            return f"no answer yet{tail}"
        if tally.unsized or not total:
            of = f" of at least {show_bytes(total)}" if total > done else ""
            return f"{show_bytes(done)}{of}, {rate}{tail}"
        left = f", {duration_text((total - done) / speed)} left" if speed > 0 and done < total else ""
        doing = f" ({progress.state})" if progress.state not in OVER and done >= total else ""
        return f"{percent_of(done, total)}% of {show_bytes(total)}, {rate}{left}{tail}{doing}"

    def message(self, text: str, *, level: str = "info") -> None:
        """Print a line, if its level is shown."""
        if self._console.shows(level):
            self._console.line(labelled(text, level))

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Ignore events, which are for programs."""

    def close(self) -> None:
        """Do nothing: every line is complete."""


def _planned(files: Sequence[PlannedFile]) -> str:
    """``12 files, 16.4 MB in all, 11.4 MB already here``; with the number of files of unknown size."""
    sizes = [file.artifact.size for file in files]
    unsized = sizes.count(None)
    counted = "1 file" if len(files) == 1 else f"{len(files)} files"
    here = sum(file.here for file in files)
    known = f", {show_bytes(sum(size or 0 for size in sizes))} in all" if unsized < len(files) else ""
    unknown = (", of unknown size" if unsized == len(files) else f" and {unsized} of unknown size") if unsized else ""
    return counted + known + unknown + (f", {show_bytes(here)} already here" if here else "")

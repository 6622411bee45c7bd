"""Bars on a terminal: one for the whole run, and one for each file in flight below it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from resume_dl.ports import ArtifactProgress, PlannedFile
from resume_dl.progress.colours import paint_first
from resume_dl.progress.console import Console, labelled, presentable
from resume_dl.progress.indexes import IndexTally
from resume_dl.progress.layout import Look, Row, clock, lay_out
from resume_dl.progress.live import LiveLines
from resume_dl.progress.tally import OVER, Speed, Tally
from resume_dl.progress.text_width import fitted, width

MOST = 10
"""Most bars at once, with the total's: no more than a small terminal has lines."""
DRAW_EVERY = 0.1
"""Seconds between drawings if only numbers change."""
_QUIET_STATES = frozenset({"waiting", "downloading"})


class _File:
    """A file in flight: its latest progress, and its speed."""

    def __init__(self, progress: ArtifactProgress, now: float) -> None:
        self.progress = progress
        self.speed = Speed(progress.done - progress.resumed, now)

    def add(self, progress: ArtifactProgress, now: float) -> None:
        self.progress = progress
        self.speed.add(progress.done - progress.resumed, now)


class BarReporter:
    """A ``ports.Reporter`` with bars. Bars of finished files disappear; the total's stays at the end.

    A run of one file has one bar. ``clock`` gives seconds.
    """

    def __init__(self, console: Console, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._coloured = console.has_colours()
        self._live = LiveLines(console)
        self._tally = Tally()
        self._indexes = IndexTally()
        self._index_speed: Speed | None = None
        self._names: dict[str, str] = {}
        self._widest = 0
        self._speed: Speed | None = None
        self._files: dict[str, _File] = {}
        self._drawn_at = float("-inf")
        self._drawn_words: object = None

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Draw the total's bar, with bytes already on disk as done."""
        self._tally.plan(files, replaces)
        for key in replaces:
            self._names.pop(key, None)
        self._names.update((file.artifact.key, presentable(file.artifact.title)) for file in files)
        self._widest = max((self._widest, *map(width, self._names.values())))
        if self._tally.planned and self._speed is None:
            self._speed = Speed(self._tally.fetched, self._clock())
        self._draw()

    def progress(self, progress: ArtifactProgress) -> None:
        """Move one file's bar and the total's."""
        now = self._clock()
        self._tally.add(progress)
        if self._speed is not None:
            self._speed.add(self._tally.fetched, now)
        if progress.index:
            self._indexes.add(progress)
            if self._index_speed is None or not self._indexes.active:
                self._index_speed = Speed(self._indexes.fetched, now)
            self._index_speed.add(self._indexes.fetched, now)
        elif progress.state in OVER:
            self._files.pop(progress.key, None)
        elif progress.key in self._files:
            self._files[progress.key].add(progress, now)
        elif progress.state != "waiting":  # a waiting file needs no line
            self._files[progress.key] = _File(progress, now)
        self._draw()

    def message(self, text: str, *, level: str = "info") -> None:
        """Print a line above the bars, if its level is shown."""
        if self._console.shows(level):
            columns = self._size().columns
            line = fitted(presentable(labelled(text, level)), columns - 1)
            self._live.print_above(paint_first(line, level) if self._coloured else line, columns)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Ignore events, which are for programs."""

    def close(self) -> None:
        """Remove the files' bars and leave the total's last state."""
        self._files.clear()
        self._indexes = IndexTally()
        self._speed = None
        self._draw(last=True)
        self._live.leave()
        self._tally = Tally()

    def _draw(self, *, last: bool = False) -> None:
        if not self._console.shows("info"):
            return
        size = self._size()
        rows = self._rows(max(1, min(MOST, size.lines - 2)))
        now = self._clock()
        words = (size, [((row.labels or row.text[-1:])[-1:], row.remark, row.total) for row in rows])
        if words == self._drawn_words and now - self._drawn_at < DRAW_EVERY and not last:
            return
        self._drawn_at, self._drawn_words = now, words
        look = Look(size.columns, self._console.draws_blocks(), self._coloured)
        self._live.show(lay_out(rows, look, longest=self._widest), size.columns)

    def _rows(self, most: int) -> list[Row]:
        if len(self._names) == 1 and self._tally.planned:
            (key,) = self._names
            return [self._only(key), *self._index()]
        first = [*([self._total()] if self._tally.planned else []), *self._index()]
        return [*first, *(self._row(file) for file in list(self._files.values())[: most - len(first)])]

    def _index(self) -> list[Row]:
        """One line for all indexes in flight."""
        if not self._indexes.active:
            return []
        lines = self._indexes.lines(None if self._index_speed is None else self._index_speed.value)
        return [Row((), 0, None, text=tuple(map(presentable, lines)))]

    def _total(self) -> Row:
        tally = self._tally
        whole, files = tally.files
        labels = [f"{whole}/{files} files", f"{whole}/{files}"]
        if (left := self._left()) is not None:
            labels = [f"{each}, {clock(left)} left" for each in labels] + [f"{labels[1]} {clock(left)}", *labels]
        return Row(tuple(labels), tally.done, tally.known_total, self._value)

    def _only(self, key: str) -> Row:
        """The only file of a run, with the time left."""
        tally, file = self._tally, self._files.get(key)
        remark = "" if file is None else _remark(file)
        return Row((self._names[key],), tally.done, tally.known_total, self._value, self._left(), remark)

    def _left(self) -> float | None:
        """Seconds left at this run's speed; None if no bytes come, none are missing, or a size is unknown."""
        total = self._tally.known_total
        if self._speed is None or total is None or self._tally.done >= total:
            return None
        return self._speed.seconds_for(total - self._tally.done)

    @property
    def _value(self) -> float | None:
        return None if self._speed is None else self._speed.value

    def _row(self, file: _File) -> Row:
        latest = file.progress
        return Row((presentable(latest.filename),), latest.done, latest.size, file.speed.value, remark=_remark(file))

    def _size(self) -> os.terminal_size:
        return self._console.size() or os.terminal_size((80, 24))


def _remark(file: _File) -> str:
    latest = file.progress
    doing = latest.note if latest.state == "locked" and latest.note else latest.state
    return "" if latest.state in _QUIET_STATES else presentable(doing).replace("\n", " ").replace("\t", " ")

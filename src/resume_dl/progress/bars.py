"""Bars on a terminal: one for each file in flight and one for the whole run, by tqdm."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Any

from tqdm import tqdm

from resume_dl.model.artifact import Artifact
from resume_dl.ports import ArtifactProgress
from resume_dl.progress.console import Console, labelled, presentable
from resume_dl.progress.tally import OVER, Tally

MOST = 10
"""Bars at once, the total's included: more than a small terminal has lines is no information."""
_QUIET_STATES = frozenset({"waiting", "downloading"})
_TOTAL = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} [{remaining} left, {rate_fmt}]"
_FILE = "{desc} {percentage:3.0f}%|{bar}| {n_fmt}/{total_fmt} {rate_fmt}{postfix}"
_NARROW = 70


class _Bar(tqdm):  # type: ignore[type-arg]
    """tqdm without its monitor thread and without its lock between processes: one thread draws."""

    monitor_interval = 0
    before = 0
    """Bytes known to be from before this run."""

    @property
    def format_dict(self) -> Any:
        """What tqdm draws; a terminal that does not know its width (as under ``script``) has 80 columns, not none."""
        found = super().format_dict
        if (found["ncols"] or 0) <= 0:  # tqdm takes one off
            found["ncols"] = 79
        return found

    def display(self, msg: str | None = None, pos: int | None = None) -> Any:
        """As tqdm; the same for a height that is not known."""
        if (self.nrows or 0) <= 0:
            self.nrows = 24
        return super().display(msg, pos)

    def show(self, label: str, remark: str, total: int | None, done: int, before: int) -> None:
        """Move to ``done``; draw at once where words change, else as often as tqdm finds right."""
        changed = (label, remark, total) != (self.desc, self.postfix or "", self.total)
        self.set_description_str(label, refresh=False)
        self.set_postfix_str(remark, refresh=False)
        self.total = total
        found = before - self.before
        if found:  # it was there all the time, and must not look like speed
            self.before = before
            self.initial += found
            self.n += found
            self.last_print_n += found
        self.update(done - self.n)
        if changed or found:
            self.refresh()


_Bar.set_lock(threading.RLock())


class BarReporter:
    """``ports.Reporter`` as tqdm bars. Bars of finished files go away; the total's stays at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally()
        self._total: _Bar | None = None
        self._bars: dict[str, _Bar] = {}
        self._free = list(range(1, self._slots() + 1))

    def plan(self, artifacts: list[Artifact], total_bytes: int, cached_bytes: int) -> None:
        """The total's bar, with what is here already as done."""
        self._tally.plan(artifacts, total_bytes, cached_bytes)
        if artifacts and self._total is None and self._console.shows("info"):
            self._total = self._bar(0, self._tally.done, self._tally.before, _TOTAL)
        self._show_total()

    def progress(self, progress: ArtifactProgress) -> None:
        """Move one file's bar and the total's."""
        self._tally.add(progress)
        if progress.state in OVER:
            self._drop(progress.key)
        elif self._console.shows("info"):
            self._show_file(progress)
        self._show_total()

    def message(self, text: str, *, level: str = "info") -> None:
        """A line above the bars, if its level is wanted."""
        if not self._console.shows(level):
            return
        line = presentable(labelled(text, level))
        if self._total is None and not self._bars:
            self._console.line(line)
        else:
            _Bar.write(line, file=self._console)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """For programs; not shown."""

    def close(self) -> None:
        """Take the files' bars away and leave the total's last state."""
        for key in list(self._bars):
            self._drop(key)
        if self._total is not None:
            self._total.close()
            self._total = None

    def _show_file(self, progress: ArtifactProgress) -> None:
        bar = self._bars.get(progress.key)
        if bar is None:
            # A file that waits for its turn needs no line.
            if progress.state == "waiting" or not self._free:
                return
            bar = self._bar(self._free.pop(0), progress.done, progress.resumed, _FILE)
            self._bars[progress.key] = bar
        doing = progress.note if progress.state == "locked" and progress.note else progress.state
        remark = "" if progress.state in _QUIET_STATES else presentable(doing)
        bar.show(self._name(progress.filename), remark, progress.size, progress.done, progress.resumed)

    def _show_total(self) -> None:
        if self._total is not None:
            tally = self._tally
            over, files = tally.files
            self._total.show(f"{over}/{files} files", "", tally.total, tally.done, tally.before)

    def _drop(self, key: str) -> None:
        bar = self._bars.pop(key, None)
        if bar is not None:
            self._free.append(abs(bar.pos))
            self._free.sort()
            bar.close()

    def _bar(self, position: int, done: int, before: int, bar_format: str) -> _Bar:
        bar = _Bar(
            # What came before the bar was there is not speed either.
            initial=done,
            position=position,
            leave=position == 0,
            bar_format=bar_format,
            unit="B",
            unit_scale=True,
            file=self._console,
            ascii=None if self._console.can_show("█▏") else True,
            dynamic_ncols=True,
            smoothing=0.1,
            # Each call may draw, at most ten times a second: a line that has stalled shows so.
            miniters=0,
            mininterval=0.1,
            # Not drawn before it is shown for the first time.
            delay=1e-9,
        )
        bar.before = before
        return bar

    def _name(self, filename: str) -> str:
        width = 14 if self._size().columns < _NARROW else 28
        if len(filename) <= width:
            return filename.ljust(width)
        dots = "…" if self._console.can_show("…") else ".."
        return filename[: width - len(dots)] + dots

    def _slots(self) -> int:
        return max(1, min(MOST - 1, self._size().lines - 3))

    def _size(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._console.fileno())
        except (OSError, ValueError, AttributeError):
            return os.terminal_size((80, 24))
        return size if size.columns and size.lines else os.terminal_size((80, 24))

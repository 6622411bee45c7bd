"""Layout of the lines of a running download: aligned, and never in a terminal's last column. Pure.

With little room the counts are dropped first, then the bar, then the speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tqdm import tqdm

from resume_dl.model.units import show_bytes, unit_of
from resume_dl.progress.colours import Tone, paint
from resume_dl.progress.tally import percent_of
from resume_dl.progress.text_width import cut, pad, width

_PERCENT, _COUNTS, _SPEED, _LEFT = 4, 15, 10, 14
"""Columns of ``100%``, ``999.9/999.9 MB``, ``999.9 MB/s`` and, with two spaces, ``1:02:03 left``."""
_COUNTS_FROM, _BAR_FROM = 70, 34
"""Columns of a terminal that has room for these."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line's content; counts in bytes, ``speed`` in bytes a second, ``left`` in seconds.

    ``labels``: longer to shorter forms, the first that fits is shown. ``remark`` replaces the speed.
    """

    labels: tuple[str, ...]
    done: int
    total: int | None
    speed: float | None = None
    left: float | None = None
    remark: str = ""
    text: tuple[str, ...] = ()
    """Text in place of a bar: longer to shorter forms, the first that fits is shown."""


@dataclass(frozen=True, slots=True)
class Look:
    """The terminal's columns, and whether it shows characters beyond ASCII with the right width, and colours."""

    columns: int
    unicode: bool = True
    coloured: bool = False

    @property
    def dots(self) -> str:
        """The sign for cut text."""
        return "…" if self.unicode else ".."


def lay_out(rows: Sequence[Row], look: Look, *, longest: int = 0) -> list[str]:
    """One line a row; ``longest``: the widest expected label, so that a wide terminal wastes no room."""
    usable = max(1, look.columns - 1)  # terminals differ in whether writing into the last column wraps
    timed = any(row.left is not None for row in rows)
    if look.columns < _BAR_FROM:
        return [_text(row, usable, look) or _tiny(row, usable, look) for row in rows]
    wide = look.columns >= _COUNTS_FROM
    fixed = 1 + _PERCENT + 1 + 1 + _SPEED + (1 + _COUNTS if wide else 0) + (_LEFT if wide and timed else 0)
    bar = min(40, max(6, (usable - fixed) // (3 if wide else 4)))
    name = min(usable - fixed - bar, max(24, longest))
    return [_text(row, usable, look) or _line(row, name, bar, usable, look, wide=wide) for row in rows]


def _text(row: Row, usable: int, look: Look) -> str:
    return _fitting(row.text, usable, look).rstrip() if row.text else ""


def _line(row: Row, name: int, bar: int, usable: int, look: Look, *, wide: bool) -> str:
    start = f"{_fitting(row.labels, name, look)} {_percent(row)} "
    if row.remark and width(row.remark) > _SPEED:
        return start + cut(row.remark, usable - width(start), look.dots)
    speed = row.remark or ("" if row.speed is None else f"{show_bytes(row.speed)}/s")
    left = "" if row.left is None else f"{clock(row.left)} left"
    if not wide:
        return (start + _bar(row, bar, look) + " " + f"{left or speed:>{_SPEED}}").rstrip()
    line = f"{start}{_bar(row, bar, look)} {_counts(row):>{_COUNTS}} {speed:>{_SPEED}}"
    return f"{line}  {left:>{_LEFT - 2}}".rstrip() if left else line.rstrip()


def _tiny(row: Row, usable: int, look: Look) -> str:
    if usable <= _PERCENT + 1:
        return _percent(row)[:usable]
    return f"{_fitting(row.labels, usable - _PERCENT - 1, look)} {_percent(row)}"


def _fitting(labels: Sequence[str], columns: int, look: Look) -> str:
    label = next((each for each in labels if width(each) <= columns), labels[-1])
    return pad(cut(label, columns, look.dots), columns)


def _percent(row: Row) -> str:
    percent = percent_of(row.done, row.total)
    return " " * _PERCENT if percent is None else f"{percent:>{_PERCENT - 1}}%"


def _bar(row: Row, columns: int, look: Look) -> str:
    if row.total is None:
        return " " * columns
    total = max(1, row.total)
    done = total if row.total == 0 else min(row.done, total)
    # ncols counts the two bars that frame it; tqdm's own ASCII form ends in a digit
    drawn = tqdm.format_meter(done, total, 0, ncols=columns, ascii=None if look.unicode else " #", bar_format="|{bar}|")
    drawn = pad(drawn, columns)
    return paint(drawn, Tone.GOOD if done == total else Tone.MOVING) if look.coloured else drawn


def _counts(row: Row) -> str:
    if row.total is None:
        return show_bytes(row.done)
    unit, scale = unit_of(row.total)
    figures = {"B": 0, "GB": 2}.get(unit, 1)
    return f"{row.done / scale:.{figures}f}/{row.total / scale:.{figures}f} {unit}"


def clock(seconds: float) -> str:
    """``03:20``, ``1:02:03``; beyond four days only that."""
    whole = max(0, round(seconds))
    if whole >= 99 * 3600:
        return "days"
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes:02}:{whole % 60:02}"

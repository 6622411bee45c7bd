"""The rows of ``mirrors test`` on a terminal: aligned, and never in its last column. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from resume_dl.diagnosis.mirror_row import MirrorReport, MirrorRow
from resume_dl.diagnosis.mirror_words import age, conclusion, failure, heading, remarks, speed, wait
from resume_dl.progress.console import presentable
from resume_dl.progress.text_width import cut, pad, width

_NARROW = 72
"""Columns; below, a mirror has several lines in place of one row."""
_SIZES = (12, 11, 10, 6)
"""Columns of name, speed, first byte and ranges; what remains is the age's."""
_MARGIN = "  "
_INDENT = " " * (_SIZES[0] + 4)


def lines_of(report: MirrorReport, columns: int) -> Iterator[str]:
    """The page, no line wider than ``columns`` (at least 20)."""
    narrow = columns < _NARROW
    for number, (origin, platform, rows) in enumerate(report.groups()):
        if number:
            yield ""
        yield cut(_plain(heading(origin, platform)), columns, "..")
        if not narrow:
            yield _row(("mirror", "speed", "first byte", "ranges", "age"), columns)
        for row in rows:
            yield from _narrow(row, report.when, columns) if narrow else _wide(row, report.when, columns)
    yield ""
    yield from _wrapped(conclusion(report), columns, "")


def _wide(row: MirrorRow, now: float, columns: int) -> Iterator[str]:
    name = _plain(row.place.mirror)
    if row.ok:
        yield _row((name, speed(row), wait(row), "yes" if row.ranges else "no", age(row)), columns)
    else:
        first, *rest = _wrapped(failure(row), columns, _INDENT)
        yield f"{_MARGIN}{pad(cut(name, _SIZES[0], '..'), _SIZES[0])}  {first.lstrip()}"
        yield from rest
    for remark in remarks(row, now):
        yield from _wrapped(remark, columns, _INDENT)


def _narrow(row: MirrorRow, now: float, columns: int) -> Iterator[str]:
    first = speed(row) if row.ok else "failed"
    yield f"{_MARGIN}{cut(_plain(row.place.mirror), columns - 4 - width(first), '..')}  {first}"
    facts = f"first byte {wait(row)}, {'ranges' if row.ranges else 'no ranges'}, {age(row)}"
    for text in (facts if row.ok else failure(row), *remarks(row, now)):
        yield from _wrapped(text, columns, 2 * _MARGIN)


def _row(cells: Sequence[str], columns: int) -> str:
    sizes = (*_SIZES, columns - sum(_SIZES) - 2 * len(_SIZES) - 2)
    fitted = [pad(cut(cell, size, ".."), size) for cell, size in zip(cells, sizes, strict=True)]
    return (_MARGIN + "  ".join(fitted)).rstrip()


def _wrapped(text: str, columns: int, indent: str) -> Iterator[str]:
    """``text`` in lines of at most ``columns``; a longer word is cut."""
    room = max(8, columns - len(indent))
    line = ""
    for word in (cut(word, room, "..") for word in _plain(text).split()):
        if line and width(line) + 1 + width(word) > room:
            yield indent + line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield indent + line


def _plain(text: str) -> str:
    return " ".join(presentable(text).split())

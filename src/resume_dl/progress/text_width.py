"""Text in the columns of a terminal: its width, and cutting, padding and wrapping it. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_FIGURE = re.compile(r"(?<=\d) (?=(?:[kMGT]?B|s|min|h|files?|packages?)\b)")
"""The blank between a number and its unit, at which no line is broken."""
_COMMAND = re.compile(r"(?<![\w-])(resume-dl|conda|mamba|micromamba|pixi|pip|python3?|sudo) [\w./~'\"-]")
"""The beginning of what may be a command to copy."""


def width(text: str) -> int:
    """Columns of a text in a terminal: 0 for combining marks and our colours, 2 for wide (East Asian) characters."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(letter: str) -> int:
    if unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int, dots: str = "…") -> str:
    """Cut ``text`` to at most ``columns``, with ``dots`` at the end."""
    if width(text) <= columns:
        return text
    dots = dots[:columns]
    return _fitting(text, columns - len(dots)) + dots


def cut_start(text: str, columns: int, dots: str = "…") -> str:
    """Cut ``text`` to at most ``columns``, with ``dots`` in the place of its start: the end of a path says most."""
    if width(text) <= columns:
        return text
    dots = dots[:columns]
    return dots + _fitting(text[::-1], columns - len(dots))[::-1]


def _fitting(text: str, columns: int) -> str:
    """As much of the start of ``text`` as fits."""
    kept = 0
    for letter in text:
        columns -= _columns_of(letter)
        if columns < 0:
            break
        kept += 1
    return text[:kept]


def pad(text: str, columns: int) -> str:
    """Pad ``text`` with spaces to ``columns``."""
    return text + " " * (columns - width(text))


def wrapped(text: str, columns: int) -> Iterator[str]:
    """``text`` in lines of at most ``columns``, broken at blanks; a longer word has a line of its own."""
    line = ""
    for word in text.split():
        if line and width(line) + 1 + width(word) > columns:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def fitted(text: str, columns: int) -> str:
    """``text``, its lines broken at blanks if they are wider than ``columns``; later parts are indented by two more.

    A line that may hold a command stays whole, because the terminal's own wrapping can be copied. So does a word that
    is wider than a line: it begins where it stands.
    """
    return "\n".join(part for line in text.split("\n") for part in _parts(line, columns))


def _parts(line: str, columns: int) -> Iterator[str]:
    if width(line) <= columns or _COMMAND.search(line):
        yield line
        return
    words = _FIGURE.sub("\0", line.strip()).split(" ")
    lead = line[: len(line) - len(line.lstrip())]
    indent = lead + "  "
    built, at = lead, width(lead)
    for number, word in enumerate(words):
        blank = 1 if number else 0
        wide = width(word)
        if number and at + blank + wide > columns and wide <= columns - len(indent):
            yield built.replace("\0", " ")
            built, at, blank = indent, len(indent), 0
        built += " " * blank + word
        at += blank + wide
        if at > columns:  # the terminal has wrapped it
            at %= columns + 1
    yield built.replace("\0", " ")

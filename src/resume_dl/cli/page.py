"""Texts for people, fitted to the terminal that they are written to; in a file or a pipe, lines stay whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TextIO

import click

from resume_dl.progress.colours import Tone, paint, paint_first
from resume_dl.progress.console import dots_for, has_colours, presentable, terminal_size
from resume_dl.progress.text_width import cut, cut_start, fitted, width


@dataclass(frozen=True, slots=True)
class Page:
    """What one stream shows: ``columns`` that a line may take, None if it is not a terminal."""

    columns: int | None = None
    coloured: bool = False
    dots: str = "..."

    def lines(self, text: str) -> str:
        """``text`` in lines that fit, without what could drive the terminal."""
        shown = presentable(text)
        return shown if self.columns is None else fitted(shown, self.columns)

    def fits(self, text: str) -> bool:
        """Whether ``text`` is one line here."""
        return self.columns is None or width(text) <= self.columns

    def room(self, *before: str) -> int:
        """Columns that are left after these texts; there must be ``columns``."""
        return max(1, (self.columns or 0) - sum(map(width, before)))

    def cut(self, text: str, columns: int, *, start: bool = False) -> str:
        """``text`` in at most ``columns``, without its end or, with ``start``, its beginning."""
        return cut_start(text, columns, self.dots) if start else cut(text, columns, self.dots)

    def paint_first(self, text: str, word: str) -> str:
        """``text`` with ``word``, by which it begins, in its colour."""
        return paint_first(text, word) if self.coloured else text

    def paint(self, text: str, tone: Tone | None) -> str:
        """``text``, coloured if the stream shows colours."""
        return paint(text, tone) if self.coloured and tone is not None else text


def page_of(stream: TextIO) -> Page:
    """The page of ``stream``, for the command that runs."""
    size = terminal_size(stream)
    if size is None:
        return Page()
    # the last column is left free: terminals differ in whether writing into it wraps
    columns = max(1, size.columns - 1)
    return Page(columns, not _wants_no_colour() and has_colours(stream, os.environ), dots_for(stream))


def _wants_no_colour() -> bool:
    """Whether the command's options forbid drawing: ``--quiet``, or ``--progress`` other than bars."""
    context = click.get_current_context(silent=True)
    given = {} if context is None else context.params
    return bool(given.get("quiet")) or given.get("progress") not in {None, "bar"}

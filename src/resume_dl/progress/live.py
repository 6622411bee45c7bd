"""A few lines at a terminal's end that are redrawn, with ordinary lines above them.

The cursor always waits at the start of the empty line below them, so that other output, such as an echoed ``^C`` or a
shell's prompt after a kill, starts on its own line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from resume_dl.progress.console import Console, can_be_drawn_on
from resume_dl.progress.text_width import width

_UP, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[{}A", "\x1b[K", "\x1b[J"


class LiveLines:
    """Lines redrawn on ``console``, a terminal that ``can_be_drawn_on``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[str] = []

    def show(self, lines: Sequence[str], columns: int) -> None:
        """Redraw the lines; none may be wider than ``columns`` less one."""
        drawn = "".join(f"{line}{_CLEAR_LINE}\n" for line in lines)
        if drawn or self._lines:
            self._write(self._to_the_top(columns) + drawn + _CLEAR_BELOW)
        self._lines = list(lines)

    def print_above(self, text: str, columns: int) -> None:
        """Write an ordinary line, and redraw the others below it."""
        lines, top = self._lines, self._to_the_top(columns)
        self._write(top + (_CLEAR_BELOW if top else "") + text + "\n")
        self._lines = []
        self.show(lines, columns)

    def leave(self) -> None:
        """Leave the lines on the screen."""
        self._lines = []

    def _to_the_top(self, columns: int) -> str:
        # A terminal that has become narrower has wrapped the old lines.
        rows = sum(max(1, -(-width(line) // max(1, columns))) for line in self._lines)
        return "\r" + _UP.format(rows) if rows else ""

    def _write(self, text: str) -> None:
        self._console.write(text)  # in one write, so that a killed process does not leave half of it
        self._console.flush()


def clear_cut_line(stream: TextIO) -> None:
    """End the unfinished line of a killed process on this terminal."""
    console = Console(stream)
    try:
        if stream.isatty() and can_be_drawn_on(stream):
            console.write("\r" + _CLEAR_BELOW)
            console.flush()
    except ValueError:  # closed
        pass

"""A stream for progress that never fails, and the texts that may be written to it."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, TextIO

from resume_dl.model.url import scrub

_LEVELS = {"debug": 0, "info": 1, "warning": 2, "error": 3}
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
"""C0 and C1 controls except tab and line feed, what turns the direction of writing, separators, halves of characters
(of names that are not UTF-8), and invisible tags."""


class Console:
    r"""A stream for lines and drawings. Broken streams are abandoned silently.

    A character that the encoding lacks is written by its number, as ``\xf8``.

    ``level`` is the lowest that ``message`` shows: ``debug``, ``info``, ``warning`` or ``error``.
    """

    def __init__(self, stream: TextIO, level: str = "info") -> None:
        self._stream = stream
        self._least = _LEVELS[level]
        self._broken = False

    def shows(self, level: str) -> bool:
        """Whether messages of this level are shown; an unknown level counts as info."""
        return _LEVELS.get(level, 1) >= self._least

    def line(self, text: str) -> None:
        """Write one line (or several), made presentable."""
        self.write(presentable(text) + "\n")
        self.flush()

    def write(self, text: str) -> int:
        """Write ``text`` unchanged, if the stream still works. Never raises."""
        if not self._broken:
            try:
                self._write(text)
            except (OSError, ValueError):  # a closed pipe or stream
                self._broken = True
        return len(text)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))

    def flush(self) -> None:
        """Flush the stream. Never raises."""
        if not self._broken:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._broken = True

    def draws_blocks(self) -> bool:
        """Whether block characters are shown, one column wide each."""
        return _is_unicode(self._stream)

    def has_colours(self) -> bool:
        """Whether colours are shown."""
        return has_colours(self._stream, os.environ)

    def size(self) -> os.terminal_size | None:
        """Columns and lines of the terminal; None if it is none."""
        return terminal_size(self._stream)

    def __getattr__(self, name: str) -> Any:
        # encoding, isatty and fileno, which give the screen's size.
        return getattr(self._stream, name)


def labelled(text: str, level: str) -> str:
    """The line of a message, with a label for warnings and errors."""
    return f"{level}: {text}" if level in {"warning", "error"} else text


def presentable(text: str) -> str:
    """``text`` without what could drive a terminal or show a credential; line breaks and tabs stay.

    Everything printed goes through here at last: most messages quote untrusted text (records, headers, file names,
    URLs). They are made without secrets already; this is the second safeguard.
    """
    return scrub(_CONTROL.sub("�", text))


def draws_blocks(encoding: str, code_page: int, env: Mapping[str, str] = MappingProxyType({})) -> bool:
    """Whether a terminal with this encoding draws block characters in one column each.

    With a legacy encoding it may lack them or use two columns. Python writes Unicode to every Windows console, where
    the font and the widths follow ``code_page`` (0: not a Windows console): Japanese, Chinese and Korean ones use two.
    Where ``env`` names the locale C or POSIX, Python writes UTF-8 (PEP 538, PEP 540), but only ASCII is promised.
    """
    chosen = (env.get("LC_ALL"), env.get("LC_CTYPE", "").removeprefix("C.UTF-8"), env.get("LANG"))
    is_ascii = next(filter(None, chosen), "") in {"C", "POSIX"}  # LC_CTYPE=C.UTF-8 may be Python's own doing
    return encoding.lower().startswith("utf") and code_page not in {932, 936, 949, 950} and not is_ascii


def _is_unicode(stream: TextIO) -> bool:
    return draws_blocks(stream.encoding or "", _output_code_page(), os.environ)


def dots_for(stream: TextIO) -> str:
    """The sign for cut text that ``stream`` shows."""
    return "…" if _is_unicode(stream) else ".."


def terminal_size(stream: TextIO) -> os.terminal_size | None:
    """Columns and lines of the terminal behind ``stream``, 80 by 24 if it does not say; None for other streams."""
    try:
        if not stream.isatty():
            return None
        size = os.get_terminal_size(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return None
    return size if size.columns and size.lines else os.terminal_size((80, 24))


def _output_code_page() -> int:
    if sys.platform == "win32":
        import ctypes

        return int(ctypes.windll.kernel32.GetConsoleOutputCP())
    return 0


def can_be_drawn_on(stream: TextIO) -> bool:
    """Whether this terminal supports escape sequences; on Windows they are enabled."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        enable_virtual_terminal_processing = 0x0004  # learn.microsoft.com: SetConsoleMode
        mode = ctypes.c_ulong()
        kernel32 = ctypes.windll.kernel32
        try:
            handle = msvcrt.get_osfhandle(stream.fileno())
        except (OSError, ValueError):
            return False
        if not kernel32.GetConsoleMode(handle, ctypes.byref(mode)):
            return False
        return bool(kernel32.SetConsoleMode(handle, mode.value | enable_virtual_terminal_processing))
    return True


def has_colours(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether ``stream`` shows colours: a terminal that is not dumb, without NO_COLOR (no-color.org)."""
    try:
        is_plain = bool(env.get("NO_COLOR")) or env.get("TERM") == "dumb"
        return not is_plain and stream.isatty() and can_be_drawn_on(stream)
    except (AttributeError, ValueError):  # missing or closed
        return False


def duration_text(seconds: float) -> str:
    """Format seconds: ``48 s``, ``3 min 20 s``, ``2 h 5 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"

"""Colours on a terminal: few, of the sixteen that each terminal has, for words that say how something went."""

from __future__ import annotations

from enum import Enum


class Tone(str, Enum):
    """What a colour means; the value is its SGR parameter (ECMA-48)."""

    ERROR = "1;31"
    WARNING = "33"
    GOOD = "32"
    MOVING = "36"
    NAME = "1"


TONES = {
    "error": Tone.ERROR,
    "failed": Tone.ERROR,
    "problem": Tone.ERROR,
    "warning": Tone.WARNING,
    "stopped": Tone.WARNING,
    "note": Tone.WARNING,
    "ok": Tone.GOOD,
    "downloaded": Tone.GOOD,
    "resumed": Tone.GOOD,
}
"""The tone of each word at the start of a line."""


def paint(text: str, tone: Tone) -> str:
    """``text`` in a colour."""
    return f"\x1b[{tone.value}m{text}\x1b[0m" if text else ""


def paint_first(text: str, word: str) -> str:
    """``text`` with ``word``, by which it begins, in the colour of ``TONES``."""
    tone = TONES.get(word)
    return text if tone is None or not text.startswith(word) else paint(word, tone) + text[len(word) :]

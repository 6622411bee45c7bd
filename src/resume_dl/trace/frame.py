"""The frame that all panels share: the time axis, the colours of sources, and the format of numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from resume_dl.byte_units import unit_of
from resume_dl.trace.svg import FAINT, Canvas
from resume_dl.trace.timeline import File, Timeline

WIDTH, LEFT, RIGHT = 1200.0, 112.0, 24.0
EARLIER = "#c9ced6"
"""Bytes of an earlier run."""
# Distinguishable with colour blindness (Okabe and Ito, 2008); the yellow is darkened for a white background.
_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#7a6f00",
    "#6a51a3",
    "#8c564b",
    "#5f6b7a",
)


@dataclass(frozen=True, slots=True)
class Source:
    """One source as the picture names it, over all files."""

    name: str
    colour: str


class Frame:
    """Places times on the picture and names sources."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.seconds = max(timeline.end, 0.001)
        self._names: dict[tuple[str, int], str] = {}
        self.sources: dict[str, Source] = {}
        hosts: dict[str, set[str]] = {}
        for file in timeline.files:
            for index, name in enumerate(_told_apart(file)):
                self._names[file.key, index] = name
                hosts.setdefault(name, set()).update(file.hosts.get(index, ()))
        for number, (name, seen) in enumerate(hosts.items()):
            shown = f"{name} ({next(iter(seen))})" if len(seen) == 1 and next(iter(seen)) not in name else name
            self.sources[name] = Source(shown, _COLOURS[number % len(_COLOURS)])

    def source(self, file: File, index: int) -> Source:
        """The source at an index of a file's sources."""
        name = self._names.get((file.key, index), "")
        return self.sources.get(name) or Source(f"source {index}", FAINT)

    def x(self, t: float) -> float:
        """The horizontal position of a time."""
        return LEFT + (WIDTH - LEFT - RIGHT) * min(max(t / self.seconds, 0.0), 1.0)

    def time_axis(self, canvas: Canvas, top: float, bottom: float, *, numbers: bool) -> None:
        """Draw vertical lines at round times, with the numbers below."""
        step = round_step(self.seconds / 10)
        for number in range(int(self.seconds / step) + 1):
            x = self.x(number * step)
            canvas.line((x, top), (x, bottom))
            if numbers:
                label = f"{number * step:g} s"
                canvas.text(x, bottom + 14, label, text_anchor="middle", fill=FAINT, font_size=11)


def _told_apart(file: File) -> list[str]:
    """The sources' names; names that occur more than once get a number."""
    seen: dict[str, int] = {}
    found = []
    for name in file.sources:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} {seen[name]}")
    return found


def round_step(least: float) -> float:
    """The lowest of 1, 2, 5 times a power of ten that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((power * factor for factor in (1, 2, 5) if power * factor >= least), power * 10)


def bytes_text(count: float) -> str:
    """Bytes in three figures: ``5 MB``, ``1.25 GB``."""
    unit, scale = unit_of(count)
    scaled = count / scale
    return f"{scaled:.3g} {unit}" if 1 <= scaled < 999.5 else f"{scaled:.0f} {unit}"


def seconds_text(seconds: float) -> str:
    """Seconds, or minutes and seconds."""
    return f"{seconds:.1f} s" if seconds < 120 else f"{int(seconds) // 60} min {int(seconds) % 60} s"

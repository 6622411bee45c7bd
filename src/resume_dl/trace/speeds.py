"""The upper panel: kept bytes a second, stacked by source."""

from __future__ import annotations

from resume_dl.trace.frame import LEFT, RIGHT, WIDTH, Frame, bytes_text, round_step
from resume_dl.trace.svg import FAINT, INK, Canvas

HEIGHT = 130.0
BINS = 200
SHORTEST_BIN = 0.05
"""Seconds; connections do not report more often."""
SMOOTH = 0.2
"""Seconds on either side that are averaged."""


def draw_speeds(canvas: Canvas, frame: Frame, top: float) -> float:
    """Draw the panel below ``top``; return its lower end."""
    bins = max(1, min(BINS, int(frame.seconds / SHORTEST_BIN)))
    length = frame.seconds / bins
    rates = _rates(frame, bins, length)
    most = max((sum(column) for column in zip(*rates.values(), strict=True)), default=0.0)
    step = round_step(max(most, 1.0) / 5)
    ceiling = max(step, most * 1.05)
    bottom = top + HEIGHT
    frame.time_axis(canvas, top, bottom, numbers=True)
    for number in range(int(ceiling / step) + 1):
        y = bottom - HEIGHT * number * step / ceiling
        canvas.line((LEFT, y), (WIDTH - RIGHT, y))
        canvas.text(LEFT - 8, y + 4, f"{bytes_text(number * step)}/s", text_anchor="end", fill=FAINT, font_size=11)
    below = [0.0] * bins
    for name, rate in rates.items():
        above = [low + more for low, more in zip(below, rate, strict=True)]
        if any(rate):
            points = [*_steps(frame, above, length, bottom, ceiling)]
            points += reversed(_steps(frame, below, length, bottom, ceiling))
            canvas.area(points, frame.sources[name].colour, class_="speed", fill_opacity=0.85)
        below = above
    canvas.line((LEFT, bottom), (WIDTH - RIGHT, bottom), INK)
    return bottom + 22


def _rates(frame: Frame, bins: int, length: float) -> dict[str, list[float]]:
    """Bytes a second in each bin, by source; the bytes of a report are spread over its interval."""
    rates = {name: [0.0] * bins for name in frame.sources}
    colours = {id(source): name for name, source in frame.sources.items()}
    for file in frame.timeline.files:
        for since, until, index, count in file.gained:
            name = colours.get(id(frame.source(file, index)))
            if name is None:
                continue
            first, last = int(since / length), min(int(until / length), bins - 1)
            for number in range(min(first, last), last + 1):
                overlap = min(until, (number + 1) * length) - max(since, number * length)
                share = overlap / (until - since) if until > since else 1 / (last - min(first, last) + 1)
                rates[name][number] += count * max(share, 0.0) / length
    reach = max(1, round(SMOOTH / length))
    return {name: _smooth(rate, reach) for name, rate in rates.items()}


def _smooth(rate: list[float], reach: int) -> list[float]:
    """Replace each value by the mean of its neighbourhood, because bytes arrive in bursts."""
    around = [rate[max(0, number - reach) : number + reach + 1] for number in range(len(rate))]
    return [sum(values) / len(values) for values in around]


def _steps(
    frame: Frame, values: list[float], length: float, bottom: float, ceiling: float
) -> list[tuple[float, float]]:
    points = []
    for number, value in enumerate(values):
        y = bottom - HEIGHT * value / ceiling
        points += [(frame.x(number * length), y), (frame.x((number + 1) * length), y)]
    return points

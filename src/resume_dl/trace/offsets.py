"""The lower panels: the offsets at which bytes were received over time, and the progress of the digest."""

from __future__ import annotations

from collections.abc import Callable

from resume_dl.trace.frame import EARLIER, LEFT, RIGHT, WIDTH, Frame, bytes_text, round_step
from resume_dl.trace.lanes import DASHES, MANY
from resume_dl.trace.svg import ALARM, FAINT, INK, Canvas, shortened, thinned
from resume_dl.trace.timeline import Connection, File

MOST = 6
"""Number of files drawn, the largest first."""
HEIGHT = 190.0
WORTH = 1_000_000
"""Bytes; of many files, smaller ones are not drawn, because they are one request each."""

Height = Callable[[float], float]
"""Offset in the file -> vertical position."""


def draw_offsets(canvas: Canvas, frame: Frame, top: float) -> float:
    """Draw the panel below ``top``; return its lower end."""
    files = [file for file in frame.timeline.files if file.size and file.connections]
    if len(files) > MANY:
        files = [file for file in files if (file.size or 0) >= WORTH]
    largest = sorted(files, key=lambda file: -(file.size or 0))[:MOST]
    for file in files:
        if file in largest:
            top = _plot(canvas, frame, file, file.size or 1, top)
    return top


def _plot(canvas: Canvas, frame: Frame, file: File, size: int, top: float) -> float:
    canvas.text(LEFT, top + 12, f"{shortened(file.name, 80)}: where bytes came in", font_weight="bold")
    top += 20
    bottom = top + HEIGHT

    def y(offset: float) -> float:
        return bottom - HEIGHT * min(offset / size, 1.0)

    left, right = frame.x(file.began), frame.x(frame.seconds)
    for start, end in file.resumed:
        title = f"on disk from an earlier run: {bytes_text(end - start)}"
        canvas.rect((left, y(end)), (right, y(start)), title, class_="resumed", fill=EARLIER, fill_opacity=0.55)
    frame.time_axis(canvas, top, bottom, numbers=True)
    step = round_step(size / 4)
    for number in range(int(size / step) + 1):
        canvas.line((LEFT, y(number * step)), (WIDTH - RIGHT, y(number * step)))
        label = bytes_text(number * step)
        canvas.text(LEFT - 8, y(number * step) + 4, label, text_anchor="end", fill=FAINT, font_size=11)
    for t, ranges in file.forgotten:
        for start, end in ranges:
            title = f"forgotten: {bytes_text(end - start)}"
            canvas.rect((frame.x(t) - 2, y(end)), (frame.x(t) + 2, y(start)), title, class_="forgotten", fill=ALARM)
    for one in file.connections.values():
        _path(canvas, frame, file, one, y)
    _rising(
        canvas, frame, file, file.frontier, y, stroke=INK, stroke_width=1, stroke_dasharray="2 2", class_="frontier"
    )
    _rising(canvas, frame, file, file.digest, y, stroke=INK, stroke_width=2, class_="digest")
    canvas.line((LEFT, bottom), (WIDTH - RIGHT, bottom), INK)
    for t in file.durable:
        canvas.line((frame.x(t), bottom), (frame.x(t), bottom - 6), INK, class_="durable", stroke_width=1.5)
    return bottom + 30


def _path(canvas: Canvas, frame: Frame, file: File, one: Connection, y: Height) -> None:
    points = [(frame.x(t), y(offset)) for t, offset in one.points]
    if one.closed is not None:
        points.append((frame.x(one.closed), points[-1][1]))
    looks: dict[str, str | float] = {"stroke_width": 2.2, "class_": f"path {one.mode}"}
    if one.mode in DASHES:
        looks["stroke_dasharray"] = DASHES[one.mode]
    canvas.path(thinned(points), frame.source(file, one.source).colour, **looks)


def _rising(
    canvas: Canvas, frame: Frame, file: File, steps: list[tuple[float, int]], y: Height, **looks: str | float
) -> None:
    """A line that keeps its height until the next step."""
    if not steps:
        return
    points, height = [], y(0)
    for t, offset in [*steps, (file.ended if file.ended is not None else frame.seconds, steps[-1][1])]:
        points.append((frame.x(t), height))
        height = y(offset)
        points.append((frame.x(t), height))
    stroke = str(looks.pop("stroke"))
    canvas.path(thinned(points), stroke, **looks)

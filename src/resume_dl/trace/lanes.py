"""The middle panel: connections as bars; a lane is reused once its connection has ended."""

from __future__ import annotations

from itertools import pairwise

from resume_dl.trace.frame import LEFT, RIGHT, WIDTH, Frame, bytes_text, seconds_text
from resume_dl.trace.svg import ALARM, FAINT, INK, PAPER, Canvas, shortened, width_of
from resume_dl.trace.timeline import Connection, File, Mark

MANY = 12
"""More files than this share their lanes."""
QUIET = 1.0
"""Seconds without a byte that are shown as a stall."""
DASHES = {"hold": "5 3", "compare": "1.5 2"}
"""Descriptions of the modes."""
_BAR, _LANE, _COMPACT = 15.0, 19.0, 11.0

Bar = tuple[File, int, Connection]
Extent = tuple[float, float]


def draw_lanes(canvas: Canvas, frame: Frame, top: float) -> float:
    """Draw the panel below ``top``; return its lower end."""
    files = [file for file in frame.timeline.files if file.connections or file.marks or file.phases]
    if len(files) > MANY:
        title = f"{len(files)} files, {bytes_text(sum(file.size or 0 for file in files))}"
        return _group(canvas, frame, top, files, title)
    for file in files:
        size = "size unknown" if file.size is None else bytes_text(file.size)
        how = file.outcome or "unfinished when the trace ends"
        top = _group(canvas, frame, top, [file], f"{shortened(file.name, 90)}: {size}, {how}")
    return top


def _group(canvas: Canvas, frame: Frame, top: float, files: list[File], title: str) -> float:
    """Draw the lanes of these files; those of a single file are numbered and labelled, with its phases above."""
    alone = len(files) == 1
    step = _LANE if alone else _COMPACT
    height = step * _BAR / _LANE
    lanes = assign([(file, number, one) for file in files for number, one in file.connections.items()])
    where: dict[tuple[int, int | None], int] = {
        (id(file), number): index for index, lane in enumerate(lanes) for file, number, _ in lane
    }
    canvas.text(LEFT, top + 12, title, font_weight="bold")
    strip = top + 19
    body = strip + 14
    bottom = body + max(1, len(lanes)) * step
    frame.time_axis(canvas, strip, bottom, numbers=True)
    if alone:
        _phases(canvas, frame, files[0], strip)
    marks = [(file, mark, where.get((id(file), mark.connection))) for file in files for mark in file.marks]
    for index, lane in enumerate(lanes):
        y = body + index * step
        if alone:
            canvas.text(LEFT - 8, y + 12, str(index + 1), text_anchor="end", fill=FAINT, font_size=11)
        said = [_extent(frame, mark) for _, mark, lane_of in marks if lane_of == index]
        for file, _, one in lane:
            _bar(canvas, frame, file, one, (y, y + height))
            if alone:
                _label(canvas, frame, file, one, y, beside=said)
    for file, mark, lane_of in marks:
        y = strip + 4 if lane_of is None else body + lane_of * step + height / 2
        _failure(canvas, frame, file, mark, y, labelled=alone)
    return bottom + 28


def assign(bars: list[Bar]) -> list[list[Bar]]:
    """Assign each connection to the first lane that is free when it opens."""
    lanes: list[list[Bar]] = []
    for bar in sorted(bars, key=lambda bar: bar[2].opened):
        for lane in lanes:
            ended = lane[-1][2].closed
            if ended is not None and ended <= bar[2].opened:
                lane.append(bar)
                break
        else:
            lanes.append([bar])
    return lanes


def _bar(canvas: Canvas, frame: Frame, file: File, one: Connection, y: Extent) -> None:
    source = frame.source(file, one.source)
    until = one.closed if one.closed is not None else frame.seconds
    left, right = frame.x(one.opened), max(frame.x(until) - 0.8, frame.x(one.opened) + 0.5)
    brought = f"{bytes_text(one.received)} in {seconds_text(until - one.opened)}"
    title = f"{file.name}\n{_MODES.get(one.mode, one.mode)} {_range(one)} from {source.name}\n{brought}"
    looks: dict[str, str | float] = {"fill": source.colour}
    if one.mode in DASHES:
        looks = {"fill": PAPER, "stroke": source.colour, "stroke_width": 2, "stroke_dasharray": DASHES[one.mode]}
    canvas.rect((left, y[0]), (right, y[1]), title, class_=f"bar {one.mode}", **looks)
    begun = min(frame.x(one.answered), right) if one.answered is not None else right
    if one.mode not in DASHES:
        canvas.rect((left, y[0]), (begun, y[1]), class_="waiting", fill=PAPER, fill_opacity=0.65)
    for start, end in one.quiet(frame.seconds, QUIET):
        hatched = {"fill": "url(#hatch)", "stroke": source.colour, "class_": "stall"}
        canvas.rect((frame.x(start), y[0]), (frame.x(end) - 0.8, y[1]), f"no byte for {end - start:.1f} s", **hatched)
    if one.won is not None:
        canvas.rect((frame.x(one.won), y[0]), (right, y[1]), "the duplicate won", class_="won", fill=source.colour)
    for t, _ in one.shortened:
        x = frame.x(t)
        canvas.area([(x - 4, y[0] - 2), (x + 4, y[0] - 2), (x, y[0] + 5)], INK, class_="shortened")
        canvas.line((x, y[0]), (x, y[1]), INK, stroke_width=1.2)


def _label(canvas: Canvas, frame: Frame, file: File, one: Connection, y: float, *, beside: list[Extent]) -> None:
    """Write the requested range, if there is room ``beside`` failures and stalls."""
    label = _range(one)
    until = one.closed if one.closed is not None else frame.seconds
    x = frame.x(one.answered if one.answered is not None else until)
    end = x + width_of(label, 10) + 8
    stalls = [(frame.x(a), frame.x(b)) for a, b in one.quiet(frame.seconds, QUIET)]
    if end < frame.x(until) and not any(a < end and x < b for a, b in [*beside, *stalls]):
        dark = one.mode in DASHES or frame.source(file, one.source).colour in _PALE
        canvas.text(x + 4, y + 11.5, label, font_size=10, fill=INK if dark else PAPER)


_PALE = {"#e69f00", "#56b4e9", "#cc79a7"}
_MODES = {"write": "asked for", "hold": "duplicate, in memory:", "compare": "compares"}


def _range(one: Connection) -> str:
    """The range first requested."""
    stop = "end" if one.asked_end is None else bytes_text(one.asked_end)
    return f"{bytes_text(one.lease.start)}–{stop}"


def _extent(frame: Frame, mark: Mark) -> Extent:
    """The horizontal extent of a failure's mark and its text."""
    x, width = frame.x(mark.t), width_of(mark.kind, 10) + 7
    return (x - width, x + 5) if x + width > WIDTH - RIGHT else (x - 5, x + width)


def _failure(canvas: Canvas, frame: Frame, file: File, mark: Mark, y: float, *, labelled: bool) -> None:
    x = frame.x(mark.t)
    name = frame.source(file, mark.source).name
    canvas.cross(x, y, f"{file.name}\n{name}: {mark.kind}: {mark.message}", class_="failure")
    if labelled:
        last = _extent(frame, mark)[1] < x + 6
        place: dict[str, str | float] = {"font_size": 10, "text_anchor": "end" if last else "start"}
        for looks in ({"stroke": PAPER, "stroke_width": 3.0, "stroke_linejoin": "round"}, {"fill": ALARM}):
            canvas.text(x - 7 if last else x + 7, y + 4, mark.kind, **place, **looks)


def _phases(canvas: Canvas, frame: Frame, file: File, y: float) -> None:
    """Draw the file's waits other than for the network."""
    last = (file.ended if file.ended is not None else frame.seconds, "")
    for (start, name), (end, _) in pairwise([*file.phases, last]):
        if name:
            title = f"{name}, {seconds_text(end - start)}"
            canvas.rect((frame.x(start), y), (frame.x(end), y + 7), title, class_="phase", fill=FAINT)
            if frame.x(end) - frame.x(start) > width_of(name, 10):
                canvas.text(frame.x(end) + 4, y + 8, name, fill=FAINT, font_size=10)

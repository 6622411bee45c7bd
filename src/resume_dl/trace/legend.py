"""The panel with the table of sources and the key to the strokes."""

from __future__ import annotations

from collections import Counter

from resume_dl.trace.frame import EARLIER, LEFT, RIGHT, WIDTH, Frame, bytes_text
from resume_dl.trace.svg import ALARM, FAINT, GRID, INK, PAPER, Canvas, Looks, shortened

_COLUMNS = (("source", 18.0), ("kept", 400.0), ("received", 480.0), ("requests", 560.0), ("failures", 580.0))
_BLUE = "#0072b2"


def draw_legend(canvas: Canvas, frame: Frame, top: float) -> float:
    """Draw the panel below ``top``; return its lower end."""
    kept, received, requests = Counter[str](), Counter[str](), Counter[str]()
    failures: dict[str, Counter[str]] = {}
    for file in frame.timeline.files:
        for index, count in file.kept.items():
            kept[frame.source(file, index).name] += count
        for index, count in file.received.items():
            received[frame.source(file, index).name] += count
        for one in file.connections.values():
            requests[frame.source(file, one.source).name] += 1
        for mark in file.marks:
            failures.setdefault(frame.source(file, mark.source).name, Counter())[mark.kind] += 1
    y = top + 14
    for name, x in _COLUMNS:
        anchor = "start" if name in {"source", "failures"} else "end"
        canvas.text(LEFT + x, y, name, fill=FAINT, text_anchor=anchor, font_size=11)
    canvas.line((LEFT, y + 5), (WIDTH - RIGHT, y + 5))
    for source in frame.sources.values():
        y += 19
        name = source.name
        canvas.rect((LEFT, y - 10), (LEFT + 12, y + 2), class_="swatch", fill=source.colour)
        canvas.text(LEFT + 18, y, shortened(name, 52))
        for (_, x), value in zip(_COLUMNS[1:4], _numbers(kept[name], received[name], requests[name]), strict=True):
            canvas.text(LEFT + x, y, value, text_anchor="end")
        said = ", ".join(f"{count} × {kind}" for kind, count in failures.get(name, Counter()).items())
        canvas.text(LEFT + 580, y, shortened(said, 80), fill=ALARM)
    return _strokes(canvas, y + 24)


def _numbers(kept: int, received: int, requests: int) -> tuple[str, str, str]:
    return bytes_text(kept), bytes_text(received), str(requests)


_SAMPLES: tuple[tuple[str, Looks], ...] = (
    ("connection: bytes come", {"fill": _BLUE}),
    ("waits for its answer", {"fill": _BLUE, "fill_opacity": 0.35}),
    ("no byte for a second or more", {"fill": "url(#hatch)", "stroke": _BLUE}),
    ("duplicate, held in memory", {"fill": PAPER, "stroke": _BLUE, "stroke_width": 2, "stroke_dasharray": "5 3"}),
    ("compared, not written", {"fill": PAPER, "stroke": _BLUE, "stroke_width": 2, "stroke_dasharray": "1.5 2"}),
    ("on disk before this run", {"fill": EARLIER, "fill_opacity": 0.55}),
    ("reads disk, verifies, publishes", {"fill": FAINT}),
)
_SIGNS = (
    "lease cut: its tail is another's",
    "failure of a source",
    "lowest unfinished byte",
    "digest has come so far",
    "synced: safe from a power cut",
    "bytes believed no more",
)
_ROWS = 4


def _strokes(canvas: Canvas, top: float) -> float:
    """Samples in columns."""
    column = (WIDTH - LEFT - RIGHT) / 4
    for number in range(len(_SAMPLES) + len(_SIGNS)):
        x, y = LEFT + column * (number // _ROWS), top + 18 * (number % _ROWS)
        if number < len(_SAMPLES):
            name, looks = _SAMPLES[number]
            canvas.box((x, y - 9), (x + 26, y + 2), {"class_": "sample", **looks})
        else:
            name = _SIGNS[number - len(_SAMPLES)]
            _sign(canvas, number - len(_SAMPLES), x, y - 4)
        canvas.text(x + 34, y, name, font_size=11)
    return top + 18 * (_ROWS - 1) + 12


def _sign(canvas: Canvas, which: int, x: float, y: float) -> None:
    if which == 0:
        canvas.line((x + 13, y - 4), (x + 13, y + 6), INK, stroke_width=1.2)
        canvas.area([(x + 9, y - 6), (x + 17, y - 6), (x + 13, y + 1)], INK)
    elif which == 1:
        canvas.cross(x + 13, y)
    elif which == 2:
        canvas.line((x, y), (x + 26, y), INK, stroke_dasharray="2 2")
    elif which == 3:
        canvas.line((x, y), (x + 26, y), INK, stroke_width=2)
    elif which == 4:
        canvas.line((x, y + 4), (x + 26, y + 4), GRID)
        for offset in (6, 13, 20):
            canvas.line((x + offset, y + 4), (x + offset, y - 2), INK, stroke_width=1.5)
    else:
        canvas.rect((x + 11, y - 5), (x + 15, y + 6), fill=ALARM)

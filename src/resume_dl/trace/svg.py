"""A little SVG: shapes on a canvas, in pixels, rounded so that a picture stays small."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

_UNFIT = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold (its production 2, Char)."""
INK, FAINT, GRID, PAPER, ALARM = "#1b1f24", "#59636e", "#dfe3e8", "#ffffff", "#c1121f"

Point = tuple[float, float]
Looks = Mapping[str, str | float]


def fit(text: str) -> str:
    """``text`` as XML can hold it."""
    return _UNFIT.sub("\ufffd", text)


def px(value: float) -> str:
    """A coordinate, to a tenth of a pixel."""
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    """A picture being drawn; ``height`` may be set as long as it is."""

    def __init__(self, width: float) -> None:
        self.width = width
        self.root = ET.Element("svg", xmlns="http://www.w3.org/2000/svg")
        self.root.set("font-family", "Helvetica, Arial, sans-serif")
        self.root.set("font-size", "12")
        self._defs = ET.SubElement(self.root, "defs")
        self._paper = ET.SubElement(self.root, "rect", width="100%", height="100%", fill=PAPER)
        hatch = ET.SubElement(self._defs, "pattern", id="hatch", width="6", height="6", patternUnits="userSpaceOnUse")
        ET.SubElement(hatch, "rect", width="6", height="6", fill=PAPER)
        ET.SubElement(hatch, "path", d="M-1 1L1 -1M-1 7L7 -1M5 7L7 5", stroke=FAINT)

    def add(self, tag: str, looks: Looks, title: str = "") -> ET.Element:
        """A shape; ``_`` in names stands for ``-``, ``title`` is shown where a pointer rests on it."""
        named = {
            name.rstrip("_").replace("_", "-"): value if isinstance(value, str) else px(value)
            for name, value in looks.items()
        }
        element = ET.SubElement(self.root, tag, named)
        if title:
            ET.SubElement(element, "title").text = fit(title)
        return element

    def rect(self, a: Point, b: Point, title: str = "", **looks: str | float) -> None:
        """A rectangle between two corners, at least half a pixel wide, so that what was short can be seen."""
        self.box(a, b, looks, title)

    def box(self, a: Point, b: Point, looks: Looks, title: str = "") -> None:
        """The same."""
        size = {"width": max(b[0] - a[0], 0.5), "height": max(b[1] - a[1], 0.5)}
        self.add("rect", {"x": a[0], "y": a[1], **size, **looks}, title)

    def line(self, a: Point, b: Point, stroke: str = GRID, **looks: str | float) -> None:
        """A straight line."""
        self.add("line", {"x1": a[0], "y1": a[1], "x2": b[0], "y2": b[1], "stroke": stroke, **looks})

    def text(self, x: float, y: float, text: str, **looks: str | float) -> None:
        """Text with its base line at ``y``."""
        self.add("text", {"x": x, "y": y, "fill": INK, **looks}).text = fit(text)

    def path(self, points: Iterable[Point], stroke: str, **looks: str | float) -> None:
        """A line through points."""
        self.add("polyline", {"points": _places(points), "fill": "none", "stroke": stroke, **looks})

    def area(self, points: Iterable[Point], fill: str, **looks: str | float) -> None:
        """A filled shape."""
        self.add("polygon", {"points": _places(points), "fill": fill, **looks})

    def cross(self, x: float, y: float, title: str = "", **looks: str | float) -> None:
        """The mark of a failure."""
        d = f"M{px(x - 4)} {px(y - 4)}l8 8m-8 0l8 -8"
        self.add("path", {"d": d, "stroke": ALARM, "stroke_width": 2, "fill": "none", **looks}, title)

    def written(self, height: float) -> bytes:
        """The whole document."""
        self.root.set("width", px(self.width))
        self.root.set("height", px(height))
        self.root.set("viewBox", f"0 0 {px(self.width)} {px(height)}")
        return bytes(ET.tostring(self.root, encoding="utf-8", xml_declaration=True)) + b"\n"


def _places(points: Iterable[Point]) -> str:
    return " ".join(f"{px(x)},{px(y)}" for x, y in points)


def width_of(text: str, size: float = 12) -> float:
    """About how wide a text is drawn; no font is measured."""
    return len(text) * size * 0.54


def shortened(text: str, most: int) -> str:
    """``text`` with its middle left out where it is longer than ``most`` characters."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - most + most // 2 + 1 :]}"


def thinned(points: Sequence[Point]) -> list[Point]:
    """``points`` without those that are less than half a pixel from the last one drawn."""
    kept: list[Point] = []
    for number, point in enumerate(points):
        last = number == len(points) - 1
        if not kept or last or abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) >= 0.5:
            kept.append(point)
    return kept

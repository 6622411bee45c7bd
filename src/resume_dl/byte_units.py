"""Counts of bytes as people read them, in powers of ten: for resume-dl and for the offline tools (Python 3.8). Pure."""

from __future__ import annotations


def show_bytes(count: float) -> str:
    """A count of bytes for people: ``812 B``, ``1.5 MB``, ``4.2 GB``. Never ``1000.0 kB``."""
    unit, scale = unit_of(count)
    return f"{count / scale:.0f} B" if unit == "B" else f"{count / scale:.1f} {unit}"


def unit_of(count: float) -> tuple[str, int]:
    """The unit in which people read a count of this size, and how many bytes it has."""
    for unit, scale in (("B", 1), ("kB", 1000), ("MB", 1000**2)):
        if round(count / scale, 0 if scale == 1 else 1) < 1000:
            return unit, scale
    return "GB", 1000**3

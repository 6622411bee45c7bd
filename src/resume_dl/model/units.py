"""Sizes and ages in human-readable form: powers of ten, as for disks and networks. Pure."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes from ``10MB`` (powers of ten) or ``4GiB`` (of 1024); raises ValueError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size")
    base = 1024 if found["binary"] else 1000
    return int(float(found["number"]) * base ** _POWERS[found["unit"].lower()])


def show_bytes(count: float) -> str:
    """Format a count of bytes: ``812 B``, ``1.5 MB``, ``4.2 GB``. Never ``1000.0 kB``.

    ``offline_tools/console`` formats the same way without importing it.
    """
    unit, scale = unit_of(count)
    return f"{count / scale:.0f} B" if unit == "B" else f"{count / scale:.1f} {unit}"


def show_age(seconds: float) -> str:
    """Format an age in its largest unit: ``40 seconds``, ``3 hours``, ``2 days``."""
    units = (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))
    name, length = next((each for each in units if seconds >= each[1]), units[-1])
    count = max(0, int(seconds // length))
    return f"{count} {name}{'' if count == 1 else 's'}"


def show_part(done: int, total: int | None) -> str:
    """Format ``1.9 of 2.2 MB``; only the first number if the total is unknown."""
    if total is None:
        return show_bytes(done)
    unit, scale = unit_of(total)
    return f"{done / scale:.{0 if unit == 'B' else 1}f} of {show_bytes(total)}"


def unit_of(count: float) -> tuple[str, int]:
    """The unit for a count of this size, and its number of bytes."""
    for unit, scale in (("B", 1), ("kB", 1000), ("MB", 1000**2)):
        if round(count / scale, 0 if scale == 1 else 1) < 1000:
            return unit, scale
    return "GB", 1000**3

"""Sizes and ages in human-readable form: powers of ten, as for disks and networks. Pure."""

from __future__ import annotations

import re

from resume_dl.byte_units import show_bytes, unit_of

__all__ = ["parse_size", "show_age", "show_bytes", "show_part", "unit_of"]

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes from ``10MB`` (powers of ten) or ``4GiB`` (of 1024); raises ValueError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a size")
    base = 1024 if found["binary"] else 1000
    return int(float(found["number"]) * base ** _POWERS[found["unit"].lower()])


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

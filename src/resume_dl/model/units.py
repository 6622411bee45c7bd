"""Sizes as people write them. Pure."""

from __future__ import annotations

import re

_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kmgt]?)(?P<binary>i?)b?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Bytes from ``10MB`` (powers of ten) or ``4GiB`` (of 1024); raises ValueError for anything else."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size")
    base = 1024 if found["binary"] else 1000
    return int(float(found["number"]) * base ** _POWERS[found["unit"].lower()])

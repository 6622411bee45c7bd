"""A mirror's own account of its synchronisation: tunasync's list, or MirrorZ's object. Pure.

tunasync (github.com/tuna/tunasync): a list of ``{"name": "anaconda", "last_update_ts": 1700000000, ...}``. MirrorZ
(github.com/mirrorz-org/mirrorz): ``{"mirrors": [{"cname": "anaconda", "status": "S1700000000X1700003600", ...}]}``;
in ``status`` a letter stands before each time: S for a success, O for the last success before a failure or a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_JOBS = {"conda:": "anaconda", "pypi:": "pypi", "wheels:pytorch": "pytorch-wheels"}
"""Kind of origin -> name of the job that synchronises it, the same at all sites (MirrorZ's cname)."""
_STATES = re.compile(r"([A-Z])([0-9]{9,10})(?![0-9])")
_MOST_ENTRIES = 10_000


def synced_at(data: bytes, origin: str) -> float | None:
    """Seconds since 1970 of the last successful synchronisation of ``origin``; None if the file does not say."""
    job = next((name for start, name in _JOBS.items() if origin.startswith(start)), None)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    times = [time for name, time in _times(document) if name == job]
    return max(times, default=None)


def _times(document: Any) -> Iterator[tuple[str, float]]:
    is_mirrorz = isinstance(document, dict)
    entries = document.get("mirrors") if is_mirrorz else document
    for entry in entries[:_MOST_ENTRIES] if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        name = entry.get("cname" if is_mirrorz else "name")
        time = _of_status(entry.get("status")) if is_mirrorz else _of_number(entry.get("last_update_ts"))
        if isinstance(name, str) and time is not None:
            yield name.lower(), time


def _of_status(status: Any) -> float | None:
    stated = dict(_STATES.findall(status)) if isinstance(status, str) else {}
    return next((float(stated[letter]) for letter in "SO" if letter in stated), None)


def _of_number(number: Any) -> float | None:
    is_time = isinstance(number, int) and not isinstance(number, bool) and 0 < number < 10**10
    return float(number) if is_time else None

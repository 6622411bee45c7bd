"""``exclude_newer``: packages that appeared after a date, or in the last days, are held back. Pure.

The forms of a value, and that a record without a timestamp stays, are conda's (26.9, ``core/exclude_newer.py``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta, timezone

_UNITS = {"w": "weeks", "d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_COMPACT = re.compile(r"(?:\d{1,9}\s*[wdhms]\s*)+", re.IGNORECASE)
_PART = re.compile(r"(\d{1,9})\s*([wdhms])", re.IGNORECASE)
_ISO = re.compile(r"P(?=.)((?:\d{1,9}[WD])*)(?:T((?:\d{1,9}[HMS])+))?", re.IGNORECASE)
_SECONDS = re.compile(r"\d{1,12}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?(?:[Zz]|([+-]\d{2}:\d{2}))")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadCutoff:
    """The time from which uploaded files of a package index count as new, as uv has it (``exclude-newer``)."""

    time: datetime | None = None
    """In UTC; None: no file is too new."""
    packages: Mapping[str, datetime | None] = field(default_factory=dict)
    """Normalized project name -> its own time, or None to permit every file."""
    origin: str = ""
    """The option, variable or file that has set it."""

    def allows(self, project: str, uploaded: datetime | None) -> bool:
        """Whether a file of ``project`` (a normalized name) may be used; one without an upload time only if all may."""
        cutoff = self.packages.get(project, self.time)
        return cutoff is None or (uploaded is not None and uploaded < cutoff)

    @property
    def text(self) -> str:
        """The time in ISO 8601, UTC; empty if there is none."""
        return "" if self.time is None else f"{self.time:%Y-%m-%dT%H:%M:%SZ}"


def time_of(text: str) -> datetime | None:
    """The time of an RFC 3339 text, in UTC, to the microsecond; None if the text has another form."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    day, clock, fraction, zone = found.groups()
    try:
        time = datetime.fromisoformat(f"{day}T{clock}.{(fraction or '').ljust(6, '0')[:6]}{zone or '+00:00'}")
        return time.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def cutoff_of(text: str, now: datetime) -> datetime:
    """The time, in UTC, after which a package counts as new.

    ``text``: a duration before ``now`` (``7d``, ``1w 2d``, ISO 8601's ``P7D``, a number of seconds), a date, which
    includes that day in UTC, or a date with a time, in UTC unless it says otherwise. Raises ValueError for any other.
    """
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return _before(now, {"seconds": int(text)}, text)
    found = _ISO.fullmatch(text)
    parts = "".join(part or "" for part in found.groups()) if found else text if _COMPACT.fullmatch(text) else ""
    if parts:
        units: dict[str, int] = {}
        for count, unit in _PART.findall(parts):
            name = _UNITS[unit.lower()]
            units[name] = units.get(name, 0) + int(count)
        return _before(now, units, text)
    try:
        if _DATE.fullmatch(text):
            day = datetime.fromisoformat(text).date() + timedelta(days=1)
            return datetime.combine(day, time(), tzinfo=timezone.utc)
        found_time = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith(("Z", "z")) else text)
    except (ValueError, OverflowError):
        raise ValueError(f"not a date or duration: {text!r}") from None
    if found_time.tzinfo is None:
        found_time = found_time.replace(tzinfo=timezone.utc)
    return found_time.astimezone(timezone.utc)


def _before(now: datetime, units: dict[str, int], text: str) -> datetime:
    try:
        return now - timedelta(**units)
    except OverflowError:
        raise ValueError(f"not a date or duration: {text!r}") from None


def is_off(value: str) -> bool:
    """Whether a channel's or package's own value turns the rule off, as conda reads booleans."""
    return value.strip().lower() in {"false", "no", "off", "n", "0", "none", "~", "null", ""}

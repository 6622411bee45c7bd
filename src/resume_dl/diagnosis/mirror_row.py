"""What ``mirrors test`` measures: a row for each mirror, origin and platform, and how rows compare. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from resume_dl.core.failures import FailureKind
from resume_dl.model.artifact import Source
from resume_dl.model.mirror import UPSTREAM, MirrorTable, join_url
from resume_dl.model.url import RedactedUrl

CONDA = "conda:"
_PATHS = {"pypi:simple": "pip/", "wheels:": "torch/"}
"""A page that each place of a kind has."""
STALE_AFTER = 86400.0
"""Seconds behind the origin from which a mirror is shown as behind: most synchronise several times a day."""


@dataclass(frozen=True, slots=True)
class Place:
    """One file to ask for: the index of ``origin`` at ``source``; ``platform`` is empty for packages of pip."""

    origin: str
    platform: str
    source: Source
    sync_status: str = ""

    @property
    def mirror(self) -> str:
        """The mirror's name, or ``upstream``."""
        return self.source.mirror

    @property
    def is_page(self) -> bool:
        """Whether a web page is the right answer."""
        return not self.origin.startswith(CONDA)


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """The result for one place; times in seconds, speeds in bytes a second, None for what is not known."""

    place: Place
    status: int | None = None
    failure: str = ""
    """The kind of the failure (docs/interface.md); empty if the file came."""
    text: str = ""
    """The reason, in words."""
    ranges: bool | None = None
    host: str = ""
    """The host that answered after redirects, if it is another one than was asked."""
    first_byte: float | None = None
    speed: float | None = None
    received: int = 0
    newest: float | None = None
    """Seconds since 1970 of the newest package, if the whole index was received."""
    modified: float | None = None
    """Seconds since 1970 of the index, by Last-Modified."""
    synced: float | None = None
    """Seconds since 1970 of the last synchronisation, as the mirror states it."""
    behind: float | None = None
    """Seconds by which the index is older than the origin's own."""
    behind_by: str = ""
    """What ``behind`` was computed from: ``timestamps`` or ``last-modified``."""

    @property
    def ok(self) -> bool:
        """Whether the file came."""
        return not self.failure and self.status is not None

    @property
    def is_host_failure(self) -> bool:
        """Whether the failure concerns the host, not only this file."""
        return bool(self.failure) and self.failure not in {FailureKind.LACKS.value, FailureKind.UNASKED.value}

    def as_json(self, now: float) -> dict[str, Any]:
        """The row of ``--json``; ``now`` in seconds since 1970."""
        place = self.place
        return {
            "mirror": place.mirror,
            "origin": place.origin,
            "platform": place.platform or None,
            "url": str(place.source.url),
            "ok": self.ok,
            "status": self.status,
            "failure": self.failure or None,
            "text": self.text or None,
            "ranges": self.ranges,
            "redirect_host": self.host or None,
            "first_byte": _rounded(self.first_byte),
            "speed": None if self.speed is None else round(self.speed),
            "bytes": self.received,
            "behind_seconds": None if self.behind is None else round(self.behind),
            "behind_by": self.behind_by or None,
            "synced_seconds_ago": None if self.synced is None else max(0, round(now - self.synced)),
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def places_of(
    table: MirrorTable,
    origins: Sequence[str],
    platforms: Sequence[str],
    *,
    only: frozenset[str] = frozenset(),
    upstream: bool = True,
) -> list[Place]:
    """Every place of these origins in the table's order, the origin's own last; ``only``: these mirrors' names."""
    found: list[Place] = []
    for origin in origins:
        path = _path(origin)
        if path is None:
            continue
        for platform in platforms if origin.startswith(CONDA) else ("",):
            rest = f"{platform}/repodata.json" if platform else path
            for mirror in table.mirrors:
                if mirror.active and origin in mirror.carries and (not only or mirror.name in only):
                    source = Source(mirror.name, RedactedUrl(join_url(mirror.carries[origin], rest)))
                    found.append(Place(origin, platform, source, mirror.sync_status))
            base = table.base_of(origin)
            if base is not None and upstream and (not only or UPSTREAM in only):
                found.append(Place(origin, platform, Source(UPSTREAM, RedactedUrl(join_url(base, rest)))))
    return found


def _path(origin: str) -> str | None:
    """The page of an origin that is not a channel, "" for a channel, None if no file of it is known."""
    if origin.startswith(CONDA):
        return ""
    return next((path for start, path in _PATHS.items() if origin.startswith(start)), None)


def compared(rows: Iterable[MirrorRow]) -> list[MirrorRow]:
    """The rows with ``behind``, by the origin's own row: packages' timestamps if both are known, else Last-Modified."""
    rows = list(rows)
    own = {_group(row): row for row in rows if row.ok and row.place.mirror == UPSTREAM}
    return [_behind(row, own.get(_group(row))) for row in rows]


def _behind(row: MirrorRow, upstream: MirrorRow | None) -> MirrorRow:
    if upstream is None or upstream is row or not row.ok:
        return row
    for theirs, ours, by in (
        (upstream.newest, row.newest, "timestamps"),
        (upstream.modified, row.modified, "last-modified"),
    ):
        if theirs is not None and ours is not None:
            return replace(row, behind=max(0.0, theirs - ours), behind_by=by)
    return row


def ranked(rows: Iterable[MirrorRow]) -> list[MirrorRow]:
    """The rows of each origin and platform together, the fastest first, those that failed last."""
    rows = list(rows)
    groups = {group: number for number, group in enumerate(dict.fromkeys(_group(row) for row in rows))}

    def worth(row: MirrorRow) -> tuple[int, bool, float, float]:
        wait = math.inf if row.first_byte is None else row.first_byte
        return (groups[_group(row)], not row.ok, -(row.speed or 0.0), wait)

    return sorted(rows, key=worth)


def _group(row: MirrorRow) -> tuple[str, str]:
    return (row.place.origin, row.place.platform)


def newest_timestamp(repodata: Mapping[str, Any]) -> float | None:
    """Seconds since 1970 of the newest package; conda takes larger numbers for milliseconds, and so do we."""
    newest = 0.0
    for part in ("packages", "packages.conda"):
        records = repodata.get(part)
        for record in records.values() if isinstance(records, dict) else ():
            stamp = record.get("timestamp") if isinstance(record, dict) else None
            if isinstance(stamp, (int, float)) and not isinstance(stamp, bool) and 0 < stamp < _MOST_MILLISECONDS:
                newest = max(newest, stamp / 1000 if stamp > _MOST_SECONDS else float(stamp))
    return newest or None


_MOST_SECONDS = 253402300799  # 9999-12-31, conda's own limit
_MOST_MILLISECONDS = _MOST_SECONDS * 1000


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """All rows, ranked; ``when`` in seconds since 1970, ``elapsed`` in seconds."""

    rows: tuple[MirrorRow, ...]
    when: float
    elapsed: float = 0.0
    notes: tuple[str, ...] = field(default=())

    def groups(self) -> list[tuple[str, str, list[MirrorRow]]]:
        """Origin, platform and rows, in order."""
        found: dict[tuple[str, str], list[MirrorRow]] = {}
        for row in self.rows:
            found.setdefault(_group(row), []).append(row)
        return [(origin, platform, rows) for (origin, platform), rows in found.items()]

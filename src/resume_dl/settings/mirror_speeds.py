"""What ``mirrors test`` has measured, kept in one small file of the user's state folder: the order of sources.

An unreadable file counts as empty, which leaves the order of the table. The conda plugin imports this module on its
fast path: nothing heavy may be imported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.model.artifact import Source

SCHEMA = 1
_FILE = "mirror-speeds.json"
_MOST_BYTES = 4 << 20
_DAY = 86400.0
KEPT = 7 * _DAY
"""Seconds for which a speed counts; machines move to other networks."""
FAILURE_KEPT = _DAY
"""Seconds for which a failure counts, as long as a block."""


@dataclass(frozen=True, slots=True)
class Measured:
    """``speed`` of a mirror for one origin in bytes a second, None after a failure; ``when`` since 1970.

    ``host`` (``host[:port]``) is where it was measured: another address of the same name is another place.
    """

    mirror: str
    origin: str
    host: str
    speed: float | None
    when: float

    def is_kept(self, now: float) -> bool:
        """Whether it still counts; one dated that far in the future does not."""
        return abs(now - self.when) < (FAILURE_KEPT if self.speed is None else KEPT)


class MirrorSpeeds:
    """Measurements, and the order of sources that follows from them. Immutable."""

    def __init__(self, measured: Iterable[Measured] = ()) -> None:
        self.measured = tuple(measured)
        self._by_place = {(one.mirror, one.origin): one for one in self.measured}
        self._by_mirror: dict[str, Measured] = {}
        for one in sorted(self.measured, key=lambda one: one.speed or 0.0):
            self._by_mirror[one.mirror] = one

    def ordered(self, origin: str, sources: Sequence[Source]) -> tuple[Source, ...]:
        """The measured sources of a file of ``origin``, the fastest first; then the others; at last those that failed.

        A mirror that was measured for another origin only counts with that, if it has the same host. Sources that
        compare equal keep their order.
        """
        return tuple(sorted(sources, key=lambda source: self._worth(origin, source)))

    def _worth(self, origin: str, source: Source) -> tuple[int, float]:
        known = self._by_place.get((source.mirror, origin)) or self._by_mirror.get(source.mirror)
        if known is None or known.host != source.url.host:
            return (1, 0.0)
        return (2, 0.0) if known.speed is None else (0, -known.speed)

    def updated(self, new: Iterable[Measured]) -> MirrorSpeeds:
        """These with ``new`` in place of what they replace."""
        places = {(one.mirror, one.origin): one for one in (*self.measured, *new)}
        return MirrorSpeeds(places.values())

    def document(self) -> bytes:
        """The file's content."""
        entries = [
            {"mirror": one.mirror, "origin": one.origin, "host": one.host, "speed": one.speed, "when": one.when}
            for one in self.measured
        ]
        return json.dumps({"schema": SCHEMA, "measured": entries}, indent=1).encode()


def speeds_file(state: Path) -> Path:
    """The file in the state folder."""
    return state / _FILE


def read_speeds(path: Path, *, now: float) -> MirrorSpeeds:
    """The measurements that still count; none if the file is missing, unreadable or of another schema."""
    try:
        document = json.loads(fs.read_regular(path, _MOST_BYTES))
        entries = list(document["measured"]) if document["schema"] == SCHEMA else []
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return MirrorSpeeds()
    found = []
    for entry in entries:
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            one = _measured(entry)
            if one.is_kept(now):
                found.append(one)
    return MirrorSpeeds(found)


def _measured(entry: Mapping[str, object]) -> Measured:
    mirror, origin, host, speed, when = (entry[key] for key in ("mirror", "origin", "host", "speed", "when"))
    known = None if speed is None else float(str(speed))
    if known is not None and not (math.isfinite(known) and known > 0):
        raise ValueError(speed)
    return Measured(str(mirror), str(origin), str(host), known, float(str(when)))

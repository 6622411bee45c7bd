"""What happened in a run, from its trace: files, connections, failures. Times in seconds, counts in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from typing import Any

from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.leases import NO_END

LONGEST_REPORT = 1.0
"""Seconds that the bytes of one report are spread over at most: after a silence they came at its end."""

Line = Mapping[str, Any]


@dataclass(slots=True)
class Connection:
    """One request. ``points``: (time, offset its stream had come to), from the start on."""

    source: int
    mode: str
    start: int
    end: int | None
    gaps: list[tuple[int, int | None]]
    opened: float
    points: list[tuple[float, int]]
    asked_end: int | None = None
    """``end`` before it was shortened."""
    closed: float | None = None
    answered: float | None = None
    received: int = 0
    seen: list[tuple[float, int]] = field(default_factory=list)
    """(time, bytes received by then)."""
    shortened: list[tuple[float, int]] = field(default_factory=list)
    held: float | None = None
    won: float | None = None
    dropped: float | None = None
    """When the core closed it."""
    failure: str = ""

    @property
    def position(self) -> int:
        """How far its stream has come."""
        return self.points[-1][1]

    def quiet(self, until: float, least: float) -> list[tuple[float, float]]:
        """When it was open and no byte came for ``least`` seconds or more, the core's own waits left out."""
        moments = [self.opened, *(t for t, _ in self.seen), self.closed if self.closed is not None else until]
        found = [(a, b) for a, b in pairwise(moments) if b - a >= least]
        return [(a, b) for a, b in found if self.held is None or a < self.held]


@dataclass(slots=True)
class Mark:
    """A failure of a source, and the connection it came with where there is one."""

    t: float
    source: int
    kind: str
    message: str
    connection: int | None = None


@dataclass(slots=True)
class File:
    """One file of a run. ``gained``: (from, to, source, bytes) of each report that brought something new."""

    key: str
    name: str
    size: int | None
    sources: list[str]
    began: float
    ended: float | None = None
    outcome: str = ""
    hosts: dict[int, set[str]] = field(default_factory=dict)
    connections: dict[int, Connection] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    gained: list[tuple[float, float, int, int]] = field(default_factory=list)
    resumed: list[tuple[int, int]] = field(default_factory=list)
    frontier: list[tuple[float, int]] = field(default_factory=list)
    digest: list[tuple[float, int]] = field(default_factory=list)
    durable: list[float] = field(default_factory=list)
    phases: list[tuple[float, str]] = field(default_factory=list)
    forgotten: list[tuple[float, list[tuple[int, int]]]] = field(default_factory=list)
    holdings: ByteCoverage = field(default_factory=ByteCoverage)

    @property
    def kept(self) -> dict[int, int]:
        """Bytes of this run that are still believed, by source."""
        return {index: self.holdings.kept_of(index) for index in range(len(self.sources))}

    @property
    def received(self) -> dict[int, int]:
        """Body bytes that came, kept or not, by source."""
        found = dict.fromkeys(range(len(self.sources)), 0)
        for one in self.connections.values():
            found[one.source] = found.get(one.source, 0) + one.received
        return found


@dataclass(slots=True)
class Timeline:
    """A whole run. ``whole``: the trace has its end; ``unread``: lines that could not be understood."""

    version: str = ""
    started: str = ""
    files: list[File] = field(default_factory=list)
    end: float = 0.0
    whole: bool = False
    unread: int = 0

    def take(self, line: Line) -> None:
        """One line of the trace, in order. Raises KeyError, TypeError or ValueError for one that makes no sense."""
        t, kind = float(line["t"]), str(line["kind"])
        if not isfinite(t):
            raise ValueError(t)
        self.end = max(self.end, t)
        if kind == "begin":
            self.files.append(_begin(t, line))
            return
        if kind == "end":
            self.whole = True
            return
        for file in reversed(self.files):
            if file.key == line["file"]:
                _TAKE.get(kind, _ignore)(file, t, line)
                break


def _begin(t: float, line: Line) -> File:
    size = line["size"]
    names = [str(name) for name in line["sources"]]
    return File(str(line["file"]), str(line["filename"]), None if size is None else int(size), names, t)


def _ignore(file: File, t: float, line: Line) -> None:
    """A kind that changes nothing in the picture, or is newer than this reader."""


def _ranges(value: Any) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in value]


def _phase(name: str) -> Any:
    def take(file: File, t: float, _: Line) -> None:
        file.phases.append((t, name))

    return take


def _prepared(file: File, t: float, line: Line) -> None:
    file.phases.append((t, ""))
    if file.size is None and line["size"] is not None:
        file.size = int(line["size"])
    ranges = _ranges(line["ranges"])
    file.holdings.resume(ranges, (), ())
    file.resumed = ranges
    _moved(file, t)


def _moved(file: File, t: float) -> None:
    """The lowest unfinished byte, where it is another one now."""
    lowest = file.holdings.done.first_gap()
    if not file.frontier or file.frontier[-1][1] != lowest:
        file.frontier.append((t, lowest))


def _fix_size(file: File, _: float, line: Line) -> None:
    file.size = int(line["size"])
    file.holdings.forget([(file.size, NO_END)])


def _open_range(file: File, t: float, line: Line) -> None:
    start, end = int(line["start"]), line["end"]
    gaps = [(int(a), None if b is None else int(b)) for a, b in line["gaps"]]
    file.connections[int(line["connection"])] = Connection(
        source=int(line["source"]),
        mode=str(line["mode"]),
        start=start,
        end=None if end is None else int(end),
        gaps=gaps,
        opened=t,
        points=[(t, start)],
        asked_end=None if end is None else int(end),
    )


def _response_started(file: File, t: float, line: Line) -> None:
    one = file.connections[int(line["connection"])]
    one.answered = t
    one.seen.append((t, 0))
    if line["final_host"]:
        file.hosts.setdefault(one.source, set()).add(str(line["final_host"]))


def _count(one: Connection, t: float, received: int) -> None:
    if received > one.received:
        one.received = received
        one.seen.append((t, received))


def _written(file: File, t: float, line: Line) -> None:
    one = file.connections[int(line["connection"])]
    if one.dropped is None or line["kind"] == "connection_closed":
        _advance(file, one, t, int(line["position"]), int(line["received"]))


def _advance(file: File, one: Connection, t: float, position: int, received: int) -> None:
    """As the core counts: what a connection wrote of what it was asked for, less what others wrote before."""
    since = max(one.seen[-1][0] if one.seen else one.opened, t - LONGEST_REPORT)
    _count(one, t, received)
    whole = one.won is not None and one.end is not None and position >= one.end
    gained = 0
    if one.mode == "write" or whole:
        begun = one.start if whole else one.position
        for start, end in one.gaps:
            stop = position if end is None else min(position, end)
            stop = stop if file.size is None else min(stop, file.size)
            gained += file.holdings.add(max(start, begun), stop, one.source)
    if position > one.position and one.mode != "hold":
        one.points.append((t, position))
    if gained:
        file.gained.append((since, t, one.source, gained))
        _moved(file, t)


def _bytes_received(file: File, t: float, line: Line) -> None:
    one = file.connections[int(line["connection"])]
    _count(one, t, int(line["received"]))
    one.points.append((t, one.start + one.received))


def _range_held(file: File, t: float, line: Line) -> None:
    _bytes_received(file, t, line)
    file.connections[int(line["connection"])].held = t


def _range_compared(file: File, t: float, line: Line) -> None:
    one = file.connections[int(line["connection"])]
    _count(one, t, int(line["received"]))
    one.points.append((t, int(line["position"])))


def _lease_shortened(file: File, t: float, line: Line) -> None:
    one, at = file.connections[int(line["connection"])], int(line["end"])
    one.shortened.append((t, at))
    one.end = at
    one.gaps = [(start, at if end is None else min(end, at)) for start, end in one.gaps if start < at]


def _write_held(file: File, t: float, line: Line) -> None:
    file.connections[int(line["connection"])].won = t


def _close_connection(file: File, t: float, line: Line) -> None:
    file.connections[int(line["connection"])].dropped = t


def _connection_closed(file: File, t: float, line: Line) -> None:
    if line["size"] is not None and file.size is None:
        file.size = int(line["size"])
    one = file.connections[int(line["connection"])]
    if one.mode == "compare":
        _count(one, t, int(line["received"]))
    else:
        _written(file, t, line)
    one.closed = t
    if line["failure"] is not None:
        one.failure = str(line["failure"]["kind"])


def _note_failure(file: File, t: float, line: Line) -> None:
    source, failure = int(line["source"]), line["failure"]
    mark = Mark(t, source, str(failure["kind"]), str(failure["message"]))
    taken = {each.connection for each in file.marks}
    for number, one in file.connections.items():
        # the core names it in its answer to the connection's end
        if one.source == source and one.closed is not None and t - one.closed < 0.05 and number not in taken:
            mark.connection = number
            one.failure = one.failure or mark.kind
    file.marks.append(mark)


def _digest_advanced(file: File, t: float, line: Line) -> None:
    file.digest.append((t, int(line["position"])))


def _digest_checked(file: File, t: float, line: Line) -> None:
    file.phases.append((t, ""))
    if line["matches"] and file.size is not None:
        file.digest.append((t, file.size))


def _forget(file: File, t: float, line: Line) -> None:
    ranges = _ranges(line["ranges"])
    file.holdings.forget(ranges)
    file.forgotten.append((t, ranges))
    lowest = min((start for start, _ in ranges), default=0)
    if file.digest and file.digest[-1][1] > lowest:
        file.digest.append((t, lowest))
    _moved(file, t)


def _discard(file: File, t: float, _: Line) -> None:
    file.forgotten.append((t, list(RangeSet(file.holdings.done))))
    file.holdings.clear()
    file.digest.append((t, 0))
    _moved(file, t)


def _record_progress(file: File, t: float, _: Line) -> None:
    file.durable.append(t)


def _finish(file: File, t: float, line: Line) -> None:
    file.ended = t
    file.phases.append((t, ""))
    file.outcome = "finished by another process" if line["another"] else "verified and in place"


def _fail(file: File, t: float, line: Line) -> None:
    file.ended = t
    file.phases.append((t, ""))
    file.outcome = f"failed: {line['reason']}"


_TAKE = {
    "prepare": _phase("reading what is on disk"),
    "prepared": _prepared,
    "lock_busy": _phase("waiting for another process"),
    "fix_size": _fix_size,
    "open_range": _open_range,
    "response_started": _response_started,
    "bytes_written": _written,
    "bytes_received": _bytes_received,
    "range_held": _range_held,
    "range_compared": _range_compared,
    "lease_shortened": _lease_shortened,
    "write_held": _write_held,
    "close_connection": _close_connection,
    "connection_closed": _connection_closed,
    "note_failure": _note_failure,
    "digest_advanced": _digest_advanced,
    "check_digest": _phase("verifying"),
    "digest_checked": _digest_checked,
    "locate_damage": _phase("looking for the damage"),
    "damage_located": _phase(""),
    "forget_ranges": _forget,
    "discard_pieces": _discard,
    "record_progress": _record_progress,
    "publish": _phase("putting in place"),
    "finish": _finish,
    "fail": _fail,
}

"""Replays the lines of a trace into a timeline; the core's own coverage and leases count the bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from resume_dl.core.actions import Mode
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.leases import NO_END, Lease
from resume_dl.trace.timeline import Connection, File, Mark, Timeline

LONGEST_REPORT = 1.0
"""Seconds that the bytes of one report are spread over at most: after a silence they came at its end."""

Line = Mapping[str, Any]


def apply(timeline: Timeline, line: Line) -> None:
    """Apply one line of the trace, in order. Raises KeyError, TypeError or ValueError if it is malformed."""
    t, kind = float(line["t"]), str(line["kind"])
    if not isfinite(t):
        raise ValueError(t)
    timeline.end = max(timeline.end, t)
    if kind == "begin":
        timeline.files.append(_begin(t, line))
        return
    if kind == "end":
        timeline.whole = True
        return
    for file in reversed(timeline.files):
        if file.key == line["file"]:
            _APPLY.get(kind, _ignore)(file, t, line)
            break


def _begin(t: float, line: Line) -> File:
    size = line["size"]
    names = [str(name) for name in line["sources"]]
    return File(str(line["file"]), str(line["filename"]), None if size is None else int(size), names, t)


def _ignore(file: File, t: float, line: Line) -> None:
    """A kind that changes nothing in the picture, or is newer than this reader."""


def _ranges(value: Any) -> list[tuple[int, int]]:
    return [(int(start), int(end)) for start, end in value]


def _phase(name: str) -> Callable[[File, float, Line], None]:
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
    gaps = tuple((int(a), None if b is None else int(b)) for a, b in line["gaps"])
    file.connections[int(line["connection"])] = Connection(
        source=int(line["source"]),
        mode=str(line["mode"]),
        lease=Lease(start, None if end is None else int(end), gaps),
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
    """Credit what a connection wrote, by the core's own rule."""
    since = max(one.seen[-1][0] if one.seen else one.opened, t - LONGEST_REPORT)
    _count(one, t, received)
    whole = one.won is not None and one.lease.end is not None and position >= one.lease.end
    gained = 0
    if one.mode == Mode.WRITE.value or whole:
        begun = one.lease.start if whole else one.position
        gained = file.holdings.credit(one.lease.ranges(file.size), begun, position, one.source)
    if position > one.position and one.mode != Mode.HOLD.value:
        one.points.append((t, position))
    if gained:
        file.gained.append((since, t, one.source, gained))
        _moved(file, t)


def _bytes_received(file: File, t: float, line: Line) -> None:
    one = file.connections[int(line["connection"])]
    _count(one, t, int(line["received"]))
    one.points.append((t, one.lease.start + one.received))


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
    one.lease = one.lease.until(at)


def _write_held(file: File, t: float, line: Line) -> None:
    file.connections[int(line["connection"])].won = t


def _close_connection(file: File, t: float, line: Line) -> None:
    file.connections[int(line["connection"])].dropped = t


def _connection_closed(file: File, t: float, line: Line) -> None:
    if line["size"] is not None and file.size is None:
        file.size = int(line["size"])
    one = file.connections[int(line["connection"])]
    if one.mode == Mode.COMPARE.value:
        _count(one, t, int(line["received"]))
    else:
        _written(file, t, line)
    one.closed = t
    if line["failure"] is not None:
        one.failure = str(line["failure"]["kind"])


def _note_failure(file: File, t: float, line: Line) -> None:
    source, failure = int(line["source"]), line["failure"]
    mark = Mark(t, source, str(failure["kind"]), str(failure["message"]), line.get("connection"))
    one = file.connections.get(mark.connection) if mark.connection is not None else None
    if one is not None:
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


_APPLY: dict[str, Callable[[File, float, Line], None]] = {
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

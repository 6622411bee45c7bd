"""Which connection gives up work when no range is free: stealing, the end game, slow connections. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from resume_dl.core.actions import Mode
from resume_dl.core.policy import Policy
from resume_dl.core.scheduling.connection import Connection

Live = Mapping[int, Connection]


def _middle(values: list[float]) -> float:
    """The upper median; the library's is not worth the time that loading it takes."""
    return sorted(values)[len(values) // 2]


@dataclass(frozen=True, slots=True)
class Helper:
    """An idle connection that could be opened: bytes a second, and seconds from request to first byte."""

    speed: float
    latency: float

    def seconds(self, count: int) -> float:
        """How long it needs for so many bytes."""
        return self.latency + count / self.speed


def is_doubled(one: Connection, live: Live, size: int | None) -> bool:
    """Whether a duplicate of its rest is being fetched."""
    return any(
        other.mode is Mode.HOLD and other.lease.start < one.end(size) and one.position < other.end(size)
        for other in live.values()
    )


def to_steal(live: Live, size: int, helper: Helper, now: float, policy: Policy) -> tuple[int, int] | None:
    """The connection that loses the tail of its lease, and from which offset; None if no tail is worth it.

    It is the connection that gains the most time; both then end together.
    """
    best: tuple[float, int, int] | None = None
    for number, one in live.items():
        own = one.speed(now, policy.silent_seconds)
        rest = one.end(size) - one.position
        able = one.mode is Mode.WRITE and not one.closing and one.shorten_to is None and not one.spent
        if not able or own is None or rest < policy.steal_least or is_doubled(one, live, size):
            continue
        keeps = int(rest * own / (own + helper.speed))
        at = -(-(one.position + keeps) // policy.steal_grain) * policy.steal_grain if keeps else one.position
        taken = one.end(size) - at
        if taken < policy.steal_least:
            continue
        gain = (rest / own if own > 0 else float("inf")) - max(helper.seconds(taken), keeps / own if own > 0 else 0.0)
        if gain >= policy.steal_gain and (best is None or gain > best[0]):
            best = (gain, number, at)
    return None if best is None else best[1:]


def to_duplicate(
    live: Live, size: int, helper: Helper, now: float, policy: Policy, *, left: int, spent: int
) -> tuple[int, int] | None:
    """In the end game, the range to fetch a second time; None outside of it.

    ``left``: bytes of the file that are missing; ``spent``: bytes of earlier duplicates of this file.
    """
    if left > policy.endgame_bytes:
        return None
    worst: tuple[float, int, int] | None = None
    for one in live.values():
        own = one.speed(now, policy.silent_seconds)
        start, end = one.position, one.end(size)
        if one.mode is not Mode.WRITE or one.closing or own is None or end <= start:
            continue
        alone = (end - start) / own if own > 0 else float("inf")
        fits = spent + end - start <= policy.endgame_share * size and not is_doubled(one, live, size)
        slow = alone > policy.endgame_ratio * helper.seconds(end - start)
        if fits and slow and (worst is None or alone > worst[0]):
            worst = (alone, start, end)
    return None if worst is None else worst[1:]


def to_abandon(live: Live, helper: Helper, now: float, policy: Policy) -> int | None:
    """Whether a duplicate has become slow itself: the helper would fetch its range much sooner."""
    for number, one in live.items():
        if one.mode is not Mode.HOLD or one.held or one.closing:
            continue
        own = one.speed(now, policy.silent_seconds)
        rest = one.end(None) - one.lease.start - one.received
        alone = None if own is None else rest / own if own > 0 else float("inf")
        if alone is not None and alone > policy.endgame_ratio * helper.seconds(one.end(None) - one.lease.start):
            return number
    return None


def falls_behind(one: Connection, live: Live, now: float, policy: Policy) -> bool:
    """Whether a connection is far below its host's earlier speed, or that of the host's other connections.

    Not if all connections have slowed as much: then the network is slow.
    """
    own = one.speed(now, policy.stall_seconds)
    if own is None or one.mode is not Mode.WRITE:
        return False
    peers = [other for other in live.values() if other is not one and other.mode is Mode.WRITE and not other.closing]
    speeds = {id(other): other.speed(now, policy.stall_seconds) for other in peers}
    same = [speed for other in peers if other.host == one.host and (speed := speeds[id(other)]) is not None]
    wanted = max(one.norm or 0.0, one.peak, _middle(same) if same else 0.0)
    if own >= policy.slow_share * wanted:
        return False
    shares = [speed / other.peak for other in peers if other.peak and (speed := speeds[id(other)]) is not None]
    return not shares or _middle(shares) > policy.line_share


def to_give_up(live: Live, better: float, now: float, policy: Policy) -> int | None:
    """The slowest measured connection, if a host of ``better`` bytes a second should replace it."""
    slowest: tuple[float, int] | None = None
    for number, one in live.items():
        own = one.speed(now, policy.stall_seconds)
        if one.mode is not Mode.WRITE or one.closing or own is None or now < one.opened_at + policy.slow_seconds:
            continue
        if own * policy.better_host < better and (slowest is None or own < slowest[0]):
            slowest = (own, number)
    return None if slowest is None else slowest[1]

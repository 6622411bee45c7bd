"""The connections of one download: measured, watched and closed."""

from __future__ import annotations

import math
from collections.abc import Sequence

from resume_dl.core.actions import Action, CloseConnection, Mode, WriteHeld
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.leases import Lease
from resume_dl.core.scheduling.rebalance import falls_behind
from resume_dl.core.sources import SourceState

_INSTANT = 0.001
"""Seconds; the shortest interval that clocks measure."""


class Connections:
    """``live``: the requests in flight by number; ``Connection.closing`` for those that the core has closed."""

    def __init__(self, sources: Sequence[SourceState], budget: Budget, policy: Policy) -> None:
        self.live: dict[int, Connection] = {}
        self.has_idle_source = False
        """Whether a source found no work the last time: only then silent connections matter."""
        self.may_hedge = False
        """Whether another source could have the turn of one that does not answer."""
        self._sources = sources
        self._budget = budget
        self._policy = policy

    # ------------------------------------------------------------------ closing

    def close(self, *numbers: int) -> list[Action]:
        """Fence these connections, but for those that are closing; each ends with ConnectionClosed."""
        closed: list[Action] = []
        for number in numbers:
            if not self.live[number].closing:
                self.live[number].closing = True
                closed.append(CloseConnection(number))
        return closed

    def close_all(self) -> list[Action]:
        """Fence every connection."""
        return self.close(*self.live)

    def close_finished(self, size: int | None, now: float) -> list[Action]:
        """Close all but those that may yet end their answer properly, to be used again."""
        farewell = self._policy.farewell_seconds
        over = [n for n, one in self.live.items() if not one.finished(size) or now >= one.last_byte_at + farewell]
        return self.close(*over)

    def close_silent(self, now: float) -> list[Action]:
        """Close connections that are silent or have been slow for long."""
        chosen = []
        for number, one in self.live.items():
            if now >= self._silence_ends(one):
                chosen.append(number)
                if one.doubted_at is not None:
                    continue  # its source is asked again at once, without blame
                one.stalled = True
                if not one.answered:
                    self._sources[one.source].waited = one.patience
                    self._budget.host(one.host).silent = True
            elif one.slow_since is not None and now >= one.slow_since + self._policy.slow_seconds:
                one.slow = not one.closing
                chosen.append(number)
        return self.close(*chosen)

    def close_surplus_of_fast_hosts(self) -> list[Action]:
        """Keep one connection, the furthest behind, to each host that is as fast as this process can be."""
        seen, chosen = set(), []
        for number, one in sorted(self.live.items(), key=lambda each: each[1].position):
            if one.mode is Mode.WRITE and not one.closing and self._budget.is_fast(self._budget.host(one.host)):
                if one.host in seen:
                    chosen.append(number)
                seen.add(one.host)
        return self.close(*chosen)

    def remove(self, number: int, received: int, now: float) -> None:
        """It has ended, after ``received`` body bytes."""
        one = self.live.pop(number)
        self._budget.release(one.host)
        if received >= self._policy.piece_size and one.meter.speed is None:  # so short that it tells only as a whole
            self._budget.note_speed(one.host, received / max(now - one.opened_at, _INSTANT))

    def doubt(self, now: float) -> None:
        """Handle a sleep: each connection has to prove that it is alive, and its time-outs restart."""
        for one in self.live.values():
            one.doubted_at = one.last_byte_at = now
            one.slow_since = None

    def settle_duplicates(self, done: RangeSet) -> list[Action]:
        """A complete duplicate wins: its rivals are closed, then it writes the missing bytes."""
        out: list[Action] = []
        for number, one in self.live.items():
            if not one.held or one.writing or one.closing:
                continue
            start, end = one.lease.start, one.end(None)
            rivals = [
                other_number
                for other_number, other in self.live.items()
                if other.mode is Mode.WRITE and any(s < end and start < e for s, e in other.lease.ranges(None))
            ]
            out += self.close(*rivals)
            if rivals:
                continue
            gaps = tuple(done.gaps(start, end))
            if gaps:
                one.writing = True
                one.lease = Lease(start, end, gaps)
                out.append(WriteHeld(number, gaps))
            else:
                out += self.close(number)
        return out

    # ------------------------------------------------------------------ what is measured

    def writers(self) -> list[Connection]:
        """Connections whose bytes go, or may go, into the file."""
        return [one for one in self.live.values() if one.mode is not Mode.COMPARE]

    def speeds(self, now: float) -> list[float]:
        """Bytes a second of the writers that are old enough to measure."""
        speeds = [one.speed(now, self._policy.silent_seconds) for one in self.writers()]
        return [speed for speed in speeds if speed is not None]

    def is_shortening(self) -> bool:
        """Whether a shortened connection has not reported its end yet."""
        return any(one.shorten_to is not None for one in self.live.values())

    def count(self, one: Connection, count: int, now: float) -> None:
        """Take ``count`` body bytes of a connection."""
        one.last_byte_at = now
        one.doubted_at = None
        one.meter.add(count, now)
        speed = one.meter.speed
        if speed is None:
            return
        steady = now - one.opened_at >= self._policy.speed_half_life
        self._budget.note_speed(one.host, speed, steady=steady)
        if steady:  # what comes first may be a server's opening burst
            one.peak = max(one.peak, speed)
        if not falls_behind(one, self.live, now, self._policy):
            one.slow_since = None
        elif one.slow_since is None:
            one.slow_since = now

    def deadlines(self, now: float) -> list[float]:
        """When the connections have to be checked again."""
        times = []
        for one in self.live.values():
            if not one.closing:
                times.append(self._silence_ends(one))
                silent = one.last_byte_at + self._policy.silent_seconds
                if self.has_idle_source and one.answered and silent > now:
                    times.append(silent)
                hedged = one.opened_at + self._policy.first_answer_seconds
                if self.may_hedge and not one.answered and hedged > now:
                    times.append(hedged)
                if one.slow_since is not None:
                    times.append(one.slow_since + self._policy.slow_seconds)
        return times

    def farewells(self) -> list[float]:
        """When those that may end their answer properly have had their time."""
        return [one.last_byte_at + self._policy.farewell_seconds for one in self.live.values() if not one.closing]

    def _silence_ends(self, one: Connection) -> float:
        if one.closing or one.held:
            return math.inf
        if one.doubted_at is not None:
            return one.doubted_at + self._policy.awake_seconds
        if one.answered:
            return one.last_byte_at + self._policy.stall_seconds
        return one.opened_at + one.patience

"""The connections of one download: whom to ask next, for what, and whom to replace."""

from __future__ import annotations

import math
from collections.abc import Sequence

from resume_dl.core import actions as act
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.rate import SpeedMeter
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.leases import Lease, lone_lease, next_segment
from resume_dl.core.scheduling.rebalance import Helper, falls_behind, to_abandon, to_duplicate, to_give_up, to_steal
from resume_dl.core.sources import SourceState

_INSTANT = 0.001
"""Seconds; nothing is faster than what clocks can tell."""


class ConnectionScheduler:
    """Opens and closes connections within the run's budget; what they bring is the download's business."""

    def __init__(
        self,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        holdings: ByteCoverage,
        out: list[act.Action],
    ) -> None:
        self.live: dict[int, Connection] = {}
        self._sources = sources
        self._budget = budget
        self._policy = policy
        self._coverage = holdings
        self._out = out
        self._next = 0
        self._duplicated = 0
        self._idle = False
        """Whether somebody found no work when last asked: then it matters who stands still."""
        self._hedges = False
        """Whether another source could have the turn of one that does not answer."""

    # ------------------------------------------------------------------ opening

    def fill(
        self,
        allowed: Sequence[SourceState],
        size: int | None,
        now: float,
        *,
        by_digest: bool,
        if_range: str | None,
        help_out: bool,
    ) -> None:
        """Give work to every source that may have one more connection.

        ``by_digest``: any source may go on with another's bytes; else one source has the file alone, under the
        validator ``if_range``. ``help_out``: where nothing is free, connections may take over others' work.
        """
        self._idle = self._hedges = False
        self._let_go_of_fast_hosts()
        while not self._budget.exhausted:
            ready = [s for s in allowed if s.not_before <= now and self._budget.may_take(s.host, now)]
            ready = self._first_try(allowed, ready, now)
            ranged = [source for source in ready if not source.one_stream]
            if by_digest and size is not None and ranged and (self.live or size >= self._policy.small_file):
                source = max(ranged, key=lambda each: self._worth(each, now))
                # A small file is one request, but not where others are idle and something of it is free.
                may_share = help_out or size >= self._policy.small_file
                if (may_share and self._lease_to(source, size, now)) or (help_out and self._help(source, size, now)):
                    continue
                self._idle = help_out
                if help_out:
                    self._hedge(ready, now)
                return
            if not by_digest and if_range is not None and size is not None and self.live:
                if self._split(ranged, size, now, if_range=if_range, help_out=help_out):
                    continue
                return
            if ready and not self.live:
                source = max(ranged or ready, key=lambda each: self._worth(each, now))
                done = self._coverage.done
                lease = lone_lease(done, size, self._policy, one_stream=source.one_stream, by_digest=by_digest)
                self.ask(source, lease, now, size, if_range=if_range if not lease.whole else None)
                continue
            self._hedge(ready, now)
            return
        if by_digest:  # else no other host may go on with what is here
            self._make_place(allowed, now)

    def _first_try(self, allowed: Sequence[SourceState], ready: list[SourceState], now: float) -> list[SourceState]:
        """Those of ``ready`` that may be asked now: a source that may call the file unchanged is waited for.

        Not where it, or its host, rests after a failure: the whole file from another one is better than that.
        """
        for source in allowed:
            rests_until = max(source.not_before, self._budget.host(source.host).not_before)
            if source.knows and not source.asked and rests_until <= now:
                return [source] if source in ready else []
        return ready

    def ask(
        self,
        source: SourceState,
        lease: Lease,
        now: float,
        size: int | None,
        *,
        if_range: str | None = None,
        mode: act.Mode = act.Mode.WRITE,
    ) -> None:
        """Ask ``source`` for a lease."""
        index = self._sources.index(source)
        number = self._next
        self._next += 1
        source.asked += 1
        self._budget.take(source.host)
        meter = SpeedMeter(self._policy.speed_half_life, now)
        host = self._budget.host(source.host)
        longer = min(self._policy.first_byte_most, 2 * max(source.waited, host.latency))
        patience = max(self._policy.first_byte_seconds, longer)
        if mode is act.Mode.COMPARE and not host.reached:
            patience = self._policy.first_answer_seconds  # others can be compared in its place
        self.live[number] = Connection(
            index, source.host, lease, now, now, lease.start, meter, patience, host.steady, mode
        )
        self._out.append(
            act.OpenRange(number, index, lease.start, lease.end, lease.gaps, lease.whole, size, if_range, mode)
        )

    def _writers(self) -> list[Connection]:
        return [one for one in self.live.values() if one.mode is not act.Mode.COMPARE]

    def _speeds(self, now: float) -> list[float]:
        speeds = [one.speed(now, self._policy.silent_seconds) for one in self._writers()]
        return [speed for speed in speeds if speed is not None]

    def _split(self, ranged: Sequence[SourceState], size: int, now: float, *, if_range: str, help_out: bool) -> bool:
        """Give a file without a digest one more connection to its source, where that one is slow; whether one opened.

        Each range is asked for under the validator of the bytes that are here, so that they are of one version.
        """
        if not self._policy.rebalance or any(one.shorten_to is not None for one in self.live.values()):
            return False
        source = next((each for each in ranged if each.gives_ranges and not each.alone), None)
        if source is None or not self._is_long(size, now):
            return False
        if self._lease_to(source, size, now, if_range=if_range):
            return True
        host = self._budget.host(source.host)
        stolen = None
        if help_out and host.speed:
            stolen = to_steal(self.live, size, Helper(host.speed, host.latency), now, self._policy)
        if stolen is not None and not self.live[stolen[0]].silent(now, self._policy.silent_seconds):
            number, at = stolen
            self.live[number].shorten_to = at
            self._out.append(act.ShortenLease(number, at))
        return False

    def _is_long(self, size: int, now: float) -> bool:
        """Whether what the connections still have to bring takes them longer than a further request is worth."""
        speeds = sum(self._speeds(now))
        return speeds > 0 and (size - self._coverage.done.total) / speeds > self._policy.split_seconds

    def _lease_to(self, source: SourceState, size: int, now: float, *, if_range: str | None = None) -> bool:
        """Open a connection for bytes that nobody has; False where there are none within reach."""
        held = [one.lease for one in self._writers()]
        speed, others = self._budget.host(source.host).speed, sum(self._speeds(now))
        lease = next_segment(self._coverage.done, held, size, self._policy, speed=speed, others=others)
        if lease is not None:
            self.ask(source, lease, now, size, if_range=if_range)
        return lease is not None

    def _help(self, source: SourceState, size: int, now: float) -> bool:
        """Open a duplicate, or begin to take work from another connection; False where no more can be opened now."""
        if not self._policy.rebalance or any(one.shorten_to is not None for one in self.live.values()):
            return False  # what is being taken away is for whoever is idle now
        host, speeds = self._budget.host(source.host), self._speeds(now)
        helper = Helper(host.speed or sum(speeds) / max(1, len(speeds)) or MIB, host.latency)
        hopeless = to_abandon(self.live, helper, now, self._policy)
        if hopeless is not None:
            self.close(hopeless)
            return False
        left = size - self._coverage.done.total
        twice = to_duplicate(self.live, size, helper, now, self._policy, left=left, spent=self._duplicated)
        if twice is not None:
            self._duplicated += twice[1] - twice[0]
            self.ask(source, Lease(*twice, (twice,)), now, size, mode=act.Mode.HOLD)
            return True
        stolen = to_steal(self.live, size, helper, now, self._policy)
        if stolen is not None:
            number, at = stolen
            victim = self.live[number]
            if victim.silent(now, self._policy.silent_seconds):
                victim.stalled = True  # all is taken from it, and it must not be the next to be asked for it
                self.close(number)
            else:
                victim.shorten_to = at
                self._out.append(act.ShortenLease(number, at))
        return False

    def _worth(self, source: SourceState, now: float) -> tuple[bool, bool, float, int, int]:
        """The ill last; faster first, an unmeasured host as the fastest, so that each is tried; the idler; in order.

        One that was tried and has never answered comes after those that have. A further connection to a host counts
        for half of the last one: where a server limits all of a client's connections together, it brings nothing, and
        an idle host of the same speed brings as much again.
        """
        host = self._budget.host(source.host)
        speed = math.inf if host.speed is None else host.speed / (1 + host.active)
        speed = 0.0 if host.speed is None and (host.active or host.keeps_silent) else speed
        failing = source.failures_in_a_row >= self._policy.solo_failures
        healthy = not self._budget.is_unhealthy(host, now)
        return (healthy, not failing, speed, -host.active, -self._sources.index(source))

    # ------------------------------------------------------------------ closing

    def close(self, number: int) -> None:
        """Fence a connection; its last word comes as ConnectionClosed."""
        if not self.live[number].closing:
            self.live[number].closing = True
            self._out.append(act.CloseConnection(number))

    def close_all(self) -> None:
        """Fence every connection."""
        for number in self.live:
            self.close(number)

    def forget(self, number: int, received: int, now: float) -> None:
        """It has said its last word, after ``received`` body bytes."""
        one = self.live.pop(number)
        self._budget.release(one.host)
        if received >= self._policy.piece_size and one.meter.speed is None:  # so short that it tells only as a whole
            self._budget.note_speed(one.host, received / max(now - one.opened_at, _INSTANT))

    def dismiss_finished(self, size: int | None, now: float) -> None:
        """Close all but those that may yet end their answer properly, to be used again."""
        for number, one in self.live.items():
            if not one.finished(size) or now >= one.last_byte_at + self._policy.farewell_seconds:
                self.close(number)

    def watch(self, now: float) -> None:
        """Close what is silent or has long been slow."""
        for number, one in self.live.items():
            if now >= self._silence_ends(one) and one.doubted_at is not None:
                self.close(number)  # its source is asked again at once, without blame
            elif now >= self._silence_ends(one):
                one.stalled = True
                self.close(number)
                if not one.answered:
                    self._sources[one.source].waited = one.patience
                    self._budget.host(one.host).silent = True
            elif one.slow_since is not None and now >= one.slow_since + self._policy.slow_seconds:
                one.slow = not one.closing
                self.close(number)

    def doubt(self, now: float) -> None:
        """The process has slept: each connection has to show that it is still alive, and has its time anew."""
        for one in self.live.values():
            one.doubted_at = one.last_byte_at = now
            one.slow_since = None

    def _hedge(self, ready: Sequence[SourceState], now: float) -> None:
        """Where a connection is not answered and another source is idle, let that one have its turn.

        Not where that one has failed more often: two that are slow to answer would take turns for ever.
        """
        for number, one in self.live.items():
            own = self._sources[one.source]
            if one.answered or one.closing or one.mode is not act.Mode.WRITE:
                continue
            if any(s is not own and s.failures_in_a_row <= own.failures_in_a_row for s in ready):
                self._hedges = True
                if now >= one.opened_at + self._policy.first_answer_seconds:
                    one.stalled = True
                    self.close(number)

    def _let_go_of_fast_hosts(self) -> None:
        seen = set()
        for number, one in sorted(self.live.items(), key=lambda each: each[1].position):
            if one.mode is act.Mode.WRITE and not one.closing and self._budget.is_fast(self._budget.host(one.host)):
                if one.host in seen:
                    self.close(number)
                seen.add(one.host)

    def _make_place(self, allowed: Sequence[SourceState], now: float) -> None:
        """With every connection of the run in use, give up a slow one of ours where a much faster host waits."""
        waiting = [s for s in allowed if s.not_before <= now and self._budget.has_room(s.host, now)]
        hosts = [self._budget.host(source.host) for source in waiting]
        better = max((host.steady or host.speed or 0.0 for host in hosts), default=0.0)
        if any(one.closing for one in self.live.values()):
            return  # a place is being made already
        number = to_give_up(self.live, better, now, self._policy)
        if number is not None:
            self.close(number)

    # ------------------------------------------------------------------ what is measured

    def came(self, one: Connection, count: int, now: float) -> None:
        """``count`` body bytes came over a connection."""
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
        """When to look again, as far as the connections tell."""
        times = []
        for one in self.live.values():
            if not one.closing:
                times.append(self._silence_ends(one))
                silent = one.last_byte_at + self._policy.silent_seconds
                if self._idle and one.answered and silent > now:
                    times.append(silent)
                hedged = one.opened_at + self._policy.first_answer_seconds
                if self._hedges and not one.answered and hedged > now:
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

    # ------------------------------------------------------------------ duplicates

    def settle_duplicates(self) -> None:
        """A duplicate that is all here wins: its rivals are closed, then it writes what is still missing."""
        done = self._coverage.done
        for number, one in list(self.live.items()):
            if not one.held or one.writing or one.closing:
                continue
            start, end = one.lease.start, one.end(None)
            rivals = [
                (other_number, other)
                for other_number, other in self.live.items()
                if other.mode is act.Mode.WRITE and any(s < end and start < e for s, e in other.lease.ranges(None))
            ]
            for other_number, _ in rivals:
                self.close(other_number)
            if rivals:
                continue
            gaps = tuple(done.gaps(start, end))
            if gaps:
                one.writing = True
                one.lease = Lease(start, end, gaps)
                self._out.append(act.WriteHeld(number, gaps))
            else:
                self.close(number)

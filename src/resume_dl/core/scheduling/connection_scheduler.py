"""The source and range of a download's next connection, and which connection is closed for it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from resume_dl.core.actions import Action, Mode, OpenRange, ShortenLease
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.rate import SpeedMeter
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.connections import Connections
from resume_dl.core.scheduling.leases import Lease, lone_lease, next_segment
from resume_dl.core.scheduling.rebalance import Helper, to_abandon, to_duplicate, to_give_up, to_steal
from resume_dl.core.sources import SourceState


class ConnectionScheduler:
    """Opens connections within the run's budget, and closes those that a better one should replace.

    Every method returns its actions in order.
    """

    def __init__(
        self,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        coverage: ByteCoverage,
        connections: Connections,
    ) -> None:
        self._sources = sources
        self._budget = budget
        self._policy = policy
        self._coverage = coverage
        self._connections = connections
        self._live = connections.live
        self._next = 0
        self._duplicated = 0

    def fill(
        self,
        allowed: Sequence[SourceState],
        size: int | None,
        now: float,
        *,
        by_digest: bool,
        if_range: str | None,
        help_out: bool,
    ) -> list[Action]:
        """Give work to every source that may have one more connection.

        ``by_digest``: any source may continue another's bytes; else one source serves the whole file, under the
        validator ``if_range``. ``help_out``: if no range is free, connections may take over others' work.
        """
        self._connections.has_idle_source = self._connections.may_hedge = False
        out = self._connections.close_surplus_of_fast_hosts()
        while not self._budget.exhausted:
            ready = [s for s in allowed if s.not_before <= now and self._budget.may_take(s.host, now)]
            ready = self._first_try(allowed, ready, now)
            ranged = [source for source in ready if not source.one_stream]
            if by_digest and size is not None and ranged and (self._live or size >= self._policy.small_file):
                step = self._share(ranged, size, now, help_out=help_out)
                if not isinstance(step, OpenRange) and help_out:
                    self._connections.has_idle_source = True
                    hedged = self._hedge(ready, now)
                    return [*out, *([step] if step else []), *hedged]
            elif not by_digest and if_range is not None and size is not None and self._live:
                step = self._split(ranged, size, now, if_range=if_range, help_out=help_out)
            elif ready and not self._live:
                source = max(ranged or ready, key=lambda each: self._worth(each, now))
                done = self._coverage.done
                lease = lone_lease(done, size, self._policy, one_stream=source.one_stream, by_digest=by_digest)
                step = self.ask(source, lease, now, size, if_range=if_range if not lease.whole else None)
            else:
                return out + self._hedge(ready, now)
            if step is not None:
                out.append(step)
            if not isinstance(step, OpenRange):
                return out
        if by_digest:  # else no other host may go on with what is here
            out += self._make_place(allowed, now)
        return out

    def ask(
        self,
        source: SourceState,
        lease: Lease,
        now: float,
        size: int | None,
        *,
        if_range: str | None = None,
        mode: Mode = Mode.WRITE,
    ) -> OpenRange:
        """Request a lease from ``source``."""
        index = self._sources.index(source)
        number = self._next
        self._next += 1
        source.asked += 1
        self._budget.take(source.host)
        meter = SpeedMeter(self._policy.speed_half_life, now)
        host = self._budget.host(source.host)
        longer = min(self._policy.first_byte_most, 2 * max(source.waited, host.latency))
        patience = max(self._policy.first_byte_seconds, longer)
        if mode is Mode.COMPARE and not host.reached:
            patience = self._policy.first_answer_seconds  # others can be compared in its place
        self._live[number] = Connection(
            index, source.host, lease, now, now, lease.start, meter, patience, host.steady, mode
        )
        return OpenRange(number, index, lease.start, lease.end, lease.gaps, lease.whole, size, if_range, mode)

    # ------------------------------------------------------------------ which source

    def _first_try(self, allowed: Sequence[SourceState], ready: list[SourceState], now: float) -> list[SourceState]:
        """The sources of ``ready`` that may be used now: one that may answer 304 has the first try.

        Unless it, or its host, rests after a failure: then the whole file from another one is better.
        """
        for source in allowed:
            rests_until = max(source.not_before, self._budget.host(source.host).not_before)
            if source.knows and not source.asked and rests_until <= now:
                return [source] if source in ready else []
        return ready

    def _worth(self, source: SourceState, now: float) -> tuple[bool, bool, float, int, int]:
        """Rank sources: healthy first; the fastest, with an unmeasured host first so that each is tried; the idler.

        A source that was tried and has never answered comes after those that have. Each further connection to a host
        counts half of the one before: if a server limits all connections of a client together, it gains nothing, while
        an idle host of the same speed doubles the total.
        """
        host = self._budget.host(source.host)
        speed = math.inf if host.speed is None else host.speed / (1 + host.active)
        speed = 0.0 if host.speed is None and (host.active or host.keeps_silent) else speed
        failing = source.failures_in_a_row >= self._policy.solo_failures
        healthy = not self._budget.is_unhealthy(host, now)
        return (healthy, not failing, speed, -host.active, -self._sources.index(source))

    # ------------------------------------------------------------------ which bytes

    def _share(self, ranged: Sequence[SourceState], size: int, now: float, *, help_out: bool) -> Action | None:
        """Give the best source a free range, or another connection's work; OpenRange if it has some now."""
        source = max(ranged, key=lambda each: self._worth(each, now))
        step: Action | None = None
        # A small file is one request, unless others are idle and part of it is free.
        if help_out or size >= self._policy.small_file:
            step = self._lease_to(source, size, now)
        return self._help(source, size, now) if step is None and help_out else step

    def _lease_to(self, source: SourceState, size: int, now: float, *, if_range: str | None = None) -> OpenRange | None:
        """Open a connection for the next free range; None if no free range is within reach."""
        held = [one.lease for one in self._connections.writers()]
        speed, others = self._budget.host(source.host).speed, sum(self._connections.speeds(now))
        lease = next_segment(self._coverage.done, held, size, self._policy, speed=speed, others=others)
        return None if lease is None else self.ask(source, lease, now, size, if_range=if_range)

    def _split(
        self, ranged: Sequence[SourceState], size: int, now: float, *, if_range: str, help_out: bool
    ) -> Action | None:
        """Open one more connection to the slow source of a file without a digest; OpenRange if so.

        Each range is requested under the validator of the bytes on disk, so that all are of one version.
        """
        if not self._policy.rebalance or self._connections.is_shortening():
            return None
        source = next((each for each in ranged if each.gives_ranges and not each.alone), None)
        if source is None or not self._is_long(size, now):
            return None
        opened = self._lease_to(source, size, now, if_range=if_range)
        host = self._budget.host(source.host)
        if opened is not None or not help_out or not host.speed:
            return opened
        stolen = to_steal(self._live, size, Helper(host.speed, host.latency), now, self._policy)
        if stolen is not None and not self._live[stolen[0]].silent(now, self._policy.silent_seconds):
            return self._shorten(*stolen)
        return None

    def _is_long(self, size: int, now: float) -> bool:
        """Whether the rest will take the connections so long that a further request pays."""
        speeds = sum(self._connections.speeds(now))
        return speeds > 0 and (size - self._coverage.done.total) / speeds > self._policy.split_seconds

    # ------------------------------------------------------------------ others' work and places

    def _help(self, source: SourceState, size: int, now: float) -> Action | None:
        """Open a duplicate, or begin to take work from another connection."""
        if not self._policy.rebalance or self._connections.is_shortening():
            return None  # what is being taken away is for the source that is idle now
        host, speeds = self._budget.host(source.host), self._connections.speeds(now)
        helper = Helper(host.speed or sum(speeds) / max(1, len(speeds)) or MIB, host.latency)
        hopeless = to_abandon(self._live, helper, now, self._policy)
        if hopeless is not None:
            return self._connections.close(hopeless)[0]
        left = size - self._coverage.done.total
        twice = to_duplicate(self._live, size, helper, now, self._policy, left=left, spent=self._duplicated)
        if twice is not None:
            self._duplicated += twice[1] - twice[0]
            return self.ask(source, Lease(*twice, (twice,)), now, size, mode=Mode.HOLD)
        stolen = to_steal(self._live, size, helper, now, self._policy)
        if stolen is None:
            return None
        victim = self._live[stolen[0]]
        if victim.silent(now, self._policy.silent_seconds):
            victim.stalled = True  # all is taken from it, and it must not be the next to be asked for it
            return self._connections.close(stolen[0])[0]
        return self._shorten(*stolen)

    def _shorten(self, number: int, end: int) -> ShortenLease:
        self._live[number].shorten_to = end
        return ShortenLease(number, end)

    def _hedge(self, ready: Sequence[SourceState], now: float) -> list[Action]:
        """Replace a connection without an answer by one to an idle source.

        Unless that source has failed more often: two slow sources would alternate forever.
        """
        late = []
        for number, one in self._live.items():
            own = self._sources[one.source]
            if one.answered or one.closing or one.mode is not Mode.WRITE:
                continue
            if any(s is not own and s.failures_in_a_row <= own.failures_in_a_row for s in ready):
                self._connections.may_hedge = True
                if now >= one.opened_at + self._policy.first_answer_seconds:
                    one.stalled = True
                    late.append(number)
        return self._connections.close(*late)

    def _make_place(self, allowed: Sequence[SourceState], now: float) -> list[Action]:
        """With every connection of the run in use, close a slow one of this file if a much faster host waits."""
        waiting = [s for s in allowed if s.not_before <= now and self._budget.has_room(s.host, now)]
        hosts = [self._budget.host(source.host) for source in waiting]
        better = max((host.steady or host.speed or 0.0 for host in hosts), default=0.0)
        if any(one.closing for one in self._live.values()):
            return []  # a place is being made already
        number = to_give_up(self._live, better, now, self._policy)
        return [] if number is None else self._connections.close(number)

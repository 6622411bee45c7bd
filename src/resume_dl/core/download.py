"""One file's download as a state machine: events in, actions out.

States and what each waits for (invariant 4: never nothing)::

    QUEUED -> PREPARING -> TRANSFERRING -> VERIFYING -> PUBLISHING -> DONE
                 ^  |        ^     ^           |
                 |  v        |     +---------- | ------ damaged on disk: fetched again
               LOCKED        |                 v wrong digest
                             +---- COMPARING <- LOCATING
    any state -> FAILED, once every connection is closed and no call of the store is under way (invariant 7)

QUEUED waits for the session, PREPARING for the store, LOCKED for a timer, TRANSFERRING and COMPARING for connections,
back-off timers or the give-up timer, LOCATING, VERIFYING and PUBLISHING for the store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum, auto

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.checkpointing import Checkpointing
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.give_up_timer import GiveUpTimer
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.rate import SpeedMeter
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.connection_scheduler import ConnectionScheduler
from resume_dl.core.scheduling.leases import NO_END
from resume_dl.core.sources import OF_THE_HOST, SourceState
from resume_dl.core.verification.repair import Repair, Ruling
from resume_dl.model.http import CacheHeaders, by_validator

_OF_THE_LINE = frozenset({FailureKind.UNREACHABLE, FailureKind.BROKEN, FailureKind.STALLED})


class State(Enum):
    """Where a download stands."""

    QUEUED = auto()
    PREPARING = auto()
    LOCKED = auto()
    TRANSFERRING = auto()
    VERIFYING = auto()
    LOCATING = auto()
    COMPARING = auto()
    PUBLISHING = auto()
    DONE = auto()
    FAILED = auto()


class Download:
    """One artifact's bytes. ``handle`` is the only way in; the counters are for reports.

    ``size`` None where no record gave one; ``bound_by_digest`` False where no digest will judge the bytes: then one
    source and its validator bind the whole file. ``thorough``: where sources agree against the record, compare them on
    every byte. ``replaceable``: the caller has others in its sources' place, and waits for their first byte no longer
    than ``authority_give_up``. ``last_chance``: so it had, in vain; now they have ``unreached_give_up`` for it.
    ``jitter`` gives numbers in [0, 1).
    """

    def __init__(
        self,
        *,
        size: int | None,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        jitter: Callable[[], float],
        bound_by_digest: bool = True,
        thorough: bool = True,
        replaceable: bool = False,
        last_chance: bool = False,
    ) -> None:
        self.size = size
        self.sources = list(sources)
        self.state = State.QUEUED
        self.received = 0
        self.lock_owner = ""
        self._stated_size = size
        self._digest = bound_by_digest
        self._budget = budget
        self._policy = policy
        self._jitter = jitter
        self._out: list[act.Action] = []
        self._coverage = ByteCoverage()
        self._scheduler = ConnectionScheduler(self.sources, budget, policy, self._coverage, self._out)
        self._repair = Repair(
            self.sources,
            budget,
            policy,
            self._coverage,
            self._scheduler,
            out=self._out,
            thorough=thorough,
            size_is_stated=size is not None,
        )
        self._give_up = GiveUpTimer()
        self._replaceable = replaceable
        self._last_chance = last_chance
        self._came = False
        self._retry_lock_at = math.inf
        self._checkpointing = Checkpointing(policy, self._out, journaled=self._journaled, by_digest=bound_by_digest)
        self._validator: str | None = None
        self._said: CacheHeaders | None = None
        self._bound: int | None = None
        self._digests = ("", "")
        self._ending: act.Fail | None = None
        self._discarding = False
        self._now = 0.0
        for source in self.sources:
            budget.host(source.host, source.connections)

    # ------------------------------------------------------------------ the way in

    @property
    def done(self) -> RangeSet:
        """What is on disk and believed."""
        return self._coverage.done

    @property
    def connections(self) -> dict[int, Connection]:
        """The requests in flight."""
        return self._scheduler.live

    @property
    def over(self) -> bool:
        """Whether the download has ended, well or not."""
        return self.state in {State.DONE, State.FAILED}

    @property
    def wants_room(self) -> bool:
        """Whether it has, or may soon want, connections."""
        return self.state in {State.PREPARING, State.TRANSFERRING, State.COMPARING}

    @property
    def complete(self) -> bool:
        """Whether every byte is on disk."""
        return self.size is not None and self.done.covers(0, self.size)

    @property
    def validator(self) -> str | None:
        """What If-Range carries for a file without a digest, where its source gave one."""
        return self._validator

    @property
    def said(self) -> CacheHeaders:
        """What asks later whether this file has changed, as far as its source gave anything for it."""
        return self._said or by_validator(self._validator)

    @property
    def resumed(self) -> int:
        """Bytes of earlier runs that are still believed."""
        return self._coverage.resumed

    @property
    def kept(self) -> int:
        """Body bytes received in this run and still believed."""
        return self._coverage.kept

    def kept_of(self, source: int) -> int:
        """The same, of one source by its index."""
        return self._coverage.kept_of(source)

    @property
    def wasted(self) -> int:
        """Body bytes received in this run and thrown away."""
        return self.received - self.kept

    def start(self, now: float) -> list[act.Action]:
        """The session lets this download begin."""
        self._now = now
        self._give_up.begin(now)
        self._prepare()
        return self._flush()

    def handle(self, event: ev.Event, now: float) -> list[act.Action]:
        """Take one fact in; the answer is what to do about it, in order."""
        if self.over:
            return []
        self._now = now
        if isinstance(event, ev.OfAConnection):
            self._on_connection(event, now)
        elif isinstance(event, ev.Prepared):
            self._on_prepared(event, now)
        elif isinstance(event, ev.LockBusy):
            self._on_lock_busy(event, now)
        elif isinstance(event, ev.FoundPublished):
            self._end_well(another=True)
        elif isinstance(event, ev.DataSynced):
            self._checkpointing.synced(event.mark, now)
        elif isinstance(event, ev.DigestAdvanced):
            self._on_digest_advanced(event, now)
        elif isinstance(event, ev.DigestChecked):
            self._on_digest(event, now)
        elif isinstance(event, ev.DamageLocated):
            self._on_located(event, now)
        elif isinstance(event, ev.Published):
            self._end_well(another=False)
        elif isinstance(event, ev.LocalFailed):
            self._on_local_failure(event)
        elif isinstance(event, ev.LookupFailed):
            self._budget.network.failed(event.host, event.failure, now)
        elif isinstance(event, ev.Awoke):
            self._on_awoke(event, now)
        elif isinstance(event, ev.Cancelled):
            self._end(act.Fail("cancelled"))
        else:
            self._on_timer(now)
        self._advance(now)
        return self._flush()

    def fill(self, now: float, *, help_out: bool = False) -> list[act.Action]:
        """Use what connections the budget has room for; with ``help_out`` also to take over others' work."""
        if self.state in {State.TRANSFERRING, State.COMPARING}:
            self._now = now
            self._advance(now, help_out=help_out)
        return self._flush()

    def next_deadline(self) -> float:
        """When TimerFired is due if nothing else happens; infinity where another event must come first."""
        if self.state is State.LOCKED:
            return self._retry_lock_at
        if self.state is State.TRANSFERRING and self._draining:
            return min(self._scheduler.farewells(), default=math.inf) if self._ending is None else math.inf
        if self.state not in {State.TRANSFERRING, State.COMPARING} or self._ending is not None:
            return math.inf
        times = [self._give_up_at(), *self._scheduler.deadlines(self._now)]
        times.append(self._checkpointing.sync_deadline())
        for source in self._allowed():
            ready_at = max(source.not_before, self._budget.host(source.host).not_before)
            if ready_at > self._now:  # what was ready by then has been considered already
                times.append(ready_at)
        return min(times)

    # ------------------------------------------------------------------ events

    def _on_prepared(self, event: ev.Prepared, now: float) -> None:
        self.state = State.TRANSFERRING
        self._checkpointing.begin(now)
        self._give_up.begin(now)
        labels = [source.label for source in self.sources]
        usable = self.size is None or event.size is None or event.size == self.size
        if not self._digest:
            usable = usable and event.validator is not None and labels.count(event.bound_source or "") == 1
            if usable and event.bound_source is not None and event.ranges:
                self._bound = labels.index(event.bound_source)
                self._validator = event.validator
        if not event.ranges:
            return  # a size or validator that no byte stands for may be of an older file
        if not usable:
            self._out.append(act.DiscardPieces())
            return
        if event.size is not None:
            self.size = event.size
        self._coverage.resume(event.ranges, event.owners, labels)
        if self.size is not None:
            self._coverage.forget([(self.size, NO_END)])
        self._give_up.begin(now, self.resumed)

    def _on_lock_busy(self, event: ev.LockBusy, now: float) -> None:
        self.lock_owner = event.owner
        self.state = State.LOCKED
        self._retry_lock_at = now + self._policy.lock_retry
        if not self._policy.wait_for_lock:
            self._end(act.Fail("locked", owner=event.owner))

    def _on_connection(self, event: ev.OfAConnection, now: float) -> None:
        one = self.connections.get(event.connection)
        if one is None:
            return
        if isinstance(event, ev.ConnectionClosed):
            self._on_closed(one, event, now)
        elif one.closing:
            return  # invariant 3; ConnectionClosed carries the last count
        elif isinstance(event, ev.ResponseStarted):
            self._on_response(one, event, now)
        elif isinstance(event, ev.LeaseShortened):
            one.spent = one.shorten_to is not None and event.end > one.shorten_to
            one.shorten_to = None
            one.lease = one.lease.until(event.end)
        elif isinstance(event, ev.RangeCompared):
            self._take_count(one, event.received, now)
            if self._repair.compared(one, event.position, event.differing, last=False):
                self._give_up.begin(now, self.done.total)
        elif isinstance(event, ev.BytesWritten):
            self._take_bytes(one, event.position, event.received, now)
        else:
            self._take_count(one, event.received, now)
            one.held = isinstance(event, ev.RangeHeld)
        self._scheduler.settle_duplicates()

    def _on_closed(self, one: Connection, event: ev.ConnectionClosed, now: float) -> None:
        doubted = one.doubted_at is not None  # before its last bytes are counted, which it may have had for long
        self._scheduler.forget(event.connection, event.received, now)
        if event.size is not None and self.size is None:
            self._fix_size(event.size, one.source)
        if one.mode is act.Mode.COMPARE:
            self._take_count(one, event.received, now)
            if one.position < one.end(self.size):  # else its last report was the end
                self._repair.compared(one, one.position, (), last=True)
        else:
            self._take_bytes(one, event.position, event.received, now)
        failure = event.failure
        if one.stalled:
            failure = Failure(FailureKind.STALLED, f"no byte for {round(now - one.last_byte_at)} s")
        elif one.slow:
            failure = Failure(FailureKind.SLOW, "has become slow")
        if failure is None or (doubted and failure.kind in _OF_THE_LINE):
            self._on_lost(one.source)
        else:
            self._on_failure(one, failure, now)

    def _on_response(self, one: Connection, event: ev.ResponseStarted, now: float) -> None:
        one.answered = True
        one.doubted_at = None
        one.last_byte_at = now
        one.meter = SpeedMeter(self._policy.speed_half_life, now)  # how long it took to answer is no speed
        self.sources[one.source].waited = now - one.opened_at
        self.sources[one.source].gives_ranges |= event.ranges
        self.sources[one.source].answered_by.add(event.final_host)
        self._budget.answered(one.host, event.final_host, now - one.opened_at)
        binds = not self._digest and (self._validator is None or not self.done)
        if binds:
            self._bound = one.source
            self._validator = event.validator
        if not self._digest:  # one that continued was bound to the same version
            self._said = event.said
        if event.size is not None and (self.size is None or binds):  # what binds is recorded with the size
            self._fix_size(event.size, one.source)

    def _fix_size(self, size: int, source: int) -> None:
        self.size = size
        self._coverage.forget([(size, NO_END)])
        bound = None if self._digest else source
        self._out.append(act.FixSize(size, None if self._digest else self._validator, bound))

    def _take_count(self, one: Connection, received: int, now: float) -> int:
        came = received - one.received
        self.received += came
        self.sources[one.source].received += came
        one.received = received
        if came > 0:
            self._scheduler.came(one, came, now)
        return came

    def _take_bytes(self, one: Connection, position: int, received: int, now: float) -> None:
        source = self.sources[one.source]
        came = self._take_count(one, received, now)
        gained = 0
        if one.mode is act.Mode.WRITE or (one.writing and position >= one.end(self.size)):
            for start, end in one.lease.ranges(self.size):
                gained += self._coverage.add(max(start, one.position), min(end, position), one.source)
        one.position = max(one.position, position)
        if gained:
            self._checkpointing.gained(gained)
            source.progressed()
            self._budget.progressed(one.host)
        if came > 0 and not self._came:
            self._came = True
            self._budget.network.came(one.host)
        self._give_up.moved(now, done=self.done.total, came=came, position=position)

    def _on_failure(self, one: Connection, failure: Failure, now: float) -> None:
        index = one.source
        source = self.sources[index]
        source.answered_by |= {failure.answered_by} - {""}
        if failure.kind is not FailureKind.UNCHANGED:
            self._out.append(act.NoteFailure(index, failure))
        if failure.kind is FailureKind.LOCAL:
            self._end(act.Fail("local", ((index, failure),)))
            return
        if failure.kind is FailureKind.UNCHANGED:
            self._said = failure.said
            self._end(act.Fail("unchanged", ((index, failure),)))
            return
        if not self._digest and self._is_further(index) and failure.kind not in OF_THE_HOST:
            source.alone = True  # it refuses a second connection; what the first one brings is right all the same
            return
        host = self._budget.host(source.host)
        self._budget.network.failed(source.host, failure, now)
        if failure.kind not in {FailureKind.UNREACHABLE, FailureKind.STALLED, FailureKind.FATAL}:
            host.reached = True
        rests_until = source.failed(
            failure, now, self._policy, self._jitter, whole=one.lease.whole, host_failures=host.failures_in_a_row
        )
        if failure.kind in OF_THE_HOST:
            self._budget.failed(source.host, now, rests_until=rests_until)
        if self.size != self._stated_size and not self.done and not self.connections and source.has_another_size:
            # the size came from another source's answer, not from a record: it may be the wrong one
            self.size = None
            source.dropped = None
        if not self._digest and index == self._bound and self._must_restart(source, failure):
            self._restart()

    def _is_further(self, source: int) -> bool:
        """Whether another connection to this source is at work, and answered."""
        return any(one.source == source and one.answered and not one.closing for one in self.connections.values())

    def _must_restart(self, source: SourceState, failure: Failure) -> bool:
        """Without a digest: whether what we hold cannot, or should not, be continued from the source that binds it."""
        others = any(other.usable for other in self.sources if other is not source)
        unhealthy = source.failures_in_a_row >= self._policy.solo_failures and others
        resumable = self._validator is not None and not source.one_stream and source.usable
        return failure.kind is FailureKind.CHANGED or not self.done or not resumable or unhealthy

    def _on_local_failure(self, event: ev.LocalFailed) -> None:
        if event.sync:
            self._checkpointing.syncing = False
        if event.digest:
            self._checkpointing.digesting = False
        if self.state is State.PUBLISHING and not event.publish:
            return  # a late record of a journal that is about to go: only how publishing ends decides
        self.state = State.TRANSFERRING
        self._end(act.Fail("local", error=event.error))

    def _on_awoke(self, event: ev.Awoke, now: float) -> None:
        """No progress was to be expected of a sleep: patience begins anew, and what was open may be dead."""
        self._give_up.begin(now, self.done.total)
        if event.seconds >= self._policy.stall_seconds:
            self._scheduler.doubt(now)

    def _on_lost(self, index: int) -> None:
        """A connection has ended without a failure of its source, in our sleep perhaps: it is asked again at once.

        Whatever ended it, a file without a digest goes on only under a validator.
        """
        ends = self.complete or self._ending is not None
        broken = Failure(FailureKind.BROKEN, "lost")
        if not self._digest and index == self._bound and not ends and self._must_restart(self.sources[index], broken):
            self._restart()

    def _on_timer(self, now: float) -> None:
        if self.state is State.LOCKED and now >= self._retry_lock_at:
            self._prepare()
        if self.state not in {State.TRANSFERRING, State.COMPARING}:
            return
        self._note_room(now)
        self._scheduler.watch(now)
        if now >= self._give_up_at():
            if self._is_hurried:
                self._budget.network.give_up(self._hosts)
            if self._no_network:
                self._end(act.Fail("no network", self._unresolved()))
            else:
                self._end(act.Fail("exhausted" if self._reached else "unreachable", self._account_of_all(now)))

    # ------------------------------------------------------------------ the digest

    def _on_digest_advanced(self, event: ev.DigestAdvanced, now: float) -> None:
        self._checkpointing.digesting = False
        self._checkpointing.digest_stands_at(event.position)
        if event.damaged:
            if self.state is State.VERIFYING:
                self.state = State.TRANSFERRING
            self._forget(event.damaged, now)

    def _on_digest(self, event: ev.DigestChecked, now: float) -> None:
        self._checkpointing.digesting = False
        if self.state is not State.VERIFYING:
            return  # something on this machine has failed meanwhile
        if event.matches:
            self.state = State.PUBLISHING
            self._out.append(act.Publish())
            return
        self._digests = (event.expected, event.actual)
        if self._ending is not None:
            self.state = State.TRANSFERRING
        elif self._repair.solo is not None:
            self.state = State.TRANSFERRING
            self._carry_out(self._repair.solo_was_wrong(event.actual), now)
        elif self._repair.has_begun:
            self._repair.wrong_again(self.size or 0)
            self._compare(now)
        else:
            self.state = State.LOCATING
            self._checkpointing.call_digest(act.LocateDamage())

    # ------------------------------------------------------------------ wrong bytes: who lied?

    def _on_located(self, event: ev.DamageLocated, now: float) -> None:
        self._checkpointing.digesting = False
        if self.state is State.LOCATING:
            self._repair.begin(event.suspects, self.size or 0)
            self._compare(now)

    def _compare(self, now: float) -> None:
        self.state = State.COMPARING
        self._give_up.begin(now, self.done.total)
        self._repair.inquire(self.size or 0)

    def _go_on_comparing(self, now: float) -> None:
        """Go on comparing, or act on what has been found out."""
        if self._ending is None and self._repair.goes_on(self.size or 0, now):
            self._checkpointing.sync_if_due(now)
            return
        self._scheduler.close_all()
        if self.connections or self._checkpointing.syncing:
            return
        self.state = State.TRANSFERRING
        if self._ending is None:
            self._carry_out(self._repair.rule(self.size or 0), now)
        self._advance(now)

    def _carry_out(self, ruling: Ruling, now: float) -> None:
        if ruling.restart or RangeSet(ruling.forget).covers(0, self.size or 0):
            self._restart()
        elif ruling.forget:
            self._forget(ruling.forget, now)
        if ruling.further:
            self._compare(now)
        if ruling.reason:
            causes = () if ruling.agreeing else self._causes()
            self._end_for(ruling.reason, causes, ruling.agreeing)
        self._give_up.begin(now, self.done.total)

    def _end_for(self, reason: str, causes: tuple[tuple[int, Failure], ...], agreeing: tuple[int, ...] = ()) -> None:
        """End badly; the digests go with it where the bytes have been found wrong before."""
        expected, actual = self._digests
        self._end(act.Fail(reason, causes, expected=expected, actual=actual, agreeing=agreeing))

    # ------------------------------------------------------------------ decisions

    def _advance(self, now: float, *, help_out: bool = False) -> None:
        """Go on from where the last event left us."""
        if self.state is State.COMPARING:
            self._go_on_comparing(now)
            return
        if self.state is not State.TRANSFERRING:
            if self._ending is not None and self.state in {State.QUEUED, State.LOCKED}:
                self._fail_now()
            return
        if self._draining:
            if self._ending is not None or self._discarding:
                self._scheduler.close_all()
            else:
                self._scheduler.dismiss_finished(self.size, now)
            if self.connections or self._checkpointing.syncing or self._checkpointing.digesting:
                return  # invariant 7: nothing is judged, published or thrown away while a write may be under way
            if self._discarding:
                self._discard()
        if self._ending is not None:
            self._fail_now()
        elif self.complete:
            self._finish_transfer()
        else:
            self._checkpointing.sync_if_due(now)
            self._scheduler.fill(
                self._allowed(),
                self.size,
                now,
                by_digest=self._digest,
                if_range=None if self._digest else self._validator,
                help_out=help_out,
            )
            self._checkpointing.digest_if_due(self.done)  # after the requests: the line goes first
            self._note_room(now)
            if not self.connections and not self._allowed():
                self._no_source_left(now)

    @property
    def _draining(self) -> bool:
        """Whether every connection has to end before anything else: to fail, to begin again, or to judge the file."""
        return self._ending is not None or self._discarding or self.complete

    def _finish_transfer(self) -> None:
        if self._digest:
            self.state = State.VERIFYING
            self._checkpointing.call_digest(act.CheckDigest())
        else:
            self.state = State.PUBLISHING
            self._out.append(act.Publish())

    def _no_source_left(self, now: float) -> None:
        if self._repair.solo is not None and self._repair.next_solo():
            self._give_up.begin(now)
            self._restart()
            self._advance(now)
            return
        lacking = all(source.dropped and source.dropped.kind is FailureKind.LACKS for source in self.sources)
        nobody = not any(source.usable for source in self.sources)
        lied = nobody and any(source.quarantined for source in self.sources)
        reason = "lacking" if lacking else "digest" if lied else "exhausted"
        self._end_for(reason, self._account_of_all(now) if reason == "exhausted" else self._causes())
        self._advance(now)

    def _allowed(self) -> list[SourceState]:
        """The sources that may be asked, now or later; of a host that has lied only where there is no other."""
        if self._repair.solo is not None:
            solo = self.sources[self._repair.solo]
            return [solo] if solo.usable and solo.failures_in_a_row < self._policy.solo_failures else []
        if self._bound is not None:
            return [self.sources[self._bound]]
        usable = [source for source in self.sources if source.usable]
        return [source for source in usable if not self._budget.host(source.host).distrusted] or usable

    def _note_room(self, now: float) -> None:
        """Stop the give-up clock while others have the line: that is no failure of this file."""
        self._give_up.note_room(now, waits=not self.connections and self._waits_for_room(now))

    def _waits_for_room(self, now: float) -> bool:
        """Whether others' connections are all that keeps us; not where they themselves get no answer."""
        hosts = [self._budget.host(source.host) for source in self._allowed() if source.not_before <= now]
        return any(host.not_before <= now and (host.reached or not host.active) for host in hosts)

    @property
    def _journaled(self) -> bool:
        """As the store was told when it opened the file."""
        return self._stated_size is None or self._stated_size >= self._policy.journal_from

    @property
    def _resumable_bytes(self) -> int:
        """How many bytes a later run will believe."""
        bound = self._digest or (self._validator is not None and self.size is not None)
        return self.done.total if bound and self._journaled else 0

    def _give_up_at(self) -> float:
        patience = self._policy.give_up_after
        if not self._reached:
            silent = any(self._budget.host(source.host).silent for source in self.sources if source.usable)
            longest = min(self._policy.silent_give_up, patience) if silent else 0.0
            patience = max(self._policy.unreached_give_up, longest)
        if self._is_hurried and self._last_chance:
            patience = min(patience, self._policy.unreached_give_up)
        elif self._is_hurried:
            replaced = self._budget.network.is_given_up(self._hosts)
            patience = 0.0 if replaced else min(patience, self._policy.authority_give_up)
        ends = self._give_up.ends(patience)
        return min(ends, self._budget.network.ends(self._hosts, self._policy))

    @property
    def _hosts(self) -> set[str]:
        """Of the sources that may still be asked."""
        return {source.host for source in self.sources if source.usable}

    @property
    def _is_hurried(self) -> bool:
        """Whether the time for its sources' first byte is short: others can answer, or were asked already."""
        return (self._replaceable or self._last_chance) and not self._came

    @property
    def _no_network(self) -> bool:
        """Whether no host of this file can be resolved, and nothing has answered in this run."""
        return self._budget.network.is_missing(self._hosts)

    @property
    def _reached(self) -> bool:
        """Whether any source that is still of use has answered in this run."""
        return any(self._budget.host(source.host).reached for source in self.sources if source.usable)

    def _causes(self) -> tuple[tuple[int, Failure], ...]:
        return tuple((i, s.last_failure) for i, s in enumerate(self.sources) if s.last_failure is not None)

    def _unresolved(self) -> tuple[tuple[int, Failure], ...]:
        """Why each source's name could not be resolved, as this file or another one of the run was told."""
        told = [(i, self._budget.network.failure_of(source.host)) for i, source in enumerate(self.sources)]
        return tuple((i, failure) for i, failure in told if failure is not None)

    def _account_of_all(self, now: float) -> tuple[tuple[int, Failure], ...]:
        """What became of each source: its last failure, or how long it has kept silent, or that it had no turn."""
        return tuple(
            (index, source.last_failure or self._silence_of(index, now)) for index, source in enumerate(self.sources)
        )

    def _silence_of(self, index: int, now: float) -> Failure:
        for one in self.connections.values():
            if one.source == index and not one.answered:
                return Failure(FailureKind.STALLED, f"no answer within {round(now - one.opened_at)} s")
            if one.source == index:
                return Failure(FailureKind.STALLED, f"no byte for {round(now - one.last_byte_at)} s")
        return Failure(FailureKind.UNASKED, "was not asked again" if self.sources[index].asked else "was not asked")

    # ------------------------------------------------------------------ small steps

    def _prepare(self) -> None:
        self.state = State.PREPARING
        self._retry_lock_at = math.inf
        self._out.append(act.Prepare(self._journaled))

    def _forget(self, ranges: Iterable[tuple[int, int]], now: float) -> None:
        """Believe these bytes no more; they are fetched again."""
        gone = tuple(ranges)
        self._out.append(act.ForgetRanges(gone))
        self._coverage.forget(gone)
        self._checkpointing.forgot(min(start for start, _ in gone))
        self._give_up.begin(now, self.done.total)

    def _restart(self) -> None:
        """Begin again from nothing, once every writer has stopped."""
        self._discarding = True

    def _discard(self) -> None:
        self._discarding = False
        self._out.append(act.DiscardPieces())
        self._coverage.clear()
        self._checkpointing.discarded()
        self._bound = self._validator = self._said = None
        self.size = self._stated_size

    def _end(self, fail: act.Fail) -> None:
        if self._ending is None:
            self._ending = fail

    def _fail_now(self) -> None:
        assert self._ending is not None  # noqa: S101 - for the type checker
        end = self._ending
        self.state = State.FAILED
        self._out.append(replace(end, resumable_bytes=self._resumable_bytes))

    def _end_well(self, *, another: bool) -> None:
        self.state = State.DONE
        self._out.append(act.Finish(another))

    def _flush(self) -> list[act.Action]:
        out = self._out[:]
        self._out.clear()
        return out

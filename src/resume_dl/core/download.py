"""One file's download as a state machine: events in, actions out.

States and what each waits for (invariant 4: never nothing)::

    QUEUED -> PREPARING -> TRANSFERRING -> VERIFYING -> PUBLISHING -> DONE
                 ^  |           ^              |
                 |  v           +--------------+   wrong digest: refetched from single sources in turn
               LOCKED
    any state -> FAILED, once every connection is closed and no sync is under way (invariant 7)

QUEUED waits for the session, PREPARING for the store, LOCKED for a timer, TRANSFERRING for connections, back-off
timers or the give-up timer, VERIFYING and PUBLISHING for the store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum, auto

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.budget import Budget
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.leasing import NO_END, Connection, Lease, lone_lease, next_segment
from resume_dl.core.patience import Patience
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.rate import SpeedMeter
from resume_dl.core.sources import SourceState


class State(Enum):
    """Where a download stands."""

    QUEUED = auto()
    PREPARING = auto()
    LOCKED = auto()
    TRANSFERRING = auto()
    VERIFYING = auto()
    PUBLISHING = auto()
    DONE = auto()
    FAILED = auto()


class Download:
    """One artifact's bytes. ``handle`` is the only way in; the counters are for reports.

    ``size`` None where no record gave one; ``bound_by_digest`` False where no digest will judge the bytes: then one
    source and its validator bind the whole file. ``jitter`` gives numbers in [0, 1).
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
    ) -> None:
        self.size = size
        self.sources = list(sources)
        self.state = State.QUEUED
        self.done = RangeSet()
        self.resumed = 0
        self.kept = 0
        self.received = 0
        self.lock_owner = ""
        self.connections: dict[int, Connection] = {}
        self._stated_size = size
        self._digest = bound_by_digest
        self._budget = budget
        self._policy = policy
        self._jitter = jitter
        self._next_connection = 0
        self._out: list[act.Action] = []
        self._patience = Patience()
        self._retry_lock_at = math.inf
        self._syncing = False
        self._last_sync_at = 0.0
        self._unsynced = 0
        self._validator: str | None = None
        self._bound: int | None = None
        self._solo: int | None = None
        self._solo_tried: set[int] = set()
        self._contributors: set[int] = set()
        self._ending: act.Fail | None = None
        self._discarding = False
        self._wrong = ("", "")
        self._now = 0.0
        for source in self.sources:
            budget.host(source.host, source.connections)

    # ------------------------------------------------------------------ the way in

    @property
    def over(self) -> bool:
        """Whether the download has ended, well or not."""
        return self.state in {State.DONE, State.FAILED}

    @property
    def complete(self) -> bool:
        """Whether every byte is on disk."""
        return self.size is not None and self.done.covers(0, self.size)

    @property
    def validator(self) -> str | None:
        """What If-Range carries for a file without a digest, where its source gave one."""
        return self._validator

    @property
    def wasted(self) -> int:
        """Body bytes received in this run and thrown away."""
        return self.received - self.kept

    def start(self, now: float) -> list[act.Action]:
        """The session lets this download begin."""
        self._now = now
        self._patience.begin(now)
        self._prepare()
        return self._flush()

    def handle(self, event: ev.Event, now: float) -> list[act.Action]:
        """Take one fact in; the answer is what to do about it, in order."""
        if self.over:
            return []
        self._now = now
        if isinstance(event, ev.BytesWritten | ev.ResponseStarted | ev.ConnectionClosed):
            self._on_connection(event, now)
        elif isinstance(event, ev.Prepared):
            self._on_prepared(event, now)
        elif isinstance(event, ev.LockBusy):
            self._on_lock_busy(event, now)
        elif isinstance(event, ev.FoundPublished):
            self._end_well(another=True)
        elif isinstance(event, ev.DataSynced):
            self._syncing = False
            self._last_sync_at = now
            self._out.append(act.RecordProgress(event.mark))
        elif isinstance(event, ev.DigestChecked):
            self._on_digest(event, now)
        elif isinstance(event, ev.Published):
            self._end_well(another=False)
        elif isinstance(event, ev.LocalFailed):
            self._on_local_failure(event)
        elif isinstance(event, ev.Cancelled):
            self._end(act.Fail("cancelled"))
        else:
            self._on_timer(now)
        self._advance(now)
        return self._flush()

    def fill(self, now: float) -> list[act.Action]:
        """Use what connections the budget has room for."""
        if self.state is State.TRANSFERRING:
            self._now = now
            self._advance(now)
        return self._flush()

    def next_deadline(self) -> float:
        """When TimerFired is due if nothing else happens; infinity where another event must come first."""
        if self.state is State.LOCKED:
            return self._retry_lock_at
        if self.state is not State.TRANSFERRING or self._draining:
            return math.inf
        times = [self._give_up_at()]
        times += [self._silence_ends(c) for c in self.connections.values() if not c.closing]
        if self._unsynced and not self._syncing and self._journaled:
            times.append(self._last_sync_at + self._policy.sync_seconds)
        for source in self._allowed():
            ready_at = max(source.not_before, self._budget.host(source.host).not_before)
            if ready_at > self._now:  # what was ready by then has been considered already
                times.append(ready_at)
        return min(times)

    # ------------------------------------------------------------------ events

    def _on_prepared(self, event: ev.Prepared, now: float) -> None:
        self.state = State.TRANSFERRING
        self._last_sync_at = now
        self._patience.begin(now)
        usable = self.size is None or event.size is None or event.size == self.size
        if not self._digest:
            labels = [source.label for source in self.sources]
            usable = usable and event.validator is not None and event.bound_source in labels
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
        self.done = RangeSet(event.ranges)
        if self.size is not None:
            self.done.remove(self.size, NO_END)
        self.resumed = self.done.total
        self._patience.begin(now, self.resumed)

    def _on_lock_busy(self, event: ev.LockBusy, now: float) -> None:
        self.lock_owner = event.owner
        self.state = State.LOCKED
        self._retry_lock_at = now + self._policy.lock_retry
        if not self._policy.wait_for_lock:
            self._end(act.Fail("locked", owner=event.owner))

    def _on_connection(self, event: ev.BytesWritten | ev.ResponseStarted | ev.ConnectionClosed, now: float) -> None:
        connection = self.connections.get(event.connection)
        if connection is None:
            return
        source = self.sources[connection.source]
        if isinstance(event, ev.ResponseStarted):
            if not connection.closing:
                self._on_response(connection, event, now)
            return
        if isinstance(event, ev.BytesWritten):
            if not connection.closing:  # invariant 3; ConnectionClosed carries the last count
                self._take_bytes(connection, event.position, event.received, now)
            return
        del self.connections[event.connection]
        self._budget.release(source.host)
        if event.size is not None and self.size is None:
            self._fix_size(event.size, connection.source)
        self._take_bytes(connection, event.position, event.received, now)
        failure = event.failure
        if connection.stalled:
            seconds = self._policy.stall_seconds if connection.answered else self._policy.first_byte_seconds
            failure = Failure(FailureKind.STALLED, f"no byte for {seconds:g} s")
        if failure is not None:
            self._on_failure(connection, failure, now)

    def _on_response(self, connection: Connection, event: ev.ResponseStarted, now: float) -> None:
        connection.answered = True
        connection.last_byte_at = now
        self._budget.host(self.sources[connection.source].host).reached = True
        binds = not self._digest and (self._validator is None or not self.done)
        if binds:
            self._bound = connection.source
            self._validator = event.validator
        if event.size is not None and (self.size is None or binds):  # what binds is recorded with the size
            self._fix_size(event.size, connection.source)

    def _fix_size(self, size: int, source: int) -> None:
        self.size = size
        self.done.remove(size, NO_END)
        bound = None if self._digest else source
        self._out.append(act.FixSize(size, None if self._digest else self._validator, bound))

    def _take_bytes(self, connection: Connection, position: int, received: int, now: float) -> None:
        source = self.sources[connection.source]
        came = received - connection.received
        self.received += came
        source.received += came
        connection.received = received
        if came > 0:
            connection.last_byte_at = now
            connection.meter.add(came, now)
            if connection.meter.speed is not None:
                self._budget.note_speed(source.host, connection.meter.speed)
        before = self.done.total
        for start, end in connection.lease.ranges(self.size):
            self.done.add(max(start, connection.position), min(end, position))
        connection.position = max(connection.position, position)
        gained = self.done.total - before
        if gained:
            self.kept += gained
            source.kept += gained
            self._unsynced += gained
            self._contributors.add(connection.source)
            source.progressed()
        self._patience.moved(now, done=self.done.total, came=came, position=position)

    def _on_failure(self, connection: Connection, failure: Failure, now: float) -> None:
        index = connection.source
        source = self.sources[index]
        if failure.kind is not FailureKind.UNCHANGED:
            self._out.append(act.NoteFailure(index, failure))
        if failure.kind is FailureKind.LOCAL:
            self._end(act.Fail("local", ((index, failure),)))
            return
        if failure.kind is FailureKind.UNCHANGED:
            self._end(act.Fail("unchanged", ((index, failure),)))
            return
        if failure.kind not in {FailureKind.UNREACHABLE, FailureKind.STALLED, FailureKind.FATAL}:
            self._budget.host(source.host).reached = True
        host_rests = source.failed(failure, now, self._policy, self._jitter, whole=connection.lease.whole)
        if self.size != self._stated_size and not self.done and not self.connections and source.has_another_size:
            # the size came from another source's answer, not from a record: it may be the wrong one
            self.size = None
            source.dropped = None
        host = self._budget.host(source.host)
        host.not_before = max(host.not_before, host_rests)
        if not self._digest and index == self._bound and self._must_restart(source, failure):
            self._restart()

    def _must_restart(self, source: SourceState, failure: Failure) -> bool:
        """Without a digest: whether what we hold cannot, or should not, be continued from the source that binds it."""
        others = any(other.usable for other in self.sources if other is not source)
        ill = source.failures_in_a_row >= self._policy.solo_failures and others
        resumable = self._validator is not None and not source.one_stream and source.usable
        return failure.kind is FailureKind.CHANGED or not self.done or not resumable or ill

    def _on_digest(self, event: ev.DigestChecked, now: float) -> None:
        if event.matches:
            self.state = State.PUBLISHING
            self._out.append(act.Publish())
            return
        self.state = State.TRANSFERRING
        self._wrong = (event.expected, event.actual)
        wrong = Failure(FailureKind.CONTENT, f"its bytes have digest {event.actual}")
        if len(self._contributors) == 1 and not self.resumed:
            liar = next(iter(self._contributors))
            self.sources[liar].quarantined = True
            self.sources[liar].failures["wrong bytes"] += 1
            self.sources[liar].last_failure = wrong
            self._out.append(act.NoteFailure(liar, wrong))
        self._restart()
        if not self._next_solo(now):
            self._end(act.Fail("digest", self._causes(), expected=event.expected, actual=event.actual))

    def _next_solo(self, now: float) -> bool:
        """Let the next single source have the file to itself, with a clean sheet; False where none is left."""
        if self._solo is not None:
            self._solo_tried.add(self._solo)
        self._solo = None
        for index, source in enumerate(self.sources):
            if index not in self._solo_tried and not source.quarantined:
                if self._stated_size is None and source.has_another_size:
                    source.dropped = None  # the size it was measured by came with the wrong bytes
                if source.usable:
                    self._solo = index
                    source.failures_in_a_row = 0
                    self._patience.begin(now)
                    return True
        return False

    def _on_local_failure(self, event: ev.LocalFailed) -> None:
        if event.sync:
            self._syncing = False
        self.state = State.TRANSFERRING
        self._end(act.Fail("local", error=event.error))

    def _on_timer(self, now: float) -> None:
        if self.state is State.LOCKED and now >= self._retry_lock_at:
            self._prepare()
        if self.state is not State.TRANSFERRING:
            return
        self._note_room(now)
        for connection_id, connection in self.connections.items():
            if not connection.closing and now >= self._silence_ends(connection):
                connection.stalled = True
                self._close(connection_id)
        if now >= self._give_up_at():
            self._end(act.Fail("exhausted" if self._reached else "unreachable", self._causes()))

    # ------------------------------------------------------------------ decisions

    def _advance(self, now: float) -> None:
        """Go on from where the last event left us."""
        if self.state is not State.TRANSFERRING:
            if self._ending is not None and self.state in {State.QUEUED, State.LOCKED}:
                self._fail_now()
            return
        if self._draining:
            for connection_id, connection in self.connections.items():
                if not connection.closing:
                    self._close(connection_id)
            if self.connections or self._syncing:
                return  # invariant 7: nothing is judged, published or thrown away while a write may be under way
            if self._discarding:
                self._discard()
        if self._ending is not None:
            self._fail_now()
        elif self.complete:
            self._finish_transfer()
        else:
            self._sync_if_due(now)
            self._lease(now)
            self._note_room(now)
            if not self.connections and not any(True for _ in self._allowed()):
                self._no_source_left(now)

    @property
    def _draining(self) -> bool:
        """Whether every connection has to end before anything else: to fail, to begin again, or to judge the file."""
        return self._ending is not None or self._discarding or self.complete

    def _finish_transfer(self) -> None:
        if self._digest:
            self.state = State.VERIFYING
            self._out.append(act.CheckDigest())
        else:
            self.state = State.PUBLISHING
            self._out.append(act.Publish())

    def _no_source_left(self, now: float) -> None:
        if self._solo is not None and self._next_solo(now):
            self._restart()
            self._advance(now)
            return
        lacking = all(source.dropped and source.dropped.kind is FailureKind.LACKS for source in self.sources)
        nobody = not any(source.usable for source in self.sources)
        lied = nobody and any(source.quarantined for source in self.sources)
        reason = "lacking" if lacking else "digest" if lied else "exhausted"
        self._end(act.Fail(reason, self._causes(), expected=self._wrong[0], actual=self._wrong[1]))
        self._advance(now)

    def _allowed(self) -> list[SourceState]:
        """The sources that may be asked, now or later."""
        if self._solo is not None:
            solo = self.sources[self._solo]
            return [solo] if solo.usable and solo.failures_in_a_row < self._policy.solo_failures else []
        if self._bound is not None:
            return [self.sources[self._bound]]
        return [source for source in self.sources if source.usable]

    def _ready(self, now: float) -> list[SourceState]:
        return [source for source in self._allowed() if source.not_before <= now]

    def _note_room(self, now: float) -> None:
        """Stop the give-up clock while others have the line."""
        self._patience.note_room(now, waits=not self.connections and self._waits_for_room(now))

    def _waits_for_room(self, now: float) -> bool:
        """Whether others' connections are all that keeps us; not where they themselves get no answer."""
        hosts = [self._budget.host(source.host) for source in self._ready(now)]
        return any(host.not_before <= now and (host.reached or not host.active) for host in hosts)

    def _lease(self, now: float) -> None:
        while not self._budget.exhausted:
            ready = [source for source in self._ready(now) if self._budget.may_take(source.host, now)]
            ranged = [source for source in ready if not source.one_stream]
            if self._digest and self.size is not None and self.size >= self._policy.small_file and ranged:
                source = max(ranged, key=self._worth)
                held = [connection.lease for connection in self.connections.values()]
                speed = self._budget.host(source.host).speed
                lease = next_segment(self.done, held, self.size, speed, self._policy)
                if lease is None:
                    return
                self._open(source, lease, now)
            elif ready and not self.connections:
                source = max(ranged or ready, key=self._worth)
                alone = lone_lease(
                    self.done, self.size, self._policy, one_stream=source.one_stream, by_digest=self._digest
                )
                self._open(source, alone, now)
                return
            else:
                return

    def _worth(self, source: SourceState) -> tuple[bool, float, int, int]:
        """The ill last; faster first, an unmeasured host as the fastest, so that each is tried; the idler; in order."""
        host = self._budget.host(source.host)
        speed = math.inf if host.speed is None else host.speed
        speed = 0.0 if host.active and host.speed is None else speed
        ill = source.failures_in_a_row >= self._policy.solo_failures
        return (not ill, speed, -host.active, -self.sources.index(source))

    def _open(self, source: SourceState, lease: Lease, now: float) -> None:
        index = self.sources.index(source)
        self._budget.take(source.host)
        connection_id = self._next_connection
        self._next_connection += 1
        meter = SpeedMeter(self._policy.speed_half_life, now)
        self.connections[connection_id] = Connection(index, lease, now, now, lease.start, meter)
        if_range = self._validator if not self._digest and not lease.whole else None
        self._out.append(
            act.OpenRange(connection_id, index, lease.start, lease.end, lease.gaps, lease.whole, self.size, if_range)
        )

    def _sync_if_due(self, now: float) -> None:
        if not self._unsynced or self._syncing or not self._journaled:
            return
        if self._unsynced >= self._policy.sync_bytes or now >= self._last_sync_at + self._policy.sync_seconds:
            self._syncing = True
            self._unsynced = 0
            self._out.append(act.SyncData())

    @property
    def _journaled(self) -> bool:
        """As the store was told when it opened the file."""
        return self._stated_size is None or self._stated_size >= self._policy.journal_from

    @property
    def _resumable_bytes(self) -> int:
        """How many bytes a later run will believe."""
        bound = self._digest or (self._validator is not None and self.size is not None)
        return self.done.total if bound and self._journaled else 0

    def _silence_ends(self, connection: Connection) -> float:
        if connection.answered:
            return connection.last_byte_at + self._policy.stall_seconds
        return connection.opened_at + self._policy.first_byte_seconds

    def _give_up_at(self) -> float:
        patience = self._policy.give_up_after if self._reached else self._policy.unreached_give_up
        return self._patience.ends(patience)

    @property
    def _reached(self) -> bool:
        """Whether any source that is still of use has answered in this run."""
        return any(self._budget.host(source.host).reached for source in self.sources if source.usable)

    def _causes(self) -> tuple[tuple[int, Failure], ...]:
        return tuple((i, s.last_failure) for i, s in enumerate(self.sources) if s.last_failure is not None)

    # ------------------------------------------------------------------ small steps

    def _prepare(self) -> None:
        self.state = State.PREPARING
        self._retry_lock_at = math.inf
        self._out.append(act.Prepare(self._journaled))

    def _close(self, connection_id: int) -> None:
        self.connections[connection_id].closing = True
        self._out.append(act.CloseConnection(connection_id))

    def _restart(self) -> None:
        """Begin again from nothing, once every writer has stopped."""
        self._discarding = True

    def _discard(self) -> None:
        self._discarding = False
        self._out.append(act.DiscardPieces())
        self.done = RangeSet()
        self.resumed = self.kept = self._unsynced = 0
        self._contributors = set()
        self._bound = self._validator = None
        self.size = self._stated_size
        for source in self.sources:
            source.kept = 0

    def _end(self, fail: act.Fail) -> None:
        if self._ending is None:
            self._ending = fail

    def _fail_now(self) -> None:
        assert self._ending is not None  # noqa: S101 - for the type checker
        end = self._ending
        self.state = State.FAILED
        self._out.append(
            act.Fail(end.reason, end.causes, self._resumable_bytes, end.expected, end.actual, end.owner, end.error)
        )

    def _end_well(self, *, another: bool) -> None:
        self.state = State.DONE
        self._out.append(act.Finish(another))

    def _flush(self) -> list[act.Action]:
        out, self._out = self._out, []
        return out

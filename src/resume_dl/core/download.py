"""One file's download as a state machine: events in, actions out. ``transitions`` has its states."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.arrivals import Consequence
from resume_dl.core.causes import Causes, last_failures, unresolved, without_sources
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.file_transfer import FileTransfer
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.transitions import FINAL, State, Trigger, next_state
from resume_dl.core.verification.repair import Ruling
from resume_dl.errors import required

_OF_THE_LINE = frozenset({FailureKind.UNREACHABLE, FailureKind.BROKEN, FailureKind.STALLED})
_AT_WORK = frozenset({State.TRANSFERRING, State.COMPARING})


class Download(FileTransfer):
    """The download of one artifact; arguments as for ``FileTransfer``. Input: only ``start``, ``handle``, ``fill``."""

    lock_owner = ""
    _state = State.QUEUED
    _retry_lock_at = math.inf
    _digests = ("", "")
    _ending: act.Fail | None = None
    _discarding = False
    _now = 0.0

    @property
    def state(self) -> State:
        """Where it stands."""
        return self._state

    @property
    def over(self) -> bool:
        """Whether the download has ended, well or not."""
        return self._state in FINAL

    @property
    def wants_room(self) -> bool:
        """Whether it has, or may soon want, connections."""
        return self._state in _AT_WORK or self._state is State.PREPARING

    # ------------------------------------------------------------------ the way in

    def start(self, now: float) -> list[act.Action]:
        """The session lets this download begin."""
        self._now = now
        self._give_up.begin(now)
        self._prepare(Trigger.STARTED)
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
            self._end_well(Trigger.FOUND_PUBLISHED)
        elif isinstance(event, ev.DataSynced):
            self._out.append(self._checkpointing.synced(event.mark, now))
        elif isinstance(event, ev.DigestAdvanced):
            self._on_digest_advanced(event, now)
        elif isinstance(event, ev.DigestChecked):
            self._on_digest(event, now)
        elif isinstance(event, ev.DamageLocated):
            self._on_located(event, now)
        elif isinstance(event, ev.Published):
            self._end_well(Trigger.PUBLISHED)
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
        if self._state in _AT_WORK:
            self._now = now
            self._advance(now, help_out=help_out)
        return self._flush()

    def next_deadline(self) -> float:
        """When TimerFired is due if nothing else happens; infinity if another event must come first."""
        if self._state is State.LOCKED:
            return self._retry_lock_at
        if self._state is State.TRANSFERRING and self._draining:
            return min(self._inflight.farewells(), default=math.inf) if self._ending is None else math.inf
        if self._state not in _AT_WORK or self._ending is not None:
            return math.inf
        times = [self._give_up.deadline(), *self._inflight.deadlines(self._now), self._checkpointing.sync_deadline()]
        for source in self._allowed():
            ready_at = max(source.not_before, self._budget.host(source.host).not_before)
            if ready_at > self._now:  # what was ready by then has been considered already
                times.append(ready_at)
        return min(times)

    # ------------------------------------------------------------------ the store, the clock

    def _on_prepared(self, event: ev.Prepared, now: float) -> None:
        self._move(Trigger.PREPARED)
        self._checkpointing.begin(now)
        self._give_up.begin(now)
        self._out += self._resume(event, now)

    def _on_lock_busy(self, event: ev.LockBusy, now: float) -> None:
        self.lock_owner = event.owner
        self._move(Trigger.LOCK_BUSY)
        self._retry_lock_at = now + self._policy.lock_retry
        if not self._policy.wait_for_lock:
            self._end(act.Fail("locked", owner=event.owner))

    def _on_local_failure(self, event: ev.LocalFailed) -> None:
        if event.sync:
            self._checkpointing.syncing = False
        if event.digest:
            self._checkpointing.digesting = False
        if self._state is State.PUBLISHING and not event.publish:
            return  # a late record of a journal that is about to go: only how publishing ends decides
        self._move(Trigger.STORE_FAILED)
        self._end(act.Fail("local", error=event.error))

    def _on_awoke(self, event: ev.Awoke, now: float) -> None:
        """Handle a sleep: restart the give-up timer, and check whether open connections are alive."""
        self._give_up.begin(now, self.done.total)
        if event.seconds >= self._policy.stall_seconds:
            self._inflight.doubt(now)

    def _on_timer(self, now: float) -> None:
        if self._state is State.LOCKED and now >= self._retry_lock_at:
            self._prepare(Trigger.LOCK_RETRIED)
        if self._state not in _AT_WORK:
            return
        self._note_room(now)
        self._out += self._inflight.close_silent(now)
        if now >= self._give_up.deadline():
            self._give_up.passed()
            if self._give_up.no_network:
                self._end(act.Fail("no network", unresolved(self.sources, self._budget.network)))
            else:
                self._end(act.Fail("exhausted" if self._give_up.reached else "unreachable", self._account_of_all(now)))

    # ------------------------------------------------------------------ connections

    def _on_connection(self, event: ev.OfAConnection, now: float) -> None:
        one = self.connections.get(event.connection)
        if one is None:
            return
        if isinstance(event, ev.ConnectionClosed):
            self._on_closed(one, event, now)
        elif one.closing:
            return  # invariant 3; ConnectionClosed carries the last count
        elif isinstance(event, ev.BytesWritten):
            self._arrivals.written(one, event.position, event.received, now)
        elif isinstance(event, ev.ResponseStarted):
            self._out += self._arrivals.response(one, event, now)
        elif isinstance(event, ev.LeaseShortened):
            one.spent = one.shorten_to is not None and event.end > one.shorten_to
            one.shorten_to = None
            one.lease = one.lease.until(event.end)
        elif isinstance(event, ev.RangeCompared):
            self._arrivals.count(one, event.received, now)
            if self._repair.compared(one, event.position, event.differing, last=False):
                self._give_up.begin(now, self.done.total)
        else:
            self._arrivals.count(one, event.received, now)
            one.held = isinstance(event, ev.RangeHeld)
        self._out += self._inflight.settle_duplicates(self.done)

    def _on_closed(self, one: Connection, event: ev.ConnectionClosed, now: float) -> None:
        doubted = one.doubted_at is not None  # before its last bytes are counted, which it may have had for long
        self._inflight.remove(event.connection, event.received, now)
        if event.size is not None and self.size is None:
            self._out += self._arrivals.fix_size(event.size, one.source)
        if one.mode is act.Mode.COMPARE:
            self._arrivals.count(one, event.received, now)
            if one.position < one.end(self.size):  # else its last report was the end
                self._repair.compared(one, one.position, (), last=True)
        else:
            self._arrivals.written(one, event.position, event.received, now)
        failure = event.failure
        if one.stalled:
            failure = Failure(FailureKind.STALLED, f"no byte for {round(now - one.last_byte_at)} s")
        elif one.slow:
            failure = Failure(FailureKind.SLOW, "has become slow")
        if failure is not None and not (doubted and failure.kind in _OF_THE_LINE):
            self._take(self._arrivals.failed(event.connection, one, failure, now))
        elif not self.complete and self._ending is None:
            self._take(self._arrivals.lost(one.source))

    def _take(self, consequence: Consequence) -> None:
        self._out += consequence.notes
        if consequence.fail is not None:
            self._end(consequence.fail)
        if consequence.restart:
            self._discarding = True

    # ------------------------------------------------------------------ the digest

    def _on_digest_advanced(self, event: ev.DigestAdvanced, now: float) -> None:
        self._checkpointing.digesting = False
        self._checkpointing.digest_stands_at(event.position)
        if event.damaged:
            if self._state is State.VERIFYING:
                self._move(Trigger.DAMAGED_ON_DISK)
            self._forget(event.damaged, now)
        elif self._state is State.VERIFYING and self._ending is not None:
            self._move(Trigger.STOPPED)  # the check was cut short

    def _on_digest(self, event: ev.DigestChecked, now: float) -> None:
        self._checkpointing.digesting = False
        if self._state is not State.VERIFYING:
            return  # something on this machine has failed meanwhile
        if event.matches:
            self._publish(Trigger.DIGEST_MATCHED)
            return
        self._digests = (event.expected, event.actual)
        if self._ending is not None:
            self._move(Trigger.STOPPED)
        else:
            self._follow(self._repair.mismatched(event.actual, self.size or 0), now)

    def _on_located(self, event: ev.DamageLocated, now: float) -> None:
        self._checkpointing.digesting = False
        if self._state is State.LOCATING:
            self._repair.begin(event.suspects, self.size or 0)
            self._follow(Ruling(further=True), now)

    def _compare(self, now: float) -> None:
        """Go on comparing, or act on what has been found out."""
        if self._ending is None:
            self._out += self._repair.compare(self.size or 0, now)
            if not self._repair.is_decided:
                self._out += self._checkpointing.sync_if_due(now)
                return
        self._out += self._inflight.close_all()
        if self.connections or self._checkpointing.syncing:
            return
        if self._ending is None:
            self._follow(self._repair.rule(self.size or 0), now)
        else:
            self._move(Trigger.STOPPED)
        self._advance(now)

    def _follow(self, ruling: Ruling, now: float) -> None:
        """Carry out what ``verification`` has decided."""
        self._out += ruling.notes
        if ruling.locate:
            self._move(Trigger.DIGEST_WRONG)
            self._out.append(self._checkpointing.locate_damage())
            return
        self._move(Trigger.COMPARE if ruling.further else Trigger.RULED)
        if ruling.restart or RangeSet(ruling.forget).covers(0, self.size or 0):
            self._discarding = True
        elif ruling.forget:
            self._forget(ruling.forget, now)
        if ruling.further:
            self._repair.start_vote(self.size or 0)
        if ruling.reason:
            self._end_for(ruling.reason, () if ruling.agreeing else last_failures(self.sources), ruling.agreeing)
        self._give_up.begin(now, self.done.total)

    # ------------------------------------------------------------------ decisions

    def _advance(self, now: float, *, help_out: bool = False) -> None:
        """Take the next steps after an event."""
        if self._state is State.COMPARING:
            self._compare(now)
            return
        if self._state is not State.TRANSFERRING:
            if self._ending is not None and self._state in {State.QUEUED, State.LOCKED}:
                self._fail_now()
            return
        if self._draining and not self._is_drained(now):
            return  # invariant 7: nothing is judged, published or thrown away while a write may be under way
        if self._ending is not None:
            self._fail_now()
        elif self.complete and self._digest:
            self._move(Trigger.COMPLETED)
            self._out.append(self._checkpointing.check_digest())
        elif self.complete:
            self._publish(Trigger.COMPLETED_UNCHECKED)
        else:
            self._transfer(now, help_out=help_out)

    def _transfer(self, now: float, *, help_out: bool) -> None:
        allowed = self._allowed()
        self._out += self._checkpointing.sync_if_due(now)
        self._out += self._scheduler.fill(
            allowed, self.size, now, by_digest=self._digest, if_range=self._binding.validator, help_out=help_out
        )
        self._out += self._checkpointing.digest_if_due(self.done)  # after the requests: the line goes first
        self._note_room(now)
        if not self.connections and not allowed:
            self._no_source_left(now)

    @property
    def _draining(self) -> bool:
        """Whether every connection has to end before anything else: to fail, to begin again, or to judge the file."""
        return self._ending is not None or self._discarding or self.complete

    def _is_drained(self, now: float) -> bool:
        """Close all connections; once nothing is in progress, discard what is to be discarded and return True."""
        if self._ending is not None or self._discarding:
            self._out += self._inflight.close_all()
        else:
            self._out += self._inflight.close_finished(self.size, now)
        if self.connections or self._checkpointing.syncing or self._checkpointing.digesting:
            return False
        if self._discarding:
            self._discarding = False
            self._out.append(act.DiscardPieces())
            self._coverage.clear()
            self._checkpointing.discarded()
            self._binding.clear()
            self._arrivals.reset_size()
        return True

    def _no_source_left(self, now: float) -> None:
        if self._repair.solo is not None and self._repair.next_solo():
            self._give_up.begin(now)
            self._discarding = True
        else:
            reason = without_sources(self.sources)
            is_exhausted = reason == "exhausted"
            self._end_for(reason, self._account_of_all(now) if is_exhausted else last_failures(self.sources))
        self._advance(now)

    # ------------------------------------------------------------------ small steps

    def _move(self, trigger: Trigger) -> None:
        """Change the state; nothing else does."""
        self._state = next_state(self._state, trigger)

    def _prepare(self, trigger: Trigger) -> None:
        self._move(trigger)
        self._retry_lock_at = math.inf
        self._out.append(act.Prepare(self._journaled))

    def _publish(self, trigger: Trigger) -> None:
        self._move(trigger)
        self._out.append(act.Publish())

    def _forget(self, ranges: Iterable[tuple[int, int]], now: float) -> None:
        """Forget these bytes, so that they are fetched again."""
        gone = tuple(ranges)
        self._out.append(act.ForgetRanges(gone))
        self._coverage.forget(gone)
        self._checkpointing.forgot(min(start for start, _ in gone))
        self._give_up.begin(now, self.done.total)

    def _end(self, fail: act.Fail) -> None:
        if self._ending is None:
            self._ending = fail

    def _end_for(self, reason: str, causes: Causes, agreeing: tuple[int, ...] = ()) -> None:
        """Fail; includes the digests if the bytes have been found wrong before."""
        expected, actual = self._digests
        self._end(act.Fail(reason, causes, expected=expected, actual=actual, agreeing=agreeing))

    def _fail_now(self) -> None:
        self._move(Trigger.ENDED)
        self._out.append(replace(required(self._ending, "ending"), resumable_bytes=self.resumable_bytes))

    def _end_well(self, trigger: Trigger) -> None:
        self._move(trigger)
        self._out.append(act.Finish(another=trigger is Trigger.FOUND_PUBLISHED))

    def _flush(self) -> list[act.Action]:
        out, self._out = self._out, []
        return out

"""What connections report: bytes into the coverage, answers and failures into the state of sources and hosts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from resume_dl.core.actions import Action, Fail, FixSize, Mode, NoteFailure
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.checkpointing import Checkpointing
from resume_dl.core.events import ResponseStarted
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.give_up_timer import GiveUpTimer
from resume_dl.core.policy import Policy
from resume_dl.core.rate import SpeedMeter
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.connections import Connections
from resume_dl.core.scheduling.leases import NO_END
from resume_dl.core.sources import OF_THE_HOST, SourceState
from resume_dl.core.version_binding import VersionBinding

_LOST = Failure(FailureKind.BROKEN, "lost")


@dataclass(frozen=True, slots=True)
class Consequence:
    """What follows from the end of a connection: ``notes``, ``fail`` the download, or ``restart`` it from nothing."""

    notes: tuple[NoteFailure, ...] = ()
    fail: Fail | None = None
    restart: bool = False


class Arrivals:
    """Counts the bytes received for one file. ``size``: None if unknown; ``stated_size``: that of a record."""

    def __init__(
        self,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        jitter: Callable[[], float],
        *,
        stated_size: int | None,
        coverage: ByteCoverage,
        connections: Connections,
        checkpointing: Checkpointing,
        give_up: GiveUpTimer,
        binding: VersionBinding,
    ) -> None:
        self.size = stated_size
        self.received = 0
        self._sources = sources
        self._budget = budget
        self._policy = policy
        self._jitter = jitter
        self._stated_size = stated_size
        self._coverage = coverage
        self._connections = connections
        self._checkpointing = checkpointing
        self._give_up = give_up
        self._binding = binding

    def response(self, one: Connection, event: ResponseStarted, now: float) -> list[Action]:
        """A head was accepted."""
        one.answered = True
        one.doubted_at = None
        one.last_byte_at = now
        one.meter = SpeedMeter(self._policy.speed_half_life, now)  # how long it took to answer is no speed
        source = self._sources[one.source]
        source.waited = now - one.opened_at
        source.gives_ranges |= event.ranges
        source.answered_by.add(event.final_host)
        self._budget.answered(one.host, event.final_host, now - one.opened_at)
        binds = self._binding.answered(one.source, event, holds_bytes=bool(self._coverage.done))
        if event.size is not None and (self.size is None or binds):  # what binds is recorded with the size
            return self.fix_size(event.size, one.source)
        return []

    def fix_size(self, size: int, source: int) -> list[Action]:
        """Take the size that this source states."""
        self.size = size
        self._coverage.forget([(size, NO_END)])
        return [FixSize(size, self._binding.validator, None if self._binding.by_digest else source)]

    def reset_size(self) -> None:
        """Nothing is on disk: keep only the size that a record states."""
        self.size = self._stated_size

    def count(self, one: Connection, received: int, now: float) -> int:
        """Take a connection's total of body bytes; return the number of new ones."""
        came = received - one.received
        self.received += came
        self._sources[one.source].received += came
        one.received = received
        if came > 0:
            self._connections.count(one, came, now)
        return came

    def written(self, one: Connection, position: int, received: int, now: float) -> None:
        """The connection's stream is written up to ``position``, if it writes."""
        came = self.count(one, received, now)
        gained = 0
        if one.mode is Mode.WRITE or (one.writing and position >= one.end(self.size)):
            gained = self._coverage.credit(one.lease.ranges(self.size), one.position, position, one.source)
        one.position = max(one.position, position)
        if gained:
            self._checkpointing.gained(gained)
            self._sources[one.source].progressed()
            self._budget.progressed(one.host)
        self._give_up.moved(now, one.host, done=self._coverage.done.total, came=came, position=position)

    def lost(self, source: int) -> Consequence:
        """Handle the end of a connection that is not its source's failure: the source is retried at once.

        A file without a digest is continued only under a validator.
        """
        return Consequence(restart=self._binding.breaks(source, _LOST, holds_bytes=bool(self._coverage.done)))

    def failed(self, number: int, one: Connection, failure: Failure, now: float) -> Consequence:
        """Connection ``number`` has ended by a failure of its source, or of this machine."""
        index = one.source
        source = self._sources[index]
        source.answered_by |= {failure.answered_by} - {""}
        if failure.kind is FailureKind.UNCHANGED:
            self._binding.unchanged(failure)
            return Consequence(fail=Fail("unchanged", ((index, failure),)))
        notes = (NoteFailure(index, failure, number),)
        if failure.kind is FailureKind.LOCAL:
            return Consequence(notes, fail=Fail("local", ((index, failure),)))
        if not self._binding.by_digest and self._is_further(index) and failure.kind not in OF_THE_HOST:
            source.alone = True  # it refuses a second connection; the bytes of the first one are still right
            return Consequence(notes)
        host = self._budget.host(source.host)
        self._budget.network.failed(source.host, failure, now)
        if failure.kind not in {FailureKind.UNREACHABLE, FailureKind.STALLED, FailureKind.FATAL}:
            host.reached = True
        rests_until = source.failed(
            failure, now, self._policy, self._jitter, whole=one.lease.whole, host_failures=host.failures_in_a_row
        )
        if failure.kind in OF_THE_HOST:
            self._budget.failed(source.host, now, rests_until=rests_until)
        holds_bytes = bool(self._coverage.done)
        is_untouched = not holds_bytes and not self._connections.live
        if is_untouched and self.size != self._stated_size and source.has_another_size:
            # the size came from another source's answer, not from a record: it may be the wrong one
            self.size = None
            source.dropped = None
        return Consequence(notes, restart=self._binding.breaks(index, failure, holds_bytes=holds_bytes))

    def _is_further(self, source: int) -> bool:
        """Whether another connection to this source is at work, and answered."""
        live = self._connections.live.values()
        return any(one.source == source and one.answered and not one.closing for one in live)

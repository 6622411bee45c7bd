"""Repair after a wrong digest: which sources are compared, which are quarantined, what is fetched again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resume_dl.core.actions import Action, Mode, NoteFailure
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.connection_scheduler import ConnectionScheduler
from resume_dl.core.scheduling.connections import Connections
from resume_dl.core.scheduling.leases import Lease
from resume_dl.core.sources import SourceState
from resume_dl.core.verification.source_vote import SourceVote
from resume_dl.core.verification.verdicts import Agreement, CorruptSources
from resume_dl.errors import required


@dataclass(frozen=True, slots=True)
class Ruling:
    """The next step: ``locate`` the damage by the format, compare ``further``, forget or ``restart``, or fail.

    ``notes``: failures of quarantined sources. ``reason``, ``agreeing``: as in ``Fail``.
    """

    notes: tuple[NoteFailure, ...] = ()
    locate: bool = False
    forget: tuple[tuple[int, int], ...] = ()
    restart: bool = False
    further: bool = False
    reason: str = ""
    agreeing: tuple[int, ...] = ()


class Repair:
    """Finds the sources that served wrong bytes: by comparing them piece by piece, then by whole copies in turn.

    ``thorough``: sources that agree against the record are compared on every byte. ``size_is_stated``: by a record,
    not by a source's answer.
    """

    def __init__(
        self,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        *,
        coverage: ByteCoverage,
        scheduler: ConnectionScheduler,
        connections: Connections,
        thorough: bool,
        size_is_stated: bool,
    ) -> None:
        self.solo: int | None = None
        """The only source in use now, whose whole copy is tried."""
        self._sources = sources
        self._budget = budget
        self._policy = policy
        self._coverage = coverage
        self._scheduler = scheduler
        self._live = connections.live
        self._thorough = thorough
        self._size_is_stated = size_is_stated
        self._vote: SourceVote | None = None
        self._suspects: RangeSet | None = None
        self._narrowed = False
        """Whether the suspects are what the format's own checksums found, and nothing else was looked at."""
        self._guess: int | None = None
        self._voters: frozenset[int] = frozenset()
        """The sources whose answers the guess depends on."""
        self._taken_back: set[int] = set()
        self._solo_tried: set[int] = set()
        self._outvoted: set[int] = set()
        """Sources that were outvoted: they may be right if most others are wrong, each in its own way."""
        self._copies: dict[str, set[int]] = {}

    def mismatched(self, actual: str, size: int) -> Ruling:
        """The complete file has digest ``actual``, which is wrong."""
        if self.solo is not None:
            return self._solo_was_wrong(self.solo, actual)
        if self._suspects is None:
            return Ruling(locate=True)
        return Ruling(tuple(self._wrong_again(size)), further=True)

    # ------------------------------------------------------------------ comparing piece by piece

    def begin(self, suspects: Sequence[tuple[int, int]] | None, size: int) -> None:
        """Start after the first wrong digest; ``suspects``: ranges that the format's own checksums find wrong."""
        self._narrowed = bool(suspects)
        self._suspects = RangeSet(suspects or [(0, size)])

    def start_vote(self, size: int) -> None:
        """Start a vote of all usable sources on the doubtful ranges."""
        self._vote = SourceVote(
            size=size,
            owners=self._coverage.owners(),
            witnesses=[i for i, source in enumerate(self._sources) if source.usable and not source.one_stream],
            suspects=self._suspects,
            block=self._policy.compare_block,
            step=self._policy.compare_step,
            budget=None if self._thorough else self._policy.dispute_bytes,
            look=self._policy.compare_look,
            ahead=self._policy.compare_ahead,
        )

    @property
    def is_decided(self) -> bool:
        """Whether the vote has a verdict to rule on."""
        return required(self._vote, "vote").verdict() is not None

    def compare(self, size: int, now: float) -> list[Action]:
        """Give comparisons to every usable source, until there is a verdict.

        A source that has never answered is skipped: it is tried when all others have failed.
        """
        vote = required(self._vote, "vote")
        out: list[Action] = []
        if vote.verdict() is not None:
            return out
        busy = {one.source for one in self._live.values()}
        waiting = False
        for index, source in enumerate(self._sources):
            failing = source.failures_in_a_row >= self._policy.solo_failures or self._keeps_silent(source)
            if not source.usable or source.one_stream or failing:
                if index not in busy:
                    vote.gave_up(index)
                continue
            while source.not_before <= now and self._budget.may_take(source.host, now):
                wanted = vote.next(index)
                if wanted is None:
                    break
                lease = Lease(wanted.start, wanted.end, ((wanted.start, wanted.end),))
                out.append(self._scheduler.ask(source, lease, now, size, mode=Mode.COMPARE))
            else:
                waiting = True
        if not self._live and not waiting:  # what is left to compare, none of them can
            for index in range(len(self._sources)):
                vote.gave_up(index)
        return out

    def compared(self, one: Connection, position: int, differing: Sequence[tuple[int, int]], *, last: bool) -> bool:
        """Take the ``position`` of a comparison; True if it continues."""
        came = position > one.position
        required(self._vote, "vote").compared(one.source, one.position, position, differing, more=not last)
        if came:
            one.position = position
            self._sources[one.source].progressed()
        return came

    def rule(self, size: int) -> Ruling:
        """Act on the verdict; all connections are closed."""
        vote, self._vote = required(self._vote, "vote"), None
        verdict = vote.verdict()
        self._suspects = vote.doubtful
        if isinstance(verdict, CorruptSources):
            notes = []
            for owner in verdict.owners:
                if owner >= 0:
                    notes.append(self._quarantine(owner, proven=verdict.proven))
                    self._outvoted |= {owner} if verdict.proven else set()
                    self._guess = None if verdict.proven else owner
                    self._voters = vote.voters
            # without ranges they were wrong only as witnesses
            return Ruling(tuple(notes), forget=verdict.ranges, further=not verdict.ranges)
        if isinstance(verdict, Agreement) and self._narrowed:
            self._widen(size)  # another build of the file, perhaps, which is right in itself
            return Ruling(further=True)
        if isinstance(verdict, Agreement):
            return Ruling(reason="record" if verdict.complete else "disputed", agreeing=verdict.sources)
        return self._without_witnesses(required(verdict, "verdict").suspects)

    def _widen(self, size: int) -> None:
        self._narrowed = False
        self._suspects = RangeSet([(0, size)])

    def _wrong_again(self, size: int) -> list[NoteFailure]:
        """The digest is wrong still: look further, or of two that contradicted each other it was the other one."""
        if self._narrowed:
            self._widen(size)
            return []
        if self._guess is None:
            return []
        notes = [
            self._quarantine(index, proven=False)
            for index, source in enumerate(self._sources)
            if source.usable and index != self._guess and index in self._voters
        ]
        if self._guess not in self._taken_back:  # once: both may be wrong
            self._taken_back.add(self._guess)
            guessed = self._sources[self._guess]
            guessed.quarantined = False
            guessed.failures.pop(FailureKind.LIED.value, None)
        self._guess = None
        return notes

    def _without_witnesses(self, suspects: tuple[tuple[int, int], ...]) -> Ruling:
        """No source can be compared: suspect the bytes of sources that are gone, then whole copies in turn."""
        here = [index for index, source in enumerate(self._sources) if source.usable]
        strange = RangeSet(self._coverage.earlier(but=here))
        doubtful = tuple(each for start, end in suspects for each in strange.within(start, end))
        if doubtful and here:
            return Ruling(forget=doubtful)
        owners = [owner for owner in self._coverage.owners() if owner >= 0]
        others = [i for i, source in enumerate(self._sources) if i not in owners and self._may_have_it(source)]
        if len(owners) > 1 or others:
            notes = (self._quarantine(owners[0]),) if len(owners) == 1 else ()
            self.next_solo()
            return Ruling(notes, restart=True)
        if not self._thorough:  # a newer record may confirm these bytes: try it before everything is discarded
            return Ruling(reason="disputed", agreeing=tuple(owners))
        if self._outvoted - self._solo_tried:  # a majority of sources that are wrong, each in its own way, is no proof
            rivals = {*owners, *here} - self._outvoted
            ruling = Ruling(tuple(self._quarantine(index) for index in rivals), restart=True)
            self.next_solo()
            return ruling
        return Ruling(forget=suspects, reason="single" if len(self._sources) == 1 else "digest")

    def _quarantine(self, index: int, *, proven: bool = True) -> NoteFailure:
        source = self._sources[index]
        source.quarantined = True
        source.last_failure = Failure(FailureKind.LIED, "gave wrong bytes")
        source.failures[FailureKind.LIED.value] += 1
        if proven:
            self._budget.host(source.host).distrusted = True
        return NoteFailure(index, source.last_failure)

    # ------------------------------------------------------------------ whole copies in turn

    def _solo_was_wrong(self, solo: int, actual: str) -> Ruling:
        """The only source's copy has digest ``actual``: another's copy had the same, or it is wrong in its own way."""
        same = self._copies.setdefault(actual, set())
        same.add(solo)
        if len(same) > 1:
            return Ruling(reason="record", agreeing=tuple(sorted(same)))
        note = self._quarantine(solo)
        return Ruling((note,), restart=True, reason="" if self.next_solo() else "digest")

    def next_solo(self) -> bool:
        """Start again with the next single source; False if none is left.

        Sources that have never answered come late, outvoted ones last.
        """
        if self.solo is not None:
            self._solo_tried.add(self.solo)
        self.solo = None
        able = [i for i, source in enumerate(self._sources) if self._may_have_it(source) or i in self._outvoted]
        for index in sorted(able, key=lambda i: (i in self._outvoted, self._keeps_silent(self._sources[i]))):
            source = self._sources[index]
            if index not in self._solo_tried:
                if index in self._outvoted:
                    self._acquit(source)
                source.dropped = None
                source.failures_in_a_row = 0
                self.solo = index
                return True
        return False

    def _acquit(self, source: SourceState) -> None:
        """Assume that it is right, until its whole copy is wrong."""
        source.quarantined = False
        source.failures.pop(FailureKind.LIED.value, None)
        self._budget.host(source.host).distrusted = False

    def _keeps_silent(self, source: SourceState) -> bool:
        return self._budget.host(source.host).keeps_silent

    def _may_have_it(self, source: SourceState) -> bool:
        """Whether it is usable, or was excluded only for a size that came with wrong bytes."""
        doubtful_size = not self._size_is_stated and source.has_another_size and not source.quarantined
        return source.usable or doubtful_size

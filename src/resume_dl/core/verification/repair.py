"""What to do about a complete file whose digest is wrong: whom to compare, whom to quarantine, what to fetch again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resume_dl.core import actions as act
from resume_dl.core.byte_coverage import ByteCoverage
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.scheduling.connection_scheduler import ConnectionScheduler
from resume_dl.core.scheduling.leases import Lease
from resume_dl.core.sources import SourceState
from resume_dl.core.verification.source_vote import Agreement, CorruptSources, SourceVote


@dataclass(frozen=True, slots=True)
class Ruling:
    """What follows: forget ranges, or ``restart`` from nothing, or ask ``further``; or fail for ``reason``."""

    forget: tuple[tuple[int, int], ...] = ()
    restart: bool = False
    further: bool = False
    reason: str = ""
    agreeing: tuple[int, ...] = ()


class Repair:
    """One file's search for who is wrong: by comparing sources piece by piece, then by whole copies in turn.

    ``thorough``: sources that agree against the record are compared on every byte. ``size_is_stated``: by a record,
    not by a source's answer. Who is found to have lied is told to ``out``.
    """

    def __init__(
        self,
        sources: Sequence[SourceState],
        budget: Budget,
        policy: Policy,
        holdings: ByteCoverage,
        crew: ConnectionScheduler,
        *,
        out: list[act.Action],
        thorough: bool,
        size_is_stated: bool,
    ) -> None:
        self.solo: int | None = None
        """The only source that is asked now: its whole copy is to be judged."""
        self._sources = sources
        self._budget = budget
        self._policy = policy
        self._coverage = holdings
        self._scheduler = crew
        self._out = out
        self._thorough = thorough
        self._size_is_stated = size_is_stated
        self._vote: SourceVote | None = None
        self._suspects: RangeSet | None = None
        self._narrowed = False
        """Whether the suspects are what the format's own checksums found, and nothing else was looked at."""
        self._guess: int | None = None
        self._voters: frozenset[int] = frozenset()
        """The sources whose answers the guess rests on."""
        self._taken_back: set[int] = set()
        self._solo_tried: set[int] = set()
        self._outvoted: set[int] = set()
        """Sources found to have lied by votes: wrong where most others lie, each in its own way."""
        self._copies: dict[str, set[int]] = {}

    @property
    def has_begun(self) -> bool:
        """Whether the digest has been wrong before."""
        return self._suspects is not None

    # ------------------------------------------------------------------ comparing piece by piece

    def begin(self, suspects: Sequence[tuple[int, int]] | None, size: int) -> None:
        """The digest is wrong for the first time; ``suspects``: where the format's own checksums say so."""
        self._narrowed = bool(suspects)
        self._suspects = RangeSet(suspects or [(0, size)])

    def inquire(self, size: int) -> None:
        """Ask all sources that can be asked about what is still doubtful."""
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

    def goes_on(self, size: int, now: float) -> bool:
        """Give comparisons to every source that may be asked; False once there is something to rule on.

        A source that has never answered is passed over: it keeps its patience for when all others are spent.
        """
        inquiry = self._vote
        assert inquiry is not None  # noqa: S101 - it was begun
        if inquiry.verdict() is not None:
            return False
        busy = {one.source for one in self._scheduler.live.values()}
        waiting = False
        for index, source in enumerate(self._sources):
            failing = source.failures_in_a_row >= self._policy.solo_failures or self._keeps_silent(source)
            if not source.usable or source.one_stream or failing:
                if index not in busy:
                    inquiry.gave_up(index)
                continue
            while source.not_before <= now and self._budget.may_take(source.host, now):
                wanted = inquiry.next(index)
                if wanted is None:
                    break
                lease = Lease(wanted.start, wanted.end, ((wanted.start, wanted.end),))
                self._scheduler.ask(source, lease, now, size, mode=act.Mode.COMPARE)
            else:
                waiting = True
        if not self._scheduler.live and not waiting:  # what is left to compare, none of them can
            for index in range(len(self._sources)):
                inquiry.gave_up(index)
        return inquiry.verdict() is None

    def compared(self, one: Connection, position: int, differing: Sequence[tuple[int, int]], *, last: bool) -> bool:
        """A comparison has come to ``position``; True if that is news."""
        came = position > one.position
        assert self._vote is not None  # noqa: S101 - it ends after the last connection
        self._vote.compared(one.source, one.position, position, differing, more=not last)
        if came:
            one.position = position
            self._sources[one.source].progressed()
        return came

    def rule(self, size: int) -> Ruling:
        """Act on what was found out; no connection is open any more."""
        inquiry, self._vote = self._vote, None
        assert inquiry is not None  # noqa: S101 - it was begun
        verdict = inquiry.verdict()
        assert verdict is not None  # noqa: S101 - it goes on until there is one
        self._suspects = inquiry.doubtful
        if isinstance(verdict, CorruptSources):
            for owner in verdict.owners:
                if owner >= 0:
                    self._quarantine(owner, proven=verdict.proven)
                    self._outvoted |= {owner} if verdict.proven else set()
                    self._guess = None if verdict.proven else owner
                    self._voters = inquiry.voters
            # without ranges they lied only as witnesses
            return Ruling(forget=verdict.ranges, further=not verdict.ranges)
        if isinstance(verdict, Agreement) and self._narrowed:
            self._widen(size)  # another build of the file, perhaps, which is right in itself
            return Ruling(further=True)
        if isinstance(verdict, Agreement):
            return Ruling(reason="record" if verdict.complete else "disputed", agreeing=verdict.sources)
        return self._nobody_to_ask(verdict.suspects)

    def _widen(self, size: int) -> None:
        self._narrowed = False
        self._suspects = RangeSet([(0, size)])

    def wrong_again(self, size: int) -> None:
        """The digest is wrong still: look further, or of two that contradicted each other it was the other one."""
        if self._narrowed:
            self._widen(size)
            return
        if self._guess is None:
            return
        for index, source in enumerate(self._sources):
            if source.usable and index != self._guess and index in self._voters:
                self._quarantine(index, proven=False)
        if self._guess not in self._taken_back:  # once: both may be wrong
            self._taken_back.add(self._guess)
            guessed = self._sources[self._guess]
            guessed.quarantined = False
            guessed.failures.pop(FailureKind.LIED.value, None)
        self._guess = None

    def _nobody_to_ask(self, suspects: tuple[tuple[int, int], ...]) -> Ruling:
        """No source can be compared with another: suspect what is of nobody who is here, then whole copies in turn."""
        here = [index for index, source in enumerate(self._sources) if source.usable]
        strange = RangeSet(self._coverage.earlier(but=here))
        doubtful = tuple(each for start, end in suspects for each in strange.within(start, end))
        if doubtful and here:
            return Ruling(forget=doubtful)
        owners = [owner for owner in self._coverage.owners() if owner >= 0]
        others = [i for i, source in enumerate(self._sources) if i not in owners and self._may_have_it(source)]
        if len(owners) > 1 or others:
            if len(owners) == 1:
                self._quarantine(owners[0])
            self.next_solo()
            return Ruling(restart=True)
        if not self._thorough:  # a newer record may know these bytes, and is asked for sooner than all is thrown away
            return Ruling(reason="disputed", agreeing=tuple(owners))
        if self._outvoted - self._solo_tried:  # a majority of sources that lie, each in its own way, is no proof
            for index in {*owners, *here} - self._outvoted:
                self._quarantine(index)
            self.next_solo()
            return Ruling(restart=True)
        return Ruling(forget=suspects, reason="single" if len(self._sources) == 1 else "digest")

    def _quarantine(self, index: int, *, proven: bool = True) -> None:
        source = self._sources[index]
        source.quarantined = True
        source.last_failure = Failure(FailureKind.LIED, "gave wrong bytes")
        source.failures[FailureKind.LIED.value] += 1
        if proven:
            self._budget.host(source.host).distrusted = True
        self._out.append(act.NoteFailure(index, source.last_failure))

    # ------------------------------------------------------------------ whole copies in turn

    def solo_was_wrong(self, actual: str) -> Ruling:
        """The only source's copy has digest ``actual``: another's copy had the same, or it lies in its own way."""
        assert self.solo is not None  # noqa: S101 - the caller knows
        same = self._copies.setdefault(actual, set())
        same.add(self.solo)
        if len(same) > 1:
            return Ruling(reason="record", agreeing=tuple(sorted(same)))
        self._quarantine(self.solo)
        return Ruling(restart=True, reason="" if self.next_solo() else "digest")

    def next_solo(self) -> bool:
        """Let the next single source have the file to itself, with a clean sheet; False where none is left.

        Those that have never answered come late, and those that votes were against come last.
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
        """Believe that it has not lied, until its whole copy is wrong."""
        source.quarantined = False
        source.failures.pop(FailureKind.LIED.value, None)
        self._budget.host(source.host).distrusted = False

    def _keeps_silent(self, source: SourceState) -> bool:
        return self._budget.host(source.host).keeps_silent

    def _may_have_it(self, source: SourceState) -> bool:
        """Whether it is of use, or was dropped only for not having a size that came with wrong bytes."""
        doubtful_size = not self._size_is_stated and source.has_another_size and not source.quarantined
        return source.usable or doubtful_size

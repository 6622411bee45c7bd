"""Identify the sources that served corrupt data: pieces are compared with other sources until two disagree.

The only fact known of an answer is whether it equals the disk. ``X by Y`` (a piece from X, compared by Y) tests both:
equal means right, unless both have the same wrong bytes; different means that one of them is wrong. Then the other
witnesses vote on that block, until the rest cannot change the result: the disk is right if another source agrees with
it and at least as many are for it (including its owner) as against it.

Order and bound. Comparing the bytes of the wrong source costs nothing: they would be fetched again anyway, and those
found right are kept. The cost is the comparison of others. With a wrong byte in every d bytes, pairs in turn
(``_pairs``) need d bytes each, in one stretch: of three sources the first owner costs 0 if it is wrong, its witness at
most d, the third d. All in turns would cost up to 2d, as they cover twice as many stretches. d is not known: one block
each first, for sources that are always wrong, then ``look`` steps each, then turns of all at once: d(n - 1)/2 for n
sources on average. Three equal ones, d = 8 MiB, 200 MB: all re-fetched bytes are 1.1 times the wrong source's share on
average, at most 1.15 in nine runs of ten; rarely more, up to 1.3 if pieces are short, up to 1.6 if wrong bytes are
random in each d bytes. A single wrong byte costs one comparison of the whole file.

Two sources alone cannot be distinguished by votes. The one with less left to compare is then the suspect: all of its
bytes are compared and differences are blamed on it, as a guess (``proven`` False). If the digest is still wrong, so was
the guess: restore the suspect, exclude the others, vote again. Both together compare the file once.

Guarantees, if no two wrong sources agree on a block, all can be asked and no budget is set:
(1) With h right and k wrong witnesses, h >= 2 and h >= k, every verdict is proven, no right source is ever blamed, and
'vote, quarantine, forget, fetch from the rest' ends with the right file.
(2) With one right and one wrong witness it does so after at most one reversed guess.
A vote ends, as each byte is compared once and each source votes once on a block (the caller calls ``gave_up`` for
those that do not answer). A chain of votes ends, as each verdict removes a witness, or gives a witness the bytes of a
source that is not a witness. Each continues with the ``doubtful`` bytes of the one before as its ``suspects``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from resume_dl.core.policy import DEFAULTS
from resume_dl.core.ranges import RangeSet
from resume_dl.core.verification.verdicts import Agreement, Comparison, CorruptSources, Unknown, Verdict

UNKNOWN_OWNER = -(1 << 62)
"""The owner of bytes whose source is not known."""


@dataclass(slots=True)
class _Dispute:
    """A block of ``owner`` that a witness found different, and the witnesses' votes on it."""

    owner: int
    start: int
    end: int
    against: set[int]
    agreeing: set[int] = field(default_factory=set)


@dataclass(slots=True)
class _Handed:
    """A comparison under way; ``start`` moves on with its reports. ``dispute``: the block it is a vote on."""

    source: int
    owner: int
    start: int
    end: int
    dispute: _Dispute | None = None


class SourceVote:
    """One vote, up to its first verdict; after that there are no more comparisons, and reports are ignored.

    ``owners``: the ranges that each source delivered, by its index, below 0 for sources that this run does not have.
    ``witnesses``: the sources that can be asked. ``suspects``: only these ranges matter (None: all). In bytes:
    ``block``, the unit of a vote; ``step``, the longest comparison; ``budget``, compared without a contradiction before
    Agreement (None: all). ``look``, ``ahead``: as in ``Policy``.
    """

    def __init__(
        self,
        *,
        size: int,
        owners: Mapping[int, RangeSet],
        witnesses: Iterable[int],
        suspects: RangeSet | None,
        block: int,
        step: int,
        budget: int | None,
        look: int = DEFAULTS.compare_look,
        ahead: int = DEFAULTS.compare_ahead,
    ) -> None:
        self._suspects = RangeSet([(0, size)]) if suspects is None else suspects.copy()
        unowned = self._suspects.copy()
        self._owned: dict[int, RangeSet] = {}
        for owner in sorted(owners):
            mine = RangeSet(part for piece in owners[owner] for part in self._suspects.within(*piece))
            for piece in mine:
                unowned.remove(*piece)
            self._owned[owner] = mine
        for piece in unowned:
            self._owned.setdefault(UNKNOWN_OWNER, RangeSet()).add(*piece)
        self._todo = {owner: mine.copy() for owner, mine in self._owned.items() if mine}
        self._given = dict.fromkeys(self._todo, 0)
        self._alive = set(witnesses)
        self._block, self._step, self._budget = block, step, budget
        self._look, self._ahead = look, ahead
        self._matched: dict[tuple[int, int], RangeSet] = {}
        self._handed: list[_Handed] = []
        self._disputes: list[_Dispute] = []
        self._compared = 0
        self._pairs = self._plan()
        self._verdict = self._judge()

    def verdict(self) -> Verdict | None:
        """The verdict; None while the vote continues."""
        return self._verdict

    @property
    def voters(self) -> frozenset[int]:
        """The sources that delivered bytes or can still be asked; those that gave up are not among them."""
        return frozenset(self._owned) | frozenset(self._alive)

    @property
    def doubtful(self) -> RangeSet:
        """The suspect bytes that no second source, not proven corrupt, has confirmed: suspects of a further vote."""
        found = self._verdict
        corrupt = found.owners if isinstance(found, CorruptSources) and found.proven else ()
        return self._unconfirmed(self._suspects, corrupt)

    def next(self, source: int) -> Comparison | None:
        """The next comparison for this idle source; None until another report arrives."""
        if self._verdict is not None or source not in self._alive:
            return None
        handed = self._settle(source) if self._disputes else self._explore(source)
        if handed is None:
            return None
        self._handed.append(handed)
        return Comparison(source, handed.start, handed.end)

    def compared(
        self, source: int, start: int, end: int, differing: Iterable[tuple[int, int]], *, more: bool = False
    ) -> None:
        """Take a report: ``[start, end)`` was compared, and differs from the disk in the blocks ``differing``.

        ``start`` is where the comparison began or its last report ended. ``more``: it continues beyond ``end``;
        otherwise this was its last report (perhaps empty), and its rest is assigned again. Reports of unknown
        comparisons are ignored.
        """
        handed = next((h for h in self._handed if (h.source, h.start) == (source, start)), None)
        if handed is None or self._verdict is not None:
            return
        end = max(start, min(end, handed.end))
        wrong = RangeSet(differing).within(start, end)
        if handed.dispute is None:
            self._explored(handed, end, wrong)
        elif wrong:
            handed.dispute.against.add(source)
        elif end == handed.end and source not in handed.dispute.against:
            handed.dispute.agreeing.add(source)
        handed.start = end
        if not more or end == handed.end:
            self._release(handed)
        self._verdict = self._judge()

    def gave_up(self, source: int) -> None:
        """Remove a witness that does not answer; its open comparison is assigned again, its earlier reports count."""
        self._alive.discard(source)
        for handed in [h for h in self._handed if h.source == source]:
            self._release(handed)
        self._verdict = self._verdict or self._judge()

    def _release(self, handed: _Handed) -> None:
        self._handed.remove(handed)
        if handed.dispute is None:
            self._todo[handed.owner].add(handed.start, handed.end)
            self._given[handed.owner] -= handed.end - handed.start

    def _explored(self, handed: _Handed, end: int, wrong: list[tuple[int, int]]) -> None:
        self._compared += end - handed.start
        matched = self._matched.setdefault((handed.owner, handed.source), RangeSet())
        matched.add(handed.start, end)
        for start, stop in wrong:
            matched.remove(start, stop)
            for at in range(start, stop, self._block):
                self._disputes.append(_Dispute(handed.owner, at, min(stop, at + self._block), {handed.source}))

    def _plan(self) -> list[tuple[int, int]]:
        """Pairs (owner, witness) that test every owner once, the owners of the fewest bytes first."""
        pairs, untested = [], sorted(self._todo, key=lambda owner: (self._todo[owner].total, owner))
        while untested:
            owner = untested.pop(0)
            able = [x for x in untested + sorted(self._alive - {owner}) if x in self._alive]
            if able:
                pairs.append((owner, able[0]))
                untested = [x for x in untested if x != able[0]]
        return pairs

    def _explore(self, source: int) -> _Handed | None:
        """A piece for the first pair that has not looked far enough; later, of the owner that was compared least."""
        under_way = sum(h.end - h.start for h in self._handed)
        if any(h.source == source for h in self._handed) and under_way * self._ahead > self._compared:
            return None  # so that a find wastes little
        most = self._step if self._budget is None else min(self._step, self._budget - self._compared - under_way)
        if most <= 0:
            return None
        for upto in (self._block, self._step * self._look):
            for owner, witness in self._pairs:
                left = upto - self._given[owner]
                if left > 0 and self._todo[owner] and witness in self._alive:
                    alone = source == witness and all(h.source == source for h in self._handed)
                    return self._take(source, owner, min(most, left)) if alone else None
        others = [owner for owner, todo in self._todo.items() if owner != source and todo]
        if not others:
            return None
        return self._take(source, min(others, key=lambda owner: (self._given[owner], owner)), most)

    def _take(self, source: int, owner: int, most: int) -> _Handed:
        start, end = next(iter(self._todo[owner]))
        end = min(end, start + most)
        self._todo[owner].remove(start, end)
        self._given[owner] += end - start
        return _Handed(source, owner, start, end)

    def _settle(self, source: int) -> _Handed | None:
        """A vote on the first dispute that votes can settle, one at a time; else the next piece of the suspect."""
        dispute = next((d for d in self._disputes if self._silent(d)), None)
        if dispute is not None:
            if source not in self._silent(dispute) or any(h.dispute is dispute for h in self._handed):
                return None
            return _Handed(source, dispute.owner, dispute.start, dispute.end, dispute)
        suspect = self._suspect()
        if suspect is None or suspect == source or not self._todo[suspect]:
            return None
        return self._take(source, suspect, self._step)

    def _silent(self, dispute: _Dispute) -> set[int]:
        return self._alive - dispute.against - dispute.agreeing - {dispute.owner}

    def _suspect(self) -> int | None:
        """Of two sources that contradict each other, the cheaper one whose bytes can be wrong; None if neither can."""
        pair = [self._disputes[0].owner, *self._disputes[0].against]
        able = [x for x in pair if x in self._todo and self._unconfirmed(self._owned[x]) and self._alive - {x}]
        return min(able, key=lambda x: (self._todo[x].total, x), default=None)

    def _unconfirmed(self, ranges: RangeSet, but: Iterable[int] = ()) -> RangeSet:
        """What of ``ranges`` no second source found equal, not counting sources in ``but``."""
        left = ranges.copy()
        for (_, witness), matched in self._matched.items():
            for piece in matched if witness not in but else ():
                left.remove(*piece)
        return left

    def _blame(self, corrupt: set[int], *, proven: bool) -> CorruptSources:
        wrong = RangeSet(p for x in corrupt for p in self._unconfirmed(self._owned.get(x, RangeSet()), corrupt))
        return CorruptSources(tuple(sorted(corrupt)), tuple(wrong), proven)

    def _judge(self) -> Verdict | None:
        for dispute in self._disputes:
            with_disk, against, silent = 1 + len(dispute.agreeing), len(dispute.against), len(self._silent(dispute))
            if dispute.agreeing and with_disk >= against + silent:
                for witness in dispute.agreeing:
                    self._matched.setdefault((dispute.owner, witness), RangeSet()).add(dispute.start, dispute.end)
                return self._blame(dispute.against, proven=True)
            if against > with_disk + silent:
                return self._blame({dispute.owner} | dispute.agreeing, proven=True)
        return self._guess() if self._disputes else self._agree()

    def _guess(self) -> Verdict | None:
        if any(self._silent(d) for d in self._disputes):
            return None
        suspect = self._suspect()
        if suspect is None:
            return Unknown(tuple(self._unconfirmed(self._suspects)))
        under_way = any(h.owner == suspect for h in self._handed)
        right = sum(m.total for (owner, _), m in self._matched.items() if owner == suspect)
        wrong = sum(d.end - d.start for d in self._disputes if d.owner == suspect)
        if wrong > right + self._step or not (self._todo[suspect] or under_way):
            return self._blame({suspect}, proven=False)
        return None

    def _agree(self) -> Verdict | None:
        if self._handed:
            return None
        left = [owner for owner, todo in self._todo.items() if todo]
        if not left or (self._budget is not None and self._compared >= self._budget):
            told = {source for pair, matched in self._matched.items() if matched for source in pair if source >= 0}
            return Agreement(tuple(sorted(told)), complete=not left)
        if any(self._alive - {owner} for owner in left):
            return None
        return Unknown(tuple(self._unconfirmed(self._suspects)))

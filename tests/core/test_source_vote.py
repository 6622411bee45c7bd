"""Who lied: inquiries against worlds with liars of every kind, and what a conviction costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from statistics import mean

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from resume_dl.core.ranges import RangeSet
from resume_dl.core.verification.source_vote import (
    UNKNOWN_OWNER,
    Agreement,
    Comparison,
    CorruptSources,
    SourceVote,
    Unknown,
    Verdict,
)

KIB, MIB = 1 << 10, 1 << 20
BLOCK, STEP = 128 * KIB, MIB
EVERY = 8 * MIB
SHORT, LONG = (2 * MIB, 16 * MIB), (8 * MIB, 40 * MIB)


@dataclass
class World:
    """A file on disk and those who lie about it; two liars never tell the same lie, the truth is everything else."""

    size: int
    block: int = BLOCK
    step: int = STEP
    lies: dict[int, list[int]] = field(default_factory=dict)
    """Offsets at which a source answers with wrong bytes, sorted; others never do."""
    owned: dict[int, RangeSet] = field(default_factory=dict)
    disk: dict[int, list[int]] = field(default_factory=dict)
    """Offsets at which the disk has a lie of that owner, sorted."""
    same: bool = False
    """Whether all liars tell the same lie at an offset, instead of each its own."""
    fetched: int = 0

    def write(self, source: int, ranges: Iterable[tuple[int, int]]) -> None:
        """What ``source`` says comes to the disk, over whatever was there."""
        for start, end in ranges:
            for owner, mine in self.owned.items():
                mine.remove(start, end)
                self.disk[owner] = [at for at in self.disk[owner] if not start <= at < end]
            self.owned.setdefault(source, RangeSet()).add(start, end)
            told = within(self.lies.get(source, []), start, end)
            self.disk[source] = sorted(self.disk.get(source, []) + told)

    def wrong(self) -> bool:
        """Whether the digest would not match."""
        return any(self.disk.values())

    def compare(self, asked: Comparison) -> list[tuple[int, int]]:
        """The blocks in which the answer is not what is on disk, as nobody is asked for what it brought itself."""
        told = set(within(self.lies.get(asked.source, []), asked.start, asked.end))
        there = {at for lies in self.disk.values() for at in within(lies, asked.start, asked.end)}
        found = there ^ told if self.same else there | told
        blocks = {asked.start + (at - asked.start) // self.block * self.block for at in found}
        return [(at, min(asked.end, at + self.block)) for at in sorted(blocks)]

    def vote(self, witnesses: Iterable[int], suspects: RangeSet | None = None, budget: int | None = None) -> SourceVote:
        return SourceVote(
            size=self.size,
            owners=self.owned,
            witnesses=witnesses,
            suspects=suspects,
            block=self.block,
            step=self.step,
            budget=budget,
        )

    def ask(
        self, vote: SourceVote, witnesses: Iterable[int], rng: Random, breaks: float = 0.0, leaves: float = 0.0
    ) -> Verdict:
        """Keep all witnesses at work, answer them in any order, some in part, and some leave; until the verdict."""
        under_way: list[Comparison] = []
        while (verdict := vote.verdict()) is None:
            for source in sorted(witnesses):
                asked = vote.next(source)
                if asked is not None:
                    self.check(asked, under_way)
                    self.fetched += asked.end - asked.start
                    under_way.append(asked)
            assert under_way, "a vote without a verdict has something under way"
            if rng.random() < leaves:
                gone = rng.choice(sorted(witnesses))
                vote.gave_up(gone)
                under_way = [asked for asked in under_way if asked.source != gone]
                continue
            asked = under_way.pop(rng.randrange(len(under_way)))
            start, end, more = asked.start, asked.end, False
            if rng.random() < breaks:
                end, more = rng.randrange(start, end), rng.random() < 0.5
                if more:
                    under_way.append(Comparison(asked.source, end, asked.end))
            differing = self.compare(Comparison(asked.source, start, end))
            vote.compared(asked.source, start, end, differing, more=more)
        assert all(vote.next(source) is None for source in witnesses)
        return verdict

    def check(self, asked: Comparison, under_way: list[Comparison]) -> None:
        """No source is asked for what it brought, nothing is asked for twice at once, nor more than a step."""
        assert 0 < asked.end - asked.start <= self.step
        assert not self.owned.get(asked.source, RangeSet()).overlaps(asked.start, asked.end)
        assert all(asked.end <= other.start or other.end <= asked.start for other in under_way)

    def repair(self, usable: Iterable[int], rng: Random, breaks: float = 0.0, leaves: float = 0.0) -> list[Verdict]:
        """What a download does after a wrong digest: all verdicts until the file is right or nobody is left."""
        witnesses, guessed, suspects, found = set(usable), set[int](), None, list[Verdict]()
        while True:
            vote = self.vote(witnesses, suspects)
            found.append(self.ask(vote, witnesses, rng, breaks, leaves))
            suspects = vote.doubtful
            if isinstance(found[-1], CorruptSources):
                blamed = witnesses & set(found[-1].owners)
                assert blamed or found[-1].ranges, "each verdict changes something"
                witnesses -= blamed
                if not found[-1].proven:
                    guessed |= blamed
                if not witnesses:
                    return found
                for start, end in found[-1].ranges:
                    self.write(rng.choice(sorted(witnesses)), [(start, end)])
                if not self.wrong():
                    return found
            elif guessed:
                witnesses, guessed = guessed, set()
            else:
                return found


def within(offsets: list[int], start: int, end: int) -> list[int]:
    return offsets[bisect_left(offsets, start) : bisect_left(offsets, end)]


def cost(seed: int, size: int, kind: str, lease: tuple[int, int], sources: int = 3) -> float:
    """All re-fetched bytes by what the liar had delivered; whoever has the least takes the next lease, about."""
    rng = Random(seed)
    liar = rng.randrange(sources)
    world = World(size)
    shares = dict.fromkeys(range(sources), 0)
    at = 0
    while at < size:
        end = min(size, at + rng.randrange(*lease))
        owner = min(shares, key=lambda source: shares[source] + rng.randrange(lease[1]))
        world.write(owner, [(at, end)])
        shares[owner] += end - at
        at = end
    even = list(range(rng.randrange(EVERY), size, EVERY))
    if kind == "even":  # at the same place of every 8 MiB of the file
        lies = even
    elif kind == "window":  # anywhere in each 8 MiB of the file
        lies = [at + rng.randrange(EVERY) for at in range(0, size - EVERY, EVERY)]
    else:  # "stream": at the same place of every 8 MiB of what it delivered
        mine, passed, due = [], 0, rng.randrange(EVERY)
        for start, end in world.owned[liar]:
            mine += range(start + due - passed, end, EVERY)
            due += len(range(due - passed, end - start, EVERY)) * EVERY
            passed += end - start
        lies = sorted(mine + [at for at in even if not world.owned[liar].overlaps(at, at + 1)])
    world.lies[liar] = lies
    world.disk[liar] = [at for start, end in world.owned[liar] for at in within(lies, start, end)]
    verdict = world.ask(world.vote(range(sources)), range(sources), rng)
    assert isinstance(verdict, CorruptSources)
    assert (verdict.owners, verdict.proven) == ((liar,), True)
    world.write((liar + 1) % sources, verdict.ranges)
    assert not world.wrong()
    return (world.fetched + sum(end - start for start, end in verdict.ranges)) / shares[liar]


@pytest.mark.parametrize(
    ("size", "kind", "lease", "bounds"),
    [
        (200_000_000, "even", LONG, (1.09, 1.15, 1.15)),
        (200_000_000, "stream", LONG, (1.09, 1.15, 1.15)),
        (200_000_000, "window", LONG, (1.10, 1.15, 1.60)),
        (200_000_000, "even", SHORT, (1.10, 1.15, 1.40)),
        (200_000_000, "stream", SHORT, (1.10, 1.15, 1.40)),
        (200_000_000, "window", SHORT, (1.12, 1.20, 1.60)),
        (600_000_000, "even", LONG, (1.03, 1.05, 1.05)),
        (600_000_000, "stream", LONG, (1.03, 1.05, 1.05)),
        (600_000_000, "window", LONG, (1.04, 1.06, 1.20)),
        (600_000_000, "even", SHORT, (1.04, 1.06, 1.20)),
        (600_000_000, "stream", SHORT, (1.04, 1.06, 1.20)),
        (600_000_000, "window", SHORT, (1.04, 1.06, 1.20)),
    ],
)
def test_one_wrong_source_of_three_costs_little_more_than_its_bytes(
    size: int, kind: str, lease: tuple[int, int], bounds: tuple[float, float, float]
) -> None:
    """One wrong byte in 8 MiB: all re-fetched bytes by its share, on average, of nine runs in ten, and of all 100."""
    costs = sorted(cost(seed, size, kind, lease) for seed in range(100))
    average, usually, worst = bounds
    assert mean(costs) <= average
    assert costs[89] <= usually
    assert costs[-1] <= worst


def spread(*owners: int, each: int = 10 * MIB, lies: dict[int, list[int]] | None = None, same: bool = False) -> World:
    """A file whose pieces of ``each`` bytes came from ``owners`` in this order."""
    world = World(each * len(owners), lies=lies or {}, same=same)
    for at, owner in enumerate(owners):
        world.write(owner, [(at * each, (at + 1) * each)])
    return world


def total(ranges: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in ranges)


def test_one_wrong_byte_at_the_end_costs_one_comparison_and_is_repaired() -> None:
    """The worst case compares each byte once and a block once more, and forgets what nobody else has confirmed."""
    world = spread(0, 1, 2, 0, 1, 2, each=20 * MIB, lies={2: [120 * MIB - 1]})
    verdicts = world.repair([0, 1, 2], Random(1))
    assert [(v.owners, v.proven) for v in verdicts if isinstance(v, CorruptSources)] == [((2,), True)]
    assert len(verdicts) == 1
    assert not world.wrong()
    assert 100 * MIB < world.fetched <= 120 * MIB + BLOCK


def test_a_source_that_is_always_wrong_is_found_within_blocks() -> None:
    """One block of each pair comes first, so that whole wrong files cost nothing beside themselves."""
    for liar in range(3):
        world = spread(0, 1, 2, 0, 1, 2, lies={liar: list(range(0, 60 * MIB, BLOCK))})
        verdict = world.ask(world.vote([0, 1, 2]), [0, 1, 2], Random(2))
        assert verdict == CorruptSources((liar,), tuple(world.owned[liar]))
        assert world.fetched <= 3 * BLOCK


def test_a_wrong_witness_without_bytes_is_only_quarantined() -> None:
    """Nothing is forgotten for its wrong answer, and the next vote finds the one whose bytes are wrong."""
    world = spread(0, 1, 3, 3, lies={2: list(range(0, 40 * MIB, BLOCK)), 3: [39 * MIB]})
    first, second = world.repair([0, 1, 2], Random(3))
    assert first == CorruptSources((2,), ())
    assert isinstance(second, CorruptSources)
    assert (second.owners, second.proven) == ((3,), True)
    assert not world.wrong()


def test_two_wrong_sources_of_four_are_found_one_after_the_other() -> None:
    """Also where both lie in the same blocks, each its own lie: two that agree with each other outweigh them."""
    both = list(range(MIB, 120 * MIB, 8 * MIB))
    world = spread(0, 1, 2, 3, 0, 1, 2, 3, each=15 * MIB, lies={1: both, 2: [at + 7 for at in both]})
    verdicts = world.repair(range(4), Random(4))
    assert all(isinstance(v, CorruptSources) and v.proven for v in verdicts)
    assert {owner for v in verdicts if isinstance(v, CorruptSources) for owner in v.owners} == {1, 2}
    assert not world.wrong()


def test_a_minority_with_the_same_wrong_bytes_is_outvoted() -> None:
    """Two of five with the same wrong block: who confirmed it is blamed with its owner."""
    lies = list(range(0, 50 * MIB, BLOCK))
    world = spread(0, 1, 2, 3, 4, lies={1: lies, 4: lies}, same=True)
    verdicts = world.repair(range(5), Random(5))
    assert {owner for v in verdicts if isinstance(v, CorruptSources) for owner in v.owners} == {1, 4}
    assert not world.wrong()


def test_an_owner_of_an_earlier_run_can_be_guilty() -> None:
    """Its bytes are forgotten though it cannot be asked, and nobody is quarantined."""
    world = spread(-1, 0, 1, lies={-1: [3 * MIB]})
    (verdict,) = world.repair([0, 1], Random(6))
    assert isinstance(verdict, CorruptSources)
    assert (verdict.owners, verdict.proven) == ((-1,), True)
    assert not world.wrong()


def test_bytes_of_unknown_sources_are_compared_too() -> None:
    """Ranges without an owner are UNKNOWN_OWNER's, and can be what is wrong."""
    world = spread(0, 1, 2)
    world.owned.pop(2)
    world.disk[2] = [25 * MIB]
    verdict = world.ask(world.vote([0, 1]), [0, 1], Random(7))
    assert isinstance(verdict, CorruptSources)
    assert verdict.owners == (UNKNOWN_OWNER,)
    assert any(start <= 25 * MIB < end for start, end in verdict.ranges)


def test_only_suspects_are_compared_and_forgotten() -> None:
    """Where the archive's checksums say what is wrong, the rest is neither fetched nor forgotten."""
    world = spread(0, 1, 2, lies={1: [12 * MIB, 18 * MIB]})
    suspects = RangeSet([(9 * MIB, 12 * MIB + 1), (18 * MIB, 18 * MIB + 10)])
    vote = world.vote([0, 1, 2], suspects)
    verdict = world.ask(vote, [0, 1, 2], Random(8))
    assert isinstance(verdict, CorruptSources)
    assert verdict.owners == (1,)
    assert all(suspects.covers(*piece) for piece in verdict.ranges)
    assert total(verdict.ranges) <= suspects.total
    world.write(0, verdict.ranges)
    assert not world.wrong()
    assert world.fetched <= suspects.total + 2 * BLOCK


def test_one_source_alone_proves_nothing() -> None:
    """Without a second source the verdict is there at once, and names all that is suspect."""
    world = spread(0, 0, lies={0: [5]})
    assert world.vote([0]).verdict() == Unknown(((0, 20 * MIB),))
    assert world.vote([0], RangeSet([(3, 9)])).verdict() == Unknown(((3, 9),))
    assert world.vote([]).verdict() == Unknown(((0, 20 * MIB),))
    assert world.vote([0], RangeSet()).verdict() == Agreement((), complete=True)


def test_sources_that_agree_on_every_byte_contradict_the_record() -> None:
    """Each byte was compared once, by another than its owner; an earlier run's source is not named."""
    world = spread(0, 1, -1)
    assert world.ask(world.vote([0, 1]), [0, 1], Random(9)) == Agreement((0, 1), complete=True)
    assert world.fetched == world.size
    world = spread(0, 1, 2)
    assert world.ask(world.vote([0, 1, 2]), [0, 1, 2], Random(9)) == Agreement((0, 1, 2), complete=True)


def test_a_budget_ends_a_search_without_contradiction() -> None:
    """Exactly the budget is compared, and the agreement says that it is not complete; all of the file is."""
    world = spread(0, 1, 2)
    verdict = world.ask(world.vote([0, 1, 2], budget=7 * MIB + 5), [0, 1, 2], Random(10), breaks=0.2)
    assert isinstance(verdict, Agreement)
    assert not verdict.complete
    again = spread(0, 1, 2, each=20 * MIB)
    again.ask(again.vote([0, 1, 2], budget=30 * MIB + 5), [0, 1, 2], Random(10))
    assert again.fetched == 30 * MIB + 5
    whole = spread(0, 1)
    assert whole.ask(whole.vote([0, 1], budget=20 * MIB), [0, 1], Random(10)) == Agreement((0, 1), complete=True)


def test_two_sources_are_told_apart_by_a_guess_that_can_be_taken_back() -> None:
    """The smaller share is compared whole, and only what differs is fetched anew; the other only if that was wrong."""
    world = spread(1, 0, 0, each=30 * MIB, lies={0: [20 * MIB, 75 * MIB]})
    first, *rest = world.repair([0, 1], Random(11))
    assert isinstance(first, CorruptSources)
    assert (first.owners, first.proven) == ((1,), False), "the honest one owns less"
    assert rest
    assert not world.wrong()
    assert isinstance(rest[-1], CorruptSources)
    assert rest[-1].owners == (0,)
    assert total(rest[-1].ranges) <= 4 * BLOCK
    assert world.fetched <= world.size + 8 * BLOCK


def test_one_whose_bytes_are_all_confirmed_is_no_suspect() -> None:
    """Then the other's must be wrong, though more would have to be compared."""
    world = spread(0, 1, 1, lies={1: [29 * MIB]})
    (verdict,) = world.repair([0, 1], Random(11))
    assert verdict == CorruptSources((1,), ((29 * MIB, 29 * MIB + BLOCK),), proven=False)


def test_a_suspect_that_differs_all_over_is_not_compared_to_its_end() -> None:
    """When most of it differs, all of it is forgotten at once: it would be fetched twice."""
    world = spread(0, 1, 1, each=30 * MIB, lies={0: list(range(0, 90 * MIB, BLOCK))})
    verdict = world.ask(world.vote([0, 1]), [0, 1], Random(12))
    assert verdict == CorruptSources((0,), ((0, 30 * MIB),), proven=False)
    assert world.fetched < 4 * MIB


def step_through(vote: SourceVote, source: int, differing: list[tuple[int, int]] | None = None) -> Comparison:
    """One comparison of ``source``, answered at once; ``differing`` None: nothing differs."""
    asked = vote.next(source)
    assert asked is not None
    vote.compared(source, asked.start, asked.end, differing or [])
    return asked


def test_a_witness_that_breaks_off_hands_its_comparison_back() -> None:
    """Others take over what was under way; late reports of it count no more, what it said before does."""
    vote = spread(0, 1).vote([0, 1, 2])
    asked = vote.next(1)
    assert asked is not None
    vote.gave_up(1)
    vote.compared(1, asked.start, asked.end, [(asked.start, asked.end)])
    assert vote.verdict() is None
    assert vote.next(1) is None
    pieces = RangeSet()
    while vote.verdict() is None:
        piece = step_through(vote, 2)
        pieces.add(piece.start, piece.end)
        if pieces.total > 15 * MIB:
            vote.gave_up(0)
    assert pieces == RangeSet([(0, 20 * MIB)])
    assert vote.verdict() == Agreement((0, 1, 2), complete=True)


def test_when_all_have_gone_the_rest_stays_unknown() -> None:
    """What was confirmed before is not among the suspects; what is said after the verdict changes nothing."""
    vote = spread(0, 1).vote([0, 1])
    done = step_through(vote, 1)
    late = vote.next(1)
    assert late is not None
    vote.gave_up(0)
    assert vote.verdict() is None
    vote.gave_up(1)
    verdict = vote.verdict()
    assert isinstance(verdict, Unknown)
    assert total(verdict.suspects) == 20 * MIB - (done.end - done.start)
    vote.compared(1, late.start, late.end, [])
    vote.gave_up(1)
    assert vote.verdict() is verdict


def test_two_contradicting_sources_that_leave_give_no_verdict() -> None:
    """A dispute between two that both cannot be asked any more blames nobody."""
    vote = spread(-1, 0, 0).vote([0, 1])
    asked = vote.next(0)
    assert asked == Comparison(0, 0, BLOCK)
    vote.compared(0, 0, BLOCK, [(0, BLOCK)])
    vote.gave_up(1)
    assert vote.verdict() is None
    vote.gave_up(0)
    verdict = vote.verdict()
    assert verdict == Unknown(((0, 30 * MIB),))


def test_one_vote_at_a_time_and_no_search_meanwhile() -> None:
    """A block is voted on by one after the other, so that no vote is bought that is not needed."""
    vote = spread(0, 1, 2, 3).vote([0, 1, 2, 3])
    step_through(vote, 1, [(0, BLOCK)])
    assert vote.next(0) is None
    assert vote.next(1) is None
    assert vote.next(2) == Comparison(2, 0, BLOCK)
    assert vote.next(3) is None
    vote.compared(2, 0, 10, [], more=True)
    vote.compared(2, 10, 20, [])
    assert vote.verdict() is None, "half a vote is none"
    assert vote.next(2) == Comparison(2, 0, BLOCK)
    vote.compared(2, 0, 5 * BLOCK, [(3, 4)])
    assert vote.verdict() is None, "one more can still side with the owner"
    assert vote.next(3) == Comparison(3, 0, BLOCK)
    vote.compared(3, 0, BLOCK, [])
    assert vote.verdict() == CorruptSources((1, 2), ((10 * MIB, 30 * MIB),))
    assert vote.doubtful == RangeSet([(BLOCK, 40 * MIB)])


def test_a_source_that_confirmed_a_wrong_block_is_blamed() -> None:
    """Two of five stand against three: both are out, and what the second had confirmed of others is doubtful again."""
    vote = spread(0, 1, 2, 3, 4).vote(range(5))
    step_through(vote, 1)
    assert step_through(vote, 3) == Comparison(3, 20 * MIB, 20 * MIB + BLOCK)
    step_through(vote, 0)
    disputed = step_through(vote, 1, [(0, 10 * MIB)])
    block = (disputed.start, disputed.start + BLOCK)
    for source, differing in ((0, None), (2, [block]), (3, []), (4, [block])):
        if differing is None:
            assert vote.next(source) is None, "it brought these bytes itself"
        else:
            assert step_through(vote, source, differing) == Comparison(source, *block)
    verdict = vote.verdict()
    assert verdict == CorruptSources((0, 3), ((BLOCK, 10 * MIB), (30 * MIB, 40 * MIB)))
    assert vote.doubtful.covers(20 * MIB, 30 * MIB)


def test_a_comparison_that_brought_nothing_is_asked_for_again() -> None:
    """An empty last report gives the piece back to the pair whose turn it was."""
    vote = spread(0, 1, 2).vote([0, 1, 2])
    for _ in range(2):
        assert vote.next(1) == Comparison(1, 0, BLOCK)
        vote.compared(1, 0, 0, [])


def test_what_comes_after_the_verdict_changes_nothing() -> None:
    """A comparison that goes on while others vote ends without being heard."""
    vote = spread(0, 1, 2).vote([0, 1, 2])
    step_through(vote, 1)
    step_through(vote, 0)
    asked = vote.next(1)
    assert asked == Comparison(1, BLOCK, BLOCK + STEP)
    vote.compared(1, BLOCK, 2 * BLOCK, [(BLOCK, 2 * BLOCK)], more=True)
    step_through(vote, 2, [(BLOCK, 2 * BLOCK)])
    verdict = vote.verdict()
    assert verdict == CorruptSources((0,), ((BLOCK, 10 * MIB),))
    vote.compared(1, 2 * BLOCK, asked.end, [])
    assert vote.verdict() is verdict


def test_votes_of_leaving_sources_are_not_waited_for() -> None:
    """Two against the owner decide once the third, who could have sided with it, has gone."""
    vote = spread(0, 1, 2, 3).vote([0, 1, 2, 3])
    step_through(vote, 1, [(0, BLOCK)])
    step_through(vote, 2, [(0, BLOCK)])
    vote.gave_up(3)
    verdict = vote.verdict()
    assert verdict == CorruptSources((0,), ((0, 10 * MIB),))


def test_the_same_course_gives_the_same_requests() -> None:
    """Nothing depends on chance or on the order in which owners were named."""
    first, second = spread(0, 1, 2, 0, lies={2: [25 * MIB]}), spread(0, 1, 2, 0, lies={2: [25 * MIB]})
    second.owned = dict(reversed(second.owned.items()))
    verdicts = [world.ask(world.vote({2, 0, 1}), [0, 1, 2], Random(13)) for world in (first, second)]
    assert verdicts[0] == verdicts[1]
    assert first.fetched == second.fetched


def offsets(size: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, size - 1), min_size=1, max_size=12, unique=True).map(sorted)


@st.composite
def worlds(draw: st.DrawFn, honest: range, lying: range) -> tuple[World, set[int], int, float, int]:
    """A small file, the honest ones, how many can be asked, how often comparisons break, a seed.

    Two sources of an earlier run, -1 (honest) and -2 (a liar), are there too.
    """
    size = draw(st.integers(1, 400))
    good = draw(st.sampled_from(honest))
    bad = draw(st.sampled_from(range(lying.start, min(lying.stop, good + 1))))
    roles = draw(st.permutations([True] * good + [False] * bad))
    liars = [*(source for source, role in enumerate(roles) if not role), -2]
    world = World(size, block=4, step=8, lies={liar: draw(offsets(size)) for liar in liars})
    cuts = sorted(draw(st.sets(st.integers(0, size), max_size=12)) | {0, size})
    for start, end in pairwise(cuts):
        world.write(draw(st.sampled_from([*range(len(roles)), -1, -2])), [(start, end)])
    honest_ones = {source for source, role in enumerate(roles) if role} | {-1}
    return world, honest_ones, len(roles), draw(st.sampled_from([0.0, 0.3])), draw(st.integers(0, 1 << 16))


@given(worlds(range(2, 5), range(5)))
def test_two_right_sources_and_no_more_wrong_ones_end_with_the_right_file(
    case: tuple[World, set[int], int, float, int],
) -> None:
    """Each verdict is proven, no honest source is ever blamed, and the file is right at the end."""
    world, honest, sources, breaks, seed = case
    was_wrong = world.wrong()
    verdicts = world.repair(range(sources), Random(seed), breaks)
    event(f"{len(verdicts)} verdicts")
    for verdict in verdicts:
        if isinstance(verdict, CorruptSources):
            assert verdict.proven
            assert not honest & set(verdict.owners)
        else:
            assert verdict == Agreement(verdict.sources, complete=True)
            assert not was_wrong
    assert not world.wrong()


@given(worlds(range(1, 2), range(1, 2)))
def test_one_right_and_one_wrong_source_end_with_the_right_file(case: tuple[World, set[int], int, float, int]) -> None:
    """By a guess, and at most one taken back."""
    world, _, sources, breaks, seed = case
    verdicts = world.repair(range(sources), Random(seed), breaks)
    event(f"{len(verdicts)} verdicts")
    assert not world.wrong()


@given(worlds(range(5), range(5)), st.booleans(), st.sampled_from([0.0, 0.1]))
def test_the_search_ends_with_any_wrong_sources(
    case: tuple[World, set[int], int, float, int], same: bool, leaves: float
) -> None:
    """Also where all tell the same lie, some leave, or nobody is honest: few verdicts, each changes something."""
    world, _, sources, breaks, seed = case
    world.same = same
    verdicts = world.repair(range(sources), Random(seed), breaks, leaves)
    assert len(verdicts) <= 2 * sources + 6

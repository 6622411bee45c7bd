"""Sets of byte ranges against sets of integers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.core.ranges import RangeSet

ends = st.tuples(st.integers(0, 40), st.integers(0, 40))
steps = st.lists(st.tuples(st.sampled_from(["add", "remove"]), ends), max_size=30)


def bytes_of(ranges: object) -> set[int]:
    return {at for start, end in ranges for at in range(start, end)}


def build(history: list[tuple[str, tuple[int, int]]]) -> tuple[RangeSet, set[int]]:
    ranges, model = RangeSet(), set[int]()
    for what, (start, end) in history:
        getattr(ranges, what)(start, end)
        model = model | set(range(start, end)) if what == "add" else model - set(range(start, end))
    return ranges, model


@given(steps)
def test_adding_and_removing_is_that_of_sets(history: list[tuple[str, tuple[int, int]]]) -> None:
    """After any history the ranges are the model's, sorted, apart from each other and counted."""
    ranges, model = build(history)
    listed = list(ranges)
    assert bytes_of(listed) == model
    assert ranges.total == len(model)
    assert bool(ranges) == bool(model)
    assert all(start < end for start, end in listed)
    assert all(before[1] < after[0] for before, after in pairwise(listed))
    assert ranges == RangeSet(reversed(listed))


@given(steps, ends)
def test_questions_are_answered_as_by_sets(history: list[tuple[str, tuple[int, int]]], asked: tuple[int, int]) -> None:
    """Covering, overlapping, parts and gaps of any stretch, also an empty one, are the model's."""
    ranges, model = build(history)
    wanted = set(range(*asked))
    assert ranges.covers(*asked) == (wanted <= model)
    assert ranges.overlaps(*asked) == bool(wanted & model)
    assert bytes_of(ranges.gaps(*asked)) == wanted - model
    if asked[0] <= asked[1]:
        assert bytes_of(ranges.within(*asked)) == wanted & model
    assert ranges.first_gap(asked[0]) == min(set(range(asked[0], 100)) - model)


@given(steps, ends)
def test_a_copy_is_independent(history: list[tuple[str, tuple[int, int]]], more: tuple[int, int]) -> None:
    """What happens to a copy does not happen to its original."""
    ranges, model = build(history)
    other = ranges.copy()
    assert other == ranges
    other.add(*more)
    other.remove(0, 5)
    assert bytes_of(ranges) == model


def test_it_is_a_mutable_value() -> None:
    """Equal by its ranges, unequal to anything else, no dict key, readable in a failed test."""
    ranges = RangeSet([(0, 2), (2, 4), (6, 6)])
    assert ranges == RangeSet([(0, 4)])
    assert ranges != [(0, 4)]
    assert repr(ranges) == "RangeSet([(0, 4)])"
    with pytest.raises(TypeError):
        hash(ranges)

"""Connections of a run: how many in all, how many to a host, and who rests."""

from __future__ import annotations

import pytest

from resume_dl.core.policy import Policy
from resume_dl.core.scheduling.budget import Budget


@pytest.mark.parametrize(
    ("explicit", "own", "limit"),
    [(False, None, 2), (False, 4, 4), (False, 1, 1), (False, 0, 2), (True, 4, 2), (True, None, 2)],
)
def test_limit_of_a_host(explicit: bool, own: int | None, limit: int) -> None:
    """A mirror's own number counts unless the user gave one."""
    budget = Budget(Policy(per_host_is_explicit=explicit))
    assert budget.host("a", own).limit == limit
    assert budget.host("a", 9).limit == limit


def test_no_host_has_less_than_one() -> None:
    """A limit of nothing would wait for ever."""
    assert Budget(Policy(per_host=0)).host("a").limit == 1


def test_taking_and_releasing() -> None:
    """Room ends at the host's limit and at the run's, and comes back with each release."""
    budget = Budget(Policy(connections=3, per_host=2))
    budget.take("a")
    budget.take("a")
    assert not budget.may_take("a", 0.0)
    assert budget.may_take("b", 0.0)
    budget.take("b")
    assert budget.exhausted
    assert not budget.may_take("b", 0.0)
    budget.release("a")
    assert not budget.exhausted
    assert budget.may_take("a", 0.0)


def test_a_host_that_rests() -> None:
    """Nobody asks a host before its rest is over."""
    budget = Budget(Policy())
    budget.host("a").not_before = 10.0
    assert not budget.may_take("a", 9.9)
    assert budget.may_take("a", 10.0)

"""A source that others can stand in for: given up soon while nothing comes, and once for all files of its host."""

from __future__ import annotations

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.scheduling.budget import Budget

ONE = Policy(per_host=1)
SOON = ONE.authority_give_up


def end_of(line: Line) -> float:
    """When it ends, if each attempt fails at once."""
    while not line.download.over:
        for connection in list(line.download.connections):
            line.close(connection, kind=FailureKind.SERVER_ERROR)
        if not line.download.over:
            line.wait()
    assert line.of(act.Fail, ever=True)
    return line.now


def test_one_that_others_can_stand_in_for_is_given_up_soon() -> None:
    """An answer with an error is no byte: without others it has ten minutes."""
    assert end_of(Line(policy=ONE, replaceable=True)) == SOON
    assert end_of(Line(policy=ONE)) == ONE.give_up_after


def test_where_the_others_were_not_enough_it_has_a_little_longer() -> None:
    """Though its host was given up; and no longer than an address that nothing answers at, whatever it says."""
    network = Reachability()
    assert end_of(Line(policy=ONE, budget=Budget(ONE, network), replaceable=True)) == SOON
    again = Line(policy=ONE, budget=Budget(ONE, network), last_chance=True)
    again.wait_until(SOON + 1.0)
    assert not again.download.over
    assert end_of(again) == ONE.unreached_give_up
    late = Line(policy=ONE, budget=Budget(ONE, network), last_chance=True)
    late.wait_until(SOON + 1.0)
    late.respond(max(late.download.connections))
    late.bytes_to(max(late.download.connections), 1000)
    late.wait_until(ONE.unreached_give_up + 1.0)
    assert not late.download.over


def test_its_first_byte_gives_it_all_the_time() -> None:
    line = Line(policy=ONE, replaceable=True)
    line.respond()
    line.bytes_to(0, 1000)
    line.wait_until(SOON + 1.0)
    assert not line.download.over


def test_the_next_file_of_the_host_does_not_wait_again() -> None:
    """Unless something has come from there meanwhile."""
    network = Reachability()
    first = Line(policy=ONE, budget=Budget(ONE, network), replaceable=True)
    assert end_of(first) == SOON
    assert network.is_given_up({"a"})
    assert end_of(Line(policy=ONE, budget=Budget(ONE, network), replaceable=True)) < 1.0
    assert end_of(Line(policy=ONE, budget=Budget(ONE, network))) > SOON
    again = Line(policy=ONE, budget=Budget(ONE, network))
    again.respond()
    again.bytes_to(0, 1000)
    assert not network.is_given_up({"a"})
    assert not network.is_given_up(())

"""No network: when no host name resolves and nothing has answered, a run ends soon; else it is as patient as ever."""

from __future__ import annotations

import math

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.small_requests import Ask, Rest, next_step
from resume_dl.core.sources import SourceState

ONE = Policy(per_host=1)
SOON = ONE.unresolved_give_up


def fail_all(line: Line, kind: FailureKind = FailureKind.UNREACHABLE, *, resolves: str = "") -> None:
    """Every connection under way ends without one byte, its name unknown but for the hosts that ``resolves`` names."""
    for connection, live in list(line.download.connections.items()):
        line.close(connection, kind=kind, unresolved="" if live.host in resolves else live.host)


def end_of(line: Line, *, resolves: str = "") -> tuple[str, float]:
    """Why and when it ends, if each attempt fails at once."""
    while not line.download.over:
        fail_all(line, resolves=resolves)
        if not line.download.over:
            line.wait()
    (fail,) = line.of(act.Fail, ever=True)
    return fail.reason, line.now


def test_nothing_resolves() -> None:
    """Seven hosts, none of which resolves: over after one more try, and every host is named with its own failure."""
    line = Line(hosts="abcdefg", policy=ONE)
    assert end_of(line) == ("no network", SOON)
    (fail,) = line.of(act.Fail)
    assert [failure.unresolved for _, failure in fail.causes] == list("abcdefg")
    assert len(line.of(act.OpenRange, ever=True)) > 7, "each was asked once more"


def test_one_host_resolves() -> None:
    """A host that refuses connections has an address, so there is a network: the patience of the unreached."""
    assert end_of(Line(hosts="abc", policy=ONE), resolves="b") == ("unreachable", 25.0)


def test_a_host_that_resolves_later() -> None:
    """A name that is known at the second try, even if nothing listens there, ends the suspicion."""
    line = Line(hosts="a", policy=ONE)
    fail_all(line)
    line.wait()
    assert end_of(line, resolves="a") == ("unreachable", 25.0)


@pytest.mark.parametrize("way", ["bytes", "an error page"])
def test_something_has_answered(way: str) -> None:
    """Once anything came, for this file or another one of the run, lines come back: full patience."""
    network = Reachability()
    other = Line(hosts="x", policy=ONE, budget=Budget(ONE, network))
    if way == "bytes":
        other.respond()
    else:
        other.close(0, kind=FailureKind.SERVER_ERROR)
    line = Line(hosts="ab", policy=ONE, budget=Budget(ONE, network))
    assert end_of(line) == ("unreachable", 25.0)


def test_a_line_that_goes_in_the_middle() -> None:
    """Bytes came, then no name resolves any more: ten minutes, as for any line that breaks."""
    line = Line(hosts="a", policy=Policy(per_host=1, sync_seconds=math.inf))
    line.respond()
    line.bytes_to(0, MIB)
    assert end_of(line) == ("exhausted", 600.0)


def test_an_explicit_give_up_after_is_respected() -> None:
    """--give-up-after of the user takes the number out of force; in the end it is the same one line."""
    policy = Policy(per_host=1, give_up_after=60.0, unreached_give_up=60.0, unresolved_give_up=math.inf)
    assert end_of(Line(hosts="ab", policy=policy)) == ("no network", 60.0)


def test_silence_is_no_answer() -> None:
    """A resolver that keeps silent may yet answer: nothing is given up for it before the hosts' patience is over."""
    line = Line(hosts="ab", policy=ONE)
    line.wait_until(20.0)
    assert not line.download.over


def test_a_late_no_of_the_resolver_counts() -> None:
    """Connections that made way for others hear of it afterwards: with the last host's the run ends."""
    line = Line(hosts="ab", policy=ONE)
    line.wait_until(6.0)
    for host in "ab":
        assert not line.download.over
        line.tell(ev.LookupFailed(host, Failure(FailureKind.UNREACHABLE, "unknown", unresolved=host)))
    line.wait_until(6.0 + SOON)
    fail_all(line)
    assert [fail.reason for fail in line.of(act.Fail, ever=True)] == ["no network"]


def test_the_next_file_does_not_wait_again() -> None:
    """What one file has found out holds for all: the others are given up with it, with the same causes."""
    network = Reachability()
    first = Line(hosts="ab", policy=ONE, budget=Budget(ONE, network))
    assert end_of(first) == ("no network", SOON)
    second = Line(hosts="ab", policy=ONE, budget=Budget(ONE, network))
    second.now = first.now
    second.wait()
    fail_all(second)
    (fail,) = second.of(act.Fail, ever=True)
    assert (fail.reason, second.now, len(fail.causes)) == ("no network", SOON, 2)


def small_end(network: Reachability, hosts: str, now: float) -> float:
    """When a small request (a shard index, a page) ends that begins at ``now``, if no name of ``hosts`` resolves."""
    states = [SourceState(host, host) for host in hosts]
    while True:
        ends = network.ends(set(hosts), ONE)
        step = next_step(states, [], now, {}, network_ends=ends, ends=now + ONE.give_up_after, policy=ONE)
        if step is None:
            return now
        if isinstance(step, Ask):
            failure = Failure(FailureKind.UNREACHABLE, "unknown", unresolved=hosts[step.source])
            network.failed(hosts[step.source], failure, now)
            states[step.source].failed(failure, now, ONE, lambda: 1.0, whole=True)  # its longest rest
        else:
            assert isinstance(step, Rest)
            now = step.until


def test_a_run_has_one_allowance_for_all_that_it_asks_for() -> None:
    """Shards of two channels, their whole indexes, and those of the mirrors: over at once, after the first of them."""
    network = Reachability()
    now = small_end(network, "a", 0.0)
    assert now == SOON
    assert small_end(network, "b", now) == SOON
    for hosts in ("a", "bcdefg", "abcdefg"):
        line = Line(hosts=hosts, policy=ONE, budget=Budget(ONE, network))
        line.now = now
        assert end_of(line) == ("no network", SOON)


def test_a_local_file_proves_nothing() -> None:
    """A file: address that was read says nothing of the network; one that is left to ask keeps the file going."""
    network = Reachability()
    network.answered("")
    network.failed("a", Failure(FailureKind.UNREACHABLE, "unknown", unresolved="a"), 5.0)
    assert network.ends({"a"}, ONE) == 5.0 + SOON
    assert network.ends({"a", "b"}, ONE) == math.inf
    assert not network.is_missing({"a", ""})
    assert not network.is_missing(())
    assert network.failure_of("b") is None


def test_refused_hosts_are_no_suspects() -> None:
    """A stall says nothing of names; one certificate that is wrong neither."""
    network = Reachability()
    network.failed("a", Failure(FailureKind.UNREACHABLE, "unknown", unresolved="a"), 0.0)
    for kind in (FailureKind.STALLED, FailureKind.FATAL, FailureKind.LOCAL):
        network.failed("a", Failure(kind, "no"), 1.0)
    assert network.is_missing({"a"})
    network.failed("a", Failure(FailureKind.UNREACHABLE, "refused"), 2.0)
    assert not network.is_missing({"a"})


def no_route(line: Line, *, resolves: bool = True) -> tuple[str, float]:
    """Why and when it ends, where literal addresses refuse at once, the first of them or all."""
    while not line.download.over:
        for connection, live in list(line.download.connections.items()):
            unknown = {"no_route": True} if resolves or live.host == "a" else {"unresolved": live.host}
            line.close(connection, kind=FailureKind.UNREACHABLE, **unknown)
        if not line.download.over:
            line.wait()
    (fail,) = line.of(act.Fail, ever=True)
    return fail.reason, line.now


def test_literal_addresses_that_refuse() -> None:
    """As soon as where no name resolves; and where the others do not resolve. It is told as what it is."""
    assert no_route(Line(hosts="ab", policy=ONE)) == ("unreachable", SOON)
    assert no_route(Line(hosts="abc", policy=ONE), resolves=False) == ("unreachable", SOON)


def test_an_address_that_is_silent_later() -> None:
    """Its time-out takes back that no route led there: it may be on its way up."""
    network = Reachability()
    network.failed("a", Failure(FailureKind.UNREACHABLE, "unknown", unresolved="a"), 0.0)
    network.failed("a", Failure(FailureKind.UNREACHABLE, "refused", no_route=True), 1.0)
    assert not network.is_missing({"a"})
    assert network.ends({"a"}, ONE) == SOON
    network.failed("a", Failure(FailureKind.UNREACHABLE, "timed out"), 2.0)
    assert not network.is_unreachable({"a"})

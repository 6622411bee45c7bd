"""A connection that brings nothing is given back; one that does is kept."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from resume_dl.core.budget import Budget
from resume_dl.core.governor import Governor
from resume_dl.core.policy import MIB, Policy

POLICY = Policy()


@dataclass
class Host:
    limit: int = 2
    active: int = 2
    allowed: int | None = None

    def obey(self) -> None:
        """A request has ended; the next is opened only where that is allowed."""
        self.active = self.limit if self.allowed is None else self.allowed


def rate(hosts: list[Host], *, line: float, each: float) -> float:
    """What comes over a line of so many bytes a second, where a server gives each connection so many."""
    return min(line, each * sum(host.active for host in hosts))


def drive(governor: Governor, hosts: list[Host], since: float, until: float, *, line: float, each: float) -> list[int]:
    """A tenth of a second at a time; returns the connections that were open, second by second."""
    seen = []
    for tenth in range(round(since * 10), round(until * 10)):
        now = tenth / 10
        governor.came(int(rate(hosts, line=line, each=each) / 10), now)
        governor.decide(hosts, now)
        for host in hosts:
            host.obey()
        if tenth % 10 == 0:
            seen.append(sum(host.active for host in hosts))
    return seen


def test_a_line_that_one_connection_fills() -> None:
    """The second one is given back after its trial, and comes back when the line may have changed."""
    governor, hosts = Governor(POLICY), [Host()]
    seen = drive(governor, hosts, 0, 400, line=1.0 * MIB, each=9.0 * MIB)
    assert seen[:30] == [2] * 30
    assert set(seen[32:330]) == {1}
    assert 2 in seen[330:350]


def test_a_server_that_limits_each_connection() -> None:
    """Both are kept, but for the seconds of the trials."""
    governor, hosts = Governor(POLICY), [Host()]
    seen = drive(governor, hosts, 0, 400, line=90.0 * MIB, each=1.0 * MIB)
    assert seen.count(1) <= 5 * (400 // 30)
    assert seen[-1] == 2


def test_several_hosts_on_one_line() -> None:
    """One after the other gives back what brings nothing; each keeps one."""
    governor, hosts = Governor(POLICY), [Host(), Host(), Host()]
    seen = drive(governor, hosts, 0, 200, line=1.0 * MIB, each=9.0 * MIB)
    assert seen[-1] == 3


def test_no_host_has_two() -> None:
    """There is nothing to try."""
    governor, hosts = Governor(POLICY), [Host(limit=1, active=1), Host(active=1)]
    hosts[1].obey = lambda: None
    assert set(drive(governor, hosts, 0, 100, line=1.0 * MIB, each=9.0 * MIB)) == {2}
    assert [host.allowed for host in hosts] == [None, None]


def test_a_request_that_does_not_end() -> None:
    """A trial that cannot begin is given up."""
    governor, hosts = Governor(POLICY), [Host()]
    hosts[0].obey = lambda: None
    drive(governor, hosts, 0, 45, line=1.0 * MIB, each=9.0 * MIB)
    assert hosts[0].allowed == 1
    drive(governor, hosts, 45, 70, line=1.0 * MIB, each=9.0 * MIB)
    assert hosts[0].allowed is None


@pytest.mark.parametrize(("allowed", "room"), [(None, 2), (1, 1)])
def test_the_budget_obeys(allowed: int | None, room: int) -> None:
    """A host has no more connections than are allowed now."""
    budget = Budget(POLICY)
    budget.host("a").allowed = allowed
    for _ in range(room):
        assert budget.may_take("a", 0.0)
        budget.take("a")
    assert not budget.may_take("a", 0.0)


def test_the_budget_lets_it_decide() -> None:
    """What comes is what it decides by: of two connections one is given back, as the other brings as much."""
    budget = Budget(POLICY)
    for _ in range(2):
        budget.take("a")
    for tenth in range(310):
        budget.came(MIB // 10, tenth / 10)
    assert budget.host("a").allowed == 1
    budget.release("a")
    for tenth in range(310, 900):
        budget.came(MIB // 10, tenth / 10)
    assert not budget.may_take("a", 90.0)

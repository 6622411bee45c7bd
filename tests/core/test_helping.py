"""Idle connections take over others' work; slow, unhealthy and too many connections are given up."""

from __future__ import annotations

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import KIB, MIB, Policy
from resume_dl.core.scheduling.budget import Budget

ALONE = Policy(per_host=1)
TAIL = ev.Prepared(((0, 90 * MIB),), 100 * MIB)
"""Ten megabytes are left."""


def run(line: Line, seconds: float, *speeds: float) -> None:
    """Every connection brings bytes at its speed, ten times a second; numbers are those of the live ones, in order."""
    for _ in range(round(seconds * 10)):
        line.now += 0.1
        for (number, one), speed in zip(sorted(line.download.connections.items()), speeds, strict=False):
            position = min(one.end(line.download.size), int(one.position + speed / 10))
            if not one.closing and speed:
                line.bytes_to(number, position)


def help_out(line: Line) -> None:
    line.keep(line.download.fill(line.now, help_out=True))


def two(policy: Policy = ALONE, resumed: ev.Prepared = TAIL) -> Line:
    """Two hosts with one connection each, both answered."""
    line = Line(hosts="ab", policy=policy, resumed=resumed)
    for number in list(line.download.connections):
        line.respond(number)
    return line


def test_the_idle_takes_the_tail_of_the_slow() -> None:
    """The lease is split by the two speeds, so that both end together; the thief asks once the loser has let go."""
    line = two(Policy(per_host=1, first_segment=5 * MIB))
    run(line, 2, MIB / 2, MIB)
    line.close(1, 100 * MIB)
    help_out(line)
    (order,) = line.of(act.ShortenLease)
    one = line.download.connections[0]
    own, other = one.speed(line.now, 1.0), line.download._budget.host("b").speed
    assert order.connection == 0
    assert own is not None
    assert other is not None
    assert (order.end - one.position) / own == pytest.approx((95 * MIB - order.end) / other, abs=0.05)
    help_out(line)
    assert line.out == []  # one at a time
    line.tell(ev.LeaseShortened(0, order.end))
    assert [(each.source, each.start, each.end) for each in line.of(act.OpenRange)] == [(1, order.end, 95 * MIB)]


def test_a_mirror_that_is_slow_to_answer_is_left_its_time() -> None:
    """A second or two before the answer is no standstill, also where another is idle; a silent answer is one."""
    line = Line(size=6 * MIB, hosts="ab")
    for second in (1.0, 2.0, 3.0, 4.0):
        line.wait_until(second)
        help_out(line)
        assert line.of(act.ShortenLease, ever=True) + line.of(act.CloseConnection, ever=True) == []
    line.respond()
    run(line, 0.5, MIB)
    line.now += 2.0
    help_out(line)
    assert line.out == [act.CloseConnection(0)]
    line.close(0)
    assert [note.failure.kind for note in line.of(act.NoteFailure)] == [FailureKind.STALLED]
    assert [order.source for order in line.of(act.OpenRange)] == [1]


def test_mirrors_that_are_all_slow_to_answer_make_way_once() -> None:
    """The second has its whole time, and so has the first when it is asked again."""
    line = Line(size=900 * MIB, hosts="ab", policy=ALONE, jitter=0.0)
    line.respond(1)
    line.close(1, line.download.connections[1].end(None))
    for number in list(line.download.connections):
        if number != 0:
            line.respond(number)
    opened = []
    while line.now < 19.0:
        line.wait_until(line.now + 1.0)
        help_out(line)
        for number, one in list(line.download.connections.items()):
            if one.source == 1 and not one.closing:
                line.bytes_to(number, min(one.end(900 * MIB), one.position + 1000))
            if one.closing:
                line.close(number)
        opened += [order.source for order in line.of(act.OpenRange)]
    assert opened.count(0) <= 1


def test_a_small_file_that_crawls() -> None:
    """A file of one request is shared too, where its only connection would take long and another is idle."""
    line = Line(size=6 * MIB, hosts="ab", policy=Policy(endgame_bytes=0))
    assert line.leases == [(0, None)]
    line.respond()
    run(line, 0.9, 500 * KIB)
    help_out(line)
    (order,) = line.of(act.ShortenLease)
    line.tell(ev.LeaseShortened(0, order.end))
    help_out(line)
    assert [(each.source, each.start, each.end) for each in line.of(act.OpenRange)] == [(1, order.end, 6 * MIB)]


def test_a_lease_that_ends_soon_is_not_stolen_from() -> None:
    """A lease that ends soon anyway is left alone."""
    line = two(resumed=ev.Prepared(((0, 100 * MIB - 200 * KIB),), 100 * MIB))
    line.now = 0.5
    line.bytes_to(0, 100 * MIB - 80 * KIB)
    help_out(line)
    assert line.out == []


def test_the_connection_that_is_further_keeps_its_range() -> None:
    """A loser that had got beyond the cut says so, and is not asked again."""
    line = two(resumed=ev.Prepared(((0, 92 * MIB),), 100 * MIB), policy=Policy(per_host=1, first_segment=8 * MIB))
    line.now = 0.9
    line.bytes_to(0, 92 * MIB + 300 * KIB)
    line.now = 1.9
    help_out(line)
    (order,) = line.of(act.ShortenLease)
    line.tell(ev.LeaseShortened(0, 100 * MIB))
    assert line.download.connections[0].spent
    assert order.end < 100 * MIB
    help_out(line)
    assert line.out == []


def test_with_a_rate_limit_no_work_is_taken_over() -> None:
    """With --limit-rate each connection is slow by our own will."""
    policy = Policy(per_host=1, first_segment=8 * MIB, rebalance=False)
    line = two(resumed=ev.Prepared(((0, 92 * MIB),), 100 * MIB), policy=policy)
    line.now = 0.9
    line.bytes_to(0, 92 * MIB + 300 * KIB)
    line.now = 1.9
    help_out(line)
    assert line.out == []


def end_game() -> tuple[Line, act.OpenRange]:
    """One connection crawls through the last megabyte; an idle one fetches what it has left a second time."""
    line = two(resumed=ev.Prepared(((0, 99 * MIB),), 100 * MIB))
    line.download._budget.note_speed("b", 8.0 * MIB)
    line.now = 0.9
    line.bytes_to(0, 99 * MIB + 50 * KIB)
    help_out(line)
    (order,) = line.of(act.OpenRange)
    assert (order.mode, order.source, order.start, order.end) == (act.Mode.HOLD, 1, 99 * MIB + 50 * KIB, 100 * MIB)
    return line, order


def test_what_is_doubled_is_not_stolen_as_well() -> None:
    """With two idle hosts, one fetches the crawler's rest a second time; the other takes nothing of that lease away."""
    line = Line(hosts="abc", policy=ALONE, resumed=ev.Prepared(((0, 99 * MIB),), 100 * MIB))
    line.respond()
    for host in "bc":
        line.download._budget.note_speed(host, 8.0 * MIB)
    line.now = 0.9
    line.bytes_to(0, 99 * MIB + 50 * KIB)
    help_out(line)
    assert [order.mode for order in line.of(act.OpenRange)] == [act.Mode.HOLD]
    assert len(line.out) == 1
    line.respond(1)
    line.tell(ev.BytesReceived(1, 100 * KIB))
    for line.now in (1.0, 1.3, 1.6):
        line.bytes_to(0, line.download.connections[0].position + KIB)
        line.tell(ev.BytesReceived(1, line.download.connections[1].received + 100 * KIB))
        help_out(line)
    assert line.of(act.ShortenLease, ever=True) == []
    assert len(line.of(act.OpenRange, ever=True)) == 2


def test_a_duplicate_wins() -> None:
    """It is written only after its rival has said its last word, and only where bytes are missing still."""
    line, order = end_game()
    line.respond(order.connection)
    line.tell(ev.BytesReceived(order.connection, 500 * KIB))
    help_out(line)
    assert line.out == []  # no third time
    line.tell(ev.RangeHeld(order.connection, MIB - 50 * KIB))
    assert line.out == [act.CloseConnection(0)]
    line.close(0, 99 * MIB + 60 * KIB)
    assert line.out == [act.WriteHeld(order.connection, ((99 * MIB + 60 * KIB, 100 * MIB),))]
    line.tell(ev.ConnectionClosed(order.connection, 100 * MIB, MIB - 50 * KIB))
    assert line.download.complete
    assert line.download.wasted == 10 * KIB


def test_a_duplicate_loses() -> None:
    """When the slow one comes to its end first, the duplicate is closed and nothing of it is kept."""
    line, order = end_game()
    line.respond(order.connection)
    line.tell(ev.BytesReceived(order.connection, 500 * KIB))
    line.close(0, 100 * MIB)
    assert line.out == [act.CloseConnection(order.connection)]
    line.tell(ev.ConnectionClosed(order.connection, order.start, 500 * KIB))
    assert line.download.complete
    assert line.download.wasted == 500 * KIB


def test_a_duplicate_that_comes_too_late() -> None:
    """Its rival is closed, and had brought everything by then: there is nothing left to write."""
    line, order = end_game()
    line.respond(order.connection)
    line.tell(ev.RangeHeld(order.connection, MIB - 50 * KIB))
    line.close(0, 100 * MIB)
    assert line.out == [act.CloseConnection(order.connection)]


def test_a_duplicate_that_crawls_itself_is_given_up() -> None:
    """Its range is then free again, for whoever is idle; while it comes well it is left alone."""
    line, order = end_game()
    line.respond(order.connection)
    line.close(0, kind=FailureKind.LACKS)
    line.download._budget.host("b").limit = 2
    line.now = 1.0
    line.tell(ev.BytesReceived(order.connection, 500 * KIB))
    line.download._budget.note_speed("b", 8.0 * MIB)
    help_out(line)
    assert line.out == []
    line.now = 2.5
    help_out(line)
    assert line.of(act.CloseConnection) == [act.CloseConnection(order.connection)]
    line.tell(ev.ConnectionClosed(order.connection, order.start, 500 * KIB))
    assert line.leases == [(order.start, 100 * MIB)]


def test_a_rival_s_failure_leaves_the_duplicate_alone() -> None:
    """The duplicate's range is nobody else's while it is under way."""
    line, order = end_game()
    line.close(0, kind=FailureKind.BROKEN)
    line.wait()
    assert line.leases == []
    assert list(line.download.connections) == [order.connection]


def test_a_slow_connection_is_replaced() -> None:
    """Below a quarter of what its host gave for five seconds, also where there is one source only."""
    line = Line(policy=Policy(per_host=1, first_segment=90 * MIB))
    line.respond()
    run(line, 8, MIB)
    run(line, 15, 100 * KIB)
    line.wait_until(line.now)
    assert line.of(act.CloseConnection, ever=True) == [act.CloseConnection(0)]
    line.close(0)
    assert [note.failure.kind for note in line.of(act.NoteFailure)] == [FailureKind.SLOW]
    assert line.download.next_deadline() > 0
    line.keep(line.download.fill(line.now))
    assert len(line.of(act.OpenRange, ever=True)) == 2


def test_a_short_dip_is_not() -> None:
    """A connection that gets over it in time stays."""
    line = Line(policy=Policy(per_host=1, first_segment=90 * MIB))
    line.respond()
    for _ in range(4):
        run(line, 6, MIB)
        run(line, 3, 50 * KIB)
    line.wait_until(line.now)
    assert line.of(act.CloseConnection, ever=True) == []


def test_a_slow_network_is_not_blamed_on_a_source() -> None:
    """Where all connections have lost as much, none is replaced."""
    line = Line(size=1000 * MIB, hosts="abc", policy=Policy(per_host=1, first_segment=90 * MIB))
    for number in range(3):
        line.respond(number)
    run(line, 8, MIB, MIB, MIB)
    run(line, 12, 100 * KIB, 100 * KIB, 100 * KIB)
    line.wait_until(line.now)
    assert line.of(act.CloseConnection, ever=True) == []


def test_a_much_faster_host_gets_a_place() -> None:
    """With every connection in use, the slowest makes room for a host known to be four times faster."""
    policy = Policy(connections=2, per_host=1, first_segment=90 * MIB)
    line = Line(size=1000 * MIB, hosts="abc", policy=policy)
    for number in range(2):
        line.respond(number)
    line.download._budget.note_speed("c", 9.0 * MIB, steady=True)
    run(line, 4, MIB, 2 * MIB)
    assert line.of(act.CloseConnection, ever=True) == []
    run(line, 2, MIB, 2 * MIB)
    assert line.of(act.CloseConnection, ever=True) == [act.CloseConnection(0)]
    line.close(0)
    assert [order.source for order in line.of(act.OpenRange)] == [2]


def test_one_connection_to_a_very_fast_host() -> None:
    """Where one connection brings all that this process can take, the others are given back."""
    line = Line(size=1000 * MIB)
    for number in range(2):
        line.respond(number)
    line.now = 0.1
    line.bytes_to(0, 4 * MIB)
    assert line.of(act.CloseConnection) == []
    line.now = 0.2
    line.bytes_to(1, 24 * MIB)
    assert line.of(act.CloseConnection, ever=True)
    assert len([one for one in line.download.connections.values() if not one.closing]) == 1


def test_an_unhealthy_host_is_only_probed() -> None:
    """After three failures a host has one connection at a time, and is asked after all others; it may recover."""
    budget = Budget(Policy())
    for _ in range(3):
        budget.failed("a", 0.0, rests_until=0.0)
    assert budget.is_unhealthy(budget.host("a"), 0.0)
    assert budget.may_take("a", 0.0)
    budget.take("a")
    assert not budget.may_take("a", 0.0)
    line = Line(hosts="ab", budget=budget)
    assert [order.source for order in line.of(act.OpenRange)] == [1, 1]
    budget.progressed("a")
    assert budget.may_take("a", 0.0)
    assert not budget.is_unhealthy(budget.host("a"), 3600.0)


def test_failures_fade() -> None:
    """What a host did wrong is half forgotten after ten minutes."""
    budget = Budget(Policy())
    for _ in range(5):
        budget.failed("a", 0.0, rests_until=0.0)
    assert budget.is_unhealthy(budget.host("a"), 400.0)
    assert not budget.is_unhealthy(budget.host("a"), 600.0)


def test_an_unreachable_host_rests_for_all_files() -> None:
    """What one file has learnt of a dead host, others need not learn again."""
    budget = Budget(ALONE)
    first = Line(policy=ALONE, budget=budget)
    first.close(0, kind=FailureKind.UNREACHABLE)
    second = Line(policy=ALONE, budget=budget)
    assert second.leases == []
    second.wait()
    assert (second.now, len(second.leases)) == (0.25, 1)


def test_names_that_end_at_one_host_are_one() -> None:
    """Mirrors that redirect to the same host share its connections."""
    line = Line(size=1000 * MIB, hosts="ab", policy=Policy(per_host=2, first_segment=MIB))
    assert [order.source for order in line.of(act.OpenRange)] == [0, 1, 0, 1]
    for number in range(4):
        line.tell(ev.ResponseStarted(number, 1000 * MIB, None, "cdn"))
    line.now = 1.0
    for number in range(4):
        line.close(number, (number + 1) * MIB)
    assert len(line.download.connections) == 2


def test_all_that_was_asked_for_has_come() -> None:
    """The last connection of a file may end its answer properly; one that does not is closed after a second."""
    line = Line(size=MIB)
    line.respond()
    line.bytes_to(0, MIB)
    assert line.out == []
    assert line.download.next_deadline() == 1.0
    line.wait()
    assert line.out == [act.CloseConnection(0)]


@pytest.mark.parametrize("rest", [0, 300 * KIB])
def test_the_digest_follows(rest: int) -> None:
    """The digest goes on beside the download, in steps, one call at a time; the check waits for it."""
    line = Line(size=30 * MIB, policy=Policy(per_host=1, first_segment=30 * MIB, digest_most=16 * MIB))
    line.respond()
    line.bytes_to(0, 8 * MIB - 1)
    assert line.of(act.AdvanceDigest) == []
    line.bytes_to(0, 25 * MIB + rest)
    assert line.of(act.AdvanceDigest) == [act.AdvanceDigest(16 * MIB)]
    line.tell(ev.DataSynced(1))
    line.close(0, 30 * MIB)
    assert line.out == []
    line.tell(ev.DigestAdvanced(16 * MIB))
    assert line.out == [act.CheckDigest()]


def test_requests_leave_before_the_digest() -> None:
    """Where much is there already, the line has work before the hashing of it begins."""
    line = Line(policy=Policy(per_host=1), resumed=ev.Prepared(((0, 20 * MIB),), 100 * MIB))
    assert [type(action) for action in line.out] == [act.OpenRange, act.AdvanceDigest]

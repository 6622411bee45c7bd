"""Waiting: back-off, stalls, rests, room, syncs, locks, and when to give up."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace as changed

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.download import Download
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.session import Session
from resume_dl.core.sources import SourceState
from resume_dl.core.transitions import State

ONE = Policy(per_host=1)
UNSYNCED = Policy(per_host=1, sync_seconds=1e9)
SIZE = 40 * MIB


def test_back_off_then_again() -> None:
    """A broken connection is opened again after its jittered wait, where it stopped."""
    line = Line(policy=ONE)
    line.respond()
    line.close(0, MIB, FailureKind.BROKEN)
    assert line.leases == []
    assert line.download.next_deadline() == 0.25
    line.wait()
    assert line.leases[0][0] == MIB


def test_a_throttled_host_rests() -> None:
    """Retry-After keeps the whole host still, up to two minutes; the other goes on."""
    line = Line(hosts="ab", policy=ONE)
    line.respond(1)
    line.close(0, kind=FailureKind.THROTTLED, retry_after=3600.0)
    line.now = 1.0
    line.bytes_to(1, 5 * MIB)
    line.close(1, 8 * MIB)
    assert [order.source for order in line.of(act.OpenRange)] == [1]
    asked_at = []
    newest = max(line.download.connections)
    for second in range(2, 140):
        line.wait_until(float(second))
        asked_at += [line.now for order in line.of(act.OpenRange) if order.source == 0]
        line.bytes_to(newest, line.download.connections[newest].position + 1)
    assert asked_at == [120.0]


def test_a_rest_is_shared() -> None:
    """A host that asked one file to wait is not asked for another."""
    budget = Budget(ONE)
    first, second = Line(policy=ONE, budget=budget), Line(policy=ONE, budget=budget)
    assert second.leases == []
    first.close(0, kind=FailureKind.THROTTLED, retry_after=9.0)
    second.keep(second.download.fill(0.0))
    assert second.leases == []
    assert second.download.next_deadline() == 9.0
    second.wait()
    assert len(second.leases) == 1


def test_a_stall_is_closed_and_replaced() -> None:
    """After ten seconds without a byte a connection is closed, and replaced though there is one source only."""
    line = Line(policy=ONE)
    line.now = 1.0
    line.respond()
    line.wait()
    assert (line.now, line.out) == (11.0, [act.CloseConnection(0)])
    line.close(0)
    failure = line.of(act.NoteFailure)[0].failure
    assert (failure.kind, failure.message) == (FailureKind.STALLED, "no byte for 10 s")
    line.wait()
    assert line.leases == [(0, 4 * MIB)]


def test_first_bytes_have_longer() -> None:
    """A connection that was never answered has twenty seconds."""
    line = Line(policy=ONE)
    line.wait()
    assert (line.now, line.out) == (20.0, [act.CloseConnection(0)])
    line.close(0)
    assert line.of(act.NoteFailure)[0].failure.message == "no byte for 20 s"


def test_a_source_that_never_answers_makes_way_once() -> None:
    """Where the size is not known nobody can begin beside it; a second source that is as silent has its whole time."""
    line = Line(size=None, hosts="ab", policy=Policy(unreached_give_up=100.0))
    line.wait()
    assert (line.now, line.out) == (5.0, [act.CloseConnection(0)])
    line.close(0)
    assert line.of(act.NoteFailure)[0].failure.message == "no byte for 5 s"
    assert [order.source for order in line.of(act.OpenRange)] == [1]
    line.wait_until(24.9)
    assert not line.download.connections[1].closing
    line.wait_until(25.0)
    assert line.of(act.CloseConnection, ever=True) == [act.CloseConnection(0), act.CloseConnection(1)]


def arrival(line: Line, answers: Mapping[int, float]) -> float:
    """When the file is all here; ``answers``: source -> seconds to its head, then each connection has 4 MiB a second.

    A quarter of a second at a time, and as in a session idle connections may help.
    """
    while not line.download.complete:
        line.wait_until(line.now + 0.25)
        for number, one in list(line.download.connections.items()):
            if one.closing:
                line.close(number)
            elif one.answered:
                position = min(one.position + MIB, one.end(line.download.size))
                if position == one.end(line.download.size):
                    line.close(number, position)
                else:
                    line.bytes_to(number, position)
            elif line.now - one.opened_at >= answers[one.source]:
                line.respond(number, size=line.download.size or SIZE)
        assert not line.download.over, line.of(act.Fail, ever=True)
        line.keep(line.download.fill(line.now, help_out=True))
    return line.now


@pytest.mark.parametrize(("answer", "in_vain"), [(0.25, 0), (19.0, 0), (25.0, 1), (45.0, 2), (59.0, 2)])
def test_a_server_that_is_slow_to_answer(answer: float, in_vain: int) -> None:
    """The only source answers late, as one does that fetches the file itself first: no attempt in vain is repeated."""
    line = Line(SIZE, policy=UNSYNCED)
    arrival(line, {0: answer})
    assert len(line.of(act.CloseConnection, ever=True)) == in_vain
    assert [note.failure.message for note in line.of(act.NoteFailure, ever=True)] == [
        "no byte for 20 s",
        "no byte for 40 s",
    ][:in_vain]
    leases = len(line.of(act.OpenRange, ever=True)) - in_vain
    assert leases == len({order.start for order in line.of(act.OpenRange, ever=True)}) > 1  # each was asked for once


def test_how_slow_a_host_is_to_answer_is_learnt_once() -> None:
    """The next file of that host waits long enough at once; not where the last answer came soon again."""
    budget = Budget(UNSYNCED)
    for answer, in_vain in ((25.0, 1), (25.0, 0), (0.25, 0), (25.0, 1)):
        line = Line(MIB, policy=UNSYNCED, budget=budget)
        arrival(line, {0: answer})
        assert len(line.of(act.CloseConnection, ever=True)) == in_vain


def test_a_source_that_answers_soon_again_has_no_longer_wait() -> None:
    """Its answer ends what its silence began."""
    line = Line(policy=ONE)
    line.wait()
    line.close(0)
    line.wait()
    assert line.download.connections[1].patience == 40.0
    line.respond(1)
    line.close(1, MIB, FailureKind.BROKEN)
    line.wait()
    assert line.download.connections[2].patience == 20.0


@pytest.mark.parametrize("size", [400 * MIB, SIZE, 4 * MIB, None])
@pytest.mark.parametrize("dead", [0, 1])
def test_a_dead_source_costs_no_more_than_its_first_wait(size: int | None, dead: int) -> None:
    """Beside a good one its longer waits hold nothing up."""
    ends = []
    for most in (0.0, 60.0):
        line = Line(size, "ab", policy=changed(UNSYNCED, first_byte_most=most))
        ends.append(arrival(line, {dead: math.inf, 1 - dead: 0.25}))
    assert ends[1] <= ends[0]


def test_waiting_for_a_host_that_is_slow_to_answer_others() -> None:
    """While those who have the line still wait for its first answer, it is not called unreachable."""
    first, second = two_on_one_host(ONE)
    first.wait_until(20.0)
    first.close(0)
    first.keep(first.download.fill(20.25))
    second.wait_until(60.0)
    assert not second.download.over


def test_a_source_that_stays_silent_is_given_up() -> None:
    """Where nobody ever answered, after two and a half minutes; sooner where the user says so."""
    for given_up, patience in ((150.0, 600.0), (100.0, 100.0)):
        line = Line(policy=changed(UNSYNCED, give_up_after=patience))
        while not line.download.over:
            line.wait()
            for number, one in list(line.download.connections.items()):
                if one.closing:
                    line.close(number)
        assert (line.now, line.of(act.Fail)[0].reason) == (given_up, "unreachable")


def test_give_up_without_progress() -> None:
    """Ten minutes without a new byte end the download; what came stays resumable."""
    line = Line(policy=UNSYNCED)
    line.respond()
    line.close(0, MIB, FailureKind.BROKEN)
    while not line.download.over:
        line.wait()
        if line.download.connections:
            line.close(max(line.download.connections), kind=FailureKind.UNREACHABLE)
    assert line.now == 600.0
    assert line.out == [act.Fail("exhausted", line.out[0].causes, MIB)]
    assert [index for index, _ in line.out[0].causes] == [0]


def test_the_error_reports_every_source() -> None:
    """At the end each is named: one that had done its part, one that keeps silent, one that never had its turn."""
    policy = changed(UNSYNCED, connections=1, first_byte_seconds=1e6, first_answer_seconds=1e6)
    line = Line(hosts="abc", policy=policy)
    line.respond()
    line.now = 1.0
    line.close(0, 4 * MIB)
    while not line.download.over:
        line.wait()
        for number, one in list(line.download.connections.items()):
            if one.closing:
                line.close(number)
    (fail,) = line.of(act.Fail)
    assert (fail.reason, line.now) == ("exhausted", 601.0)
    assert [(index, failure.kind, failure.message) for index, failure in fail.causes] == [
        (0, FailureKind.UNASKED, "was not asked again"),
        (1, FailureKind.STALLED, "no answer within 600 s"),
        (2, FailureKind.UNASKED, "was not asked"),
    ]


def test_a_source_that_fell_silent_is_told_so() -> None:
    """It has answered, and brought nothing since; no failure had been noted of it."""
    line = Line(policy=changed(UNSYNCED, stall_seconds=1e6))
    line.respond()
    line.wait()
    line.close(0)
    (fail,) = line.of(act.Fail)
    assert [(index, failure.message) for index, failure in fail.causes] == [(0, "no byte for 600 s")]


def test_give_up_soon_if_no_source_answers() -> None:
    """A line that is down is said to be so after twenty-five seconds."""
    line = Line(hosts="ab")
    while not line.download.over:
        for connection in list(line.download.connections):
            line.close(connection, kind=FailureKind.UNREACHABLE)
        line.wait()
    assert line.now == 25.0
    assert line.of(act.Fail)[0].reason == "unreachable"


def test_giving_up_waits_for_writers() -> None:
    """The end comes when the last connection has said its last word."""
    line = Line(policy=Policy(per_host=1, stall_seconds=1e6))
    line.respond()
    line.wait()
    assert (line.now, line.out) == (600.0, [act.CloseConnection(0)])
    assert line.download.next_deadline() == float("inf")
    line.close(0, MIB)
    assert line.of(act.Fail)[0].resumable_bytes == MIB


def test_a_file_that_changes_at_every_request_is_no_progress() -> None:
    """Bytes that only replace others do not put off the end."""
    line = Line(digest=False, policy=Policy(per_host=1, give_up_after=50.0, sync_seconds=1e9), jitter=0.0)
    line.respond(0, validator='"0"')
    for number in range(1000):
        line.now += 1.0
        newest = max(line.download.connections)
        line.bytes_to(newest, MIB)
        line.close(newest, MIB, FailureKind.CHANGED)
        line.respond(number + 1, validator=f'"{number}"')
        if line.now >= line.download.next_deadline():
            line.tell(ev.TimerFired())
            break
    assert line.now == 51.0
    assert line.out == [act.CloseConnection(51)]


def test_a_stream_over_bytes_we_have_is_progress_once() -> None:
    """A source without ranges may take longer than our patience to reach the first gap, but not twice."""
    line = Line(policy=ONE, resumed=ev.Prepared(((0, 99 * MIB),), 100 * MIB))
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    line.respond(1)
    for megabyte in range(1, 91):
        line.wait_until(line.now + 9.0)
        line.bytes_to(1, megabyte * MIB)
    assert line.now == 810.0
    line.close(1, kind=FailureKind.BROKEN)
    line.wait()
    line.respond(2)
    for megabyte in range(1, 91):
        line.wait_until(line.now + 9.0)
        if 2 not in line.download.connections or line.download.connections[2].closing:
            break
        line.bytes_to(2, megabyte * MIB)
    assert 1400.0 < line.now < 1420.0
    assert not line.download.complete


# ---------------------------------------------------------------------- room


def two_on_one_host(policy: Policy) -> tuple[Line, Line]:
    budget = Budget(policy)
    return Line(policy=policy, budget=budget), Line(policy=policy, budget=budget)


def test_waiting_for_room_is_no_failure() -> None:
    """A file that others keep from the line never gives up, and has its whole patience when it gets there."""
    first, second = two_on_one_host(ONE)
    first.respond()
    second.keep(second.download.fill(0.0))
    for hour in range(1, 5):
        second.wait_until(hour * 3600.0)
        assert not second.download.over
    first.tell(ev.Cancelled())
    first.close(0)
    second.keep(second.download.fill(second.now))
    assert len(second.leases) == 1
    second.respond()
    began = second.now
    second.wait()
    second.close(0)
    while not second.download.over:
        second.wait()
        if second.download.connections:
            second.close(max(second.download.connections), kind=FailureKind.BROKEN)
    assert second.now == began + 600.0


def test_waiting_for_a_host_without_answers() -> None:
    """When those who have the line get no answer either, waiting for them is no excuse."""
    _, second = two_on_one_host(ONE)
    assert second.leases == []
    second.wait()
    assert (second.now, second.of(act.Fail)[0].reason) == (25.0, "unreachable")


def test_waiting_for_the_run_s_last_connection() -> None:
    """A host that nobody asks, because others' hosts have every connection, is not called unreachable."""
    policy = Policy(connections=1)
    budget = Budget(policy)
    Line(policy=policy, budget=budget)
    second = Line(hosts="b", policy=policy, budget=budget)
    assert second.leases == []
    second.wait_until(500.0)
    assert not second.download.over


# ---------------------------------------------------------------------- syncs


def test_sync_after_sixteen_megabytes() -> None:
    """Every 16 MiB are synced, one sync at a time, and recorded with the mark that the sync gave; not too often."""
    line = Line(policy=Policy(per_host=1, first_segment=64 * MIB))
    line.now = 0.3
    line.bytes_to(0, 16 * MIB - 1)
    assert line.of(act.SyncData) == []
    line.bytes_to(0, 16 * MIB)
    assert line.of(act.SyncData) == [act.SyncData()]
    line.bytes_to(0, 40 * MIB)
    assert line.of(act.SyncData) == []
    line.tell(ev.DataSynced(77))
    assert line.out == [act.RecordProgress(77)]
    line.wait_until(0.55)
    assert line.of(act.SyncData) == [act.SyncData()]


def test_sync_after_two_seconds() -> None:
    """Fewer bytes are synced after two seconds, and none without new bytes."""
    line = Line(policy=ONE)
    line.bytes_to(0, 1)
    assert line.download.next_deadline() == 2.0
    line.wait()
    assert line.out == [act.SyncData()]
    line.tell(ev.DataSynced(1))
    assert line.download.next_deadline() == 10.0 + 10.0


def test_small_files_are_not_synced() -> None:
    """A file below a megabyte has no journal; losing it costs less."""
    line = Line(size=MIB - 1)
    assert line.of(act.Prepare, ever=True) == [act.Prepare(journaled=False)]
    line.bytes_to(0, 1000)
    assert line.download.next_deadline() == 20.0
    line.tell(ev.Cancelled())
    line.close(0, 1000)
    assert line.out == [act.Fail("cancelled", resumable_bytes=0)]


def test_the_end_waits_for_the_sync() -> None:
    """No digest is taken while a sync is under way."""
    line = Line(size=10 * MIB, policy=Policy(per_host=1, first_segment=10 * MIB))
    line.now = 3.0
    line.bytes_to(0, 5 * MIB)
    assert line.of(act.SyncData)
    line.close(0, 10 * MIB)
    assert line.out == []
    line.tell(ev.DataSynced(4))
    assert line.out == [act.RecordProgress(4), act.CheckDigest()]


# ---------------------------------------------------------------------- locks


def test_a_lock_is_waited_for() -> None:
    """While another process has the file we look again twice a second, and end well when it has finished it."""
    line = Line(prepare=False)
    for look in (0.5, 1.0, 1.5):
        line.tell(ev.LockBusy("process 7"))
        assert line.download.state is State.LOCKED
        assert line.download.lock_owner == "process 7"
        line.wait()
        assert (line.now, line.out) == (look, [act.Prepare(journaled=True)])
    line.tell(ev.FoundPublished())
    assert line.out == [act.Finish(another=True)]
    assert line.download.state is State.DONE


def test_no_wait() -> None:
    """With --no-wait a lock ends the download at once, naming its owner."""
    line = Line(policy=Policy(wait_for_lock=False), prepare=False)
    line.tell(ev.LockBusy("process 7"))
    assert line.out == [act.Fail("locked", owner="process 7")]
    assert line.download.over


def test_an_early_timer_leaves_the_lock_alone() -> None:
    """A timer that fires before its time changes nothing."""
    line = Line(prepare=False)
    line.tell(ev.LockBusy("process 7"))
    line.tell(ev.TimerFired())
    assert line.out == []


# ---------------------------------------------------------------------- a run of many


def session_of(sizes: list[int | None], policy: Policy) -> tuple[Session, dict[str, Download]]:
    session, budget = Session(policy), Budget(policy)
    downloads = {}
    for number, size in enumerate(sizes):
        key = str(number)
        source = SourceState("https://a/", "a")
        downloads[key] = Download(size=size, sources=[source], budget=budget, policy=policy, jitter=lambda: 0.5)
        session.add(key, downloads[key])
    return session, downloads


def test_largest_first() -> None:
    """The largest files begin first, those of unknown size last, and no more at once than the policy says."""
    session, _ = session_of([5, None, 50, 500], Policy(files_in_flight=2, files_ahead=1))
    assert [key for key, _ in session.fill(0.0)] == ["3", "2", "0"]
    assert session.next_deadline() == float("inf")
    began = session.handle("3", ev.FoundPublished(), 0.0)
    assert began == [("3", act.Finish(another=True)), ("1", act.Prepare(journaled=True))]


def test_a_locked_file_makes_room() -> None:
    """A file that waits for another process keeps no other from starting."""
    session, _ = session_of([500, 50, 5], Policy(files_in_flight=1, files_ahead=0))
    session.fill(0.0)
    assert session.handle("0", ev.LockBusy("x"), 0.0) == [("1", act.Prepare(journaled=False))]
    assert session.next_deadline() == 0.5
    assert session.tick(0.4) == []
    assert session.tick(0.5) == [("0", act.Prepare(journaled=False))]


def test_cancelling_a_run() -> None:
    """Files that wait end at once, those at work when they may; then the run is over."""
    session, _ = session_of([500, 5], Policy(files_in_flight=1, files_ahead=0))
    session.fill(0.0)
    assert session.handle(None, ev.Cancelled(), 0.0) == [("1", act.Fail("cancelled"))]
    assert not session.over
    assert session.handle("0", ev.Prepared(), 0.0) == [("0", act.Fail("cancelled"))]
    assert session.over


def test_cancelling_one_that_waits() -> None:
    """A file that is cancelled before its turn has no turn."""
    session, _ = session_of([500, 5], Policy(files_in_flight=1, files_ahead=0))
    session.fill(0.0)
    assert session.handle("1", ev.Cancelled(), 0.0) == [("1", act.Fail("cancelled"))]
    session.handle("0", ev.FoundPublished(), 0.0)
    assert session.over


@pytest.mark.parametrize("event", [ev.Published(), ev.BytesWritten(0, 1, 1), ev.Cancelled()])
def test_the_end_is_the_end(event: ev.Event) -> None:
    """Whatever is said after the end is not answered."""
    line = Line(prepare=False)
    line.tell(ev.FoundPublished())
    line.tell(event)
    assert line.out == []
    assert line.download.fill(1.0) == []


def test_a_stream_that_never_gets_further_is_given_up() -> None:
    """A source without ranges that breaks at one place again and again is left after so many tries, bytes kept."""
    line = Line(policy=Policy(one_stream_failures=3))
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    line.close(1, kind=FailureKind.RANGE_IGNORED)
    for connection in range(2, 6):  # the first of these brings bytes
        assert [order.whole for order in line.of(act.OpenRange)] == [True]
        line.respond(connection)
        line.close(connection, 5 * MIB, FailureKind.BROKEN)
        if line.download.over:
            break
        line.wait()
    assert connection == 4
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.resumable_bytes) == ("exhausted", 5 * MIB)


def test_only_the_last_of_many_events_reassigns_capacity() -> None:
    """While more events follow at once nobody is asked what could be used; after the last one all are."""
    session, _ = session_of([500, 50], Policy(files_in_flight=1, files_ahead=0))
    session.fill(0.0)
    assert session.handle("0", ev.FoundPublished(), 0.0, more=True) == [("0", act.Finish(another=True))]
    assert session.handle("1", ev.TimerFired(), 0.0) == [("1", act.Prepare(journaled=False))]

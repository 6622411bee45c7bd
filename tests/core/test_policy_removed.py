"""Each number of the policy does what its sentence says: a small scenario ends otherwise without it."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from dataclasses import replace as changed
from pathlib import Path
from typing import Any

import pytest

from core.line import Line
from core.small_line import asked, dropped, page, steady
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core import policy as module
from resume_dl.core.awake_time import AwakeTime
from resume_dl.core.download import Download
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import KIB, MIB, Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.session import Session
from resume_dl.core.sources import SourceState

NIGHT = 8 * 3600.0
MANY = 10**12
"""Stands for infinity where a count of bytes or tries is wanted."""
QUIET = Policy(
    per_host=1,
    give_up_after=math.inf,
    unreached_give_up=math.inf,
    sync_bytes=MANY,
    sync_seconds=math.inf,
    digest_step=MANY,
)
"""One connection a host, no end, no syncs: most scenarios are about something else."""
TRICKLES = [steady(0.2)] * 3
LONG = changed(QUIET, first_segment=MANY)
"""One lease has all there is."""


@dataclass(frozen=True)
class Case:
    """``play`` gives ``kept`` under the policy, and ``lost`` with the field ``removed``.

    ``base``: the policy of both; ``value`` is the field's in the first, where not the base's.
    """

    play: Callable[[Policy], Any]
    kept: Any
    removed: Any
    lost: Any
    base: Policy = QUIET
    value: Any = None


# ---------------------------------------------------------------------- scenarios: connections and hosts


def opened(policy: Policy, *, hosts: str = "a", size: int = 100 * MIB) -> int:
    """Connections that a file opens at once."""
    return len(Line(size, hosts, policy=policy).leases)


def room_of_a_mirror_that_allows_four(policy: Policy) -> int:
    return Budget(policy).host("a", 4).limit


def begun(policy: Policy) -> int:
    """How many of twenty files have their journals read at the start."""
    session, budget = Session(policy), Budget(policy)
    for number in range(20):
        sources = [SourceState("https://a/", "a")]
        session.add(str(number), Download(size=1, sources=sources, budget=budget, policy=policy, jitter=lambda: 0.5))
    return len(session.fill(0.0))


def kept_by_a_fast_host(policy: Policy) -> int:
    """Connections left to a host, once each of its two has brought 100 MiB a second."""
    line = Line(900 * MIB, policy=policy)
    for connection in (0, 1):
        line.respond(connection)
    line.now = 0.1
    for connection in (0, 1):
        line.bytes_to(connection, line.download.connections[connection].position + 10 * MIB)
    return sum(not one.closing for one in line.download.connections.values())


def room_after_failures(policy: Policy, *, later: float = 0.0) -> int:
    """Connections that a host may have after three failures."""
    budget, taken = Budget(policy), 0
    for _ in range(3):
        budget.failed("a", 0.0, rests_until=0.0)
    while budget.may_take("a", later):
        budget.take("a")
        taken += 1
    return taken


def place_for_a_better_host(policy: Policy) -> list[int]:
    """Which connections are closed, when another host is known to be a hundred times faster."""
    budget = Budget(policy)
    line = Line(900 * MIB, "ab", policy=policy, budget=budget)
    line.respond()
    budget.note_speed("b", 10.0 * MIB, steady=True)
    for second in range(1, 9):
        line.now = float(second)
        line.bytes_to(0, second * 100 * KIB)
        help_out(line)
    return [action.connection for action in line.of(act.CloseConnection, ever=True)]


# ---------------------------------------------------------------------- scenarios: leases


def first_leases(policy: Policy, *, size: int = 100 * MIB, hosts: str = "a") -> list[tuple[int, int | None]]:
    return Line(size, hosts, policy=policy).leases


def journaled(policy: Policy) -> bool:
    return Line(MIB - 1, policy=policy).of(act.Prepare, ever=True)[0].journaled


def second_lease(policy: Policy) -> list[tuple[int, int | None]]:
    """What a connection is asked for next, after 4 MiB at 1 MiB a second."""
    line = Line(policy=policy)
    line.respond()
    for second in range(1, 5):
        line.now = float(second)
        line.bytes_to(0, second * MIB)
    line.close(0)
    return line.leases


def help_out(line: Line) -> None:
    """Let idle connections look for others' work, as the session does when each file had its turn."""
    out = line.out
    line.keep(line.download.fill(line.now, help_out=True))
    line.out = out + line.out


def taken_over(
    policy: Policy, *, rest: int, speed: float, helper: float = 4.0 * MIB, size: int = 100 * MIB, pause: float = 0.0
) -> list[act.Action]:
    """What an idle host does about the last ``rest`` bytes, which another brings at ``speed`` bytes a second."""
    budget = Budget(policy)
    came = int(10 * speed)
    line = Line(size, "ab", policy=policy, budget=budget, resumed=ev.Prepared(((0, size - rest - came),), size))
    assert len(line.download.connections) == 1
    budget.note_speed("b", helper, steady=True)
    line.respond()
    for tenth in range(1, 101):
        line.now = tenth / 10
        line.bytes_to(0, size - rest - came + came * tenth // 100)
    line.now += pause
    line.log.clear()
    help_out(line)
    return [action for action in line.log if isinstance(action, act.ShortenLease | act.CloseConnection | act.OpenRange)]


def stolen(policy: Policy, **scene: Any) -> bool:
    return any(isinstance(each, act.ShortenLease | act.CloseConnection) for each in taken_over(policy, **scene))


def is_split(policy: Policy) -> bool:
    """Whether a file without a digest gets a second connection where two seconds are left."""
    line = Line(30 * MIB, digest=False, policy=changed(policy, per_host=2))
    line.tell(ev.ResponseStarted(0, 30 * MIB, '"v"', ranges=True))
    for tenth in range(1, 41):
        line.now = tenth / 10
        line.bytes_to(0, tenth * MIB // 2)
    line.keep(line.download.fill(line.now, help_out=True))
    return bool(line.of(act.ShortenLease))


def given_up(policy: Policy, **scene: Any) -> bool:
    return any(isinstance(each, act.CloseConnection) for each in taken_over(policy, **scene))


def duplicated(policy: Policy, **scene: Any) -> bool:
    return any(isinstance(each, act.OpenRange) and each.mode is act.Mode.HOLD for each in taken_over(policy, **scene))


def grain(policy: Policy) -> bool:
    """Whether a lease is cut where a TLS record may end."""
    (cut,) = [each for each in taken_over(policy, rest=8 * MIB, speed=300_001.0) if isinstance(each, act.ShortenLease)]
    return cut.end % (16 * KIB) == 0


# ---------------------------------------------------------------------- scenarios: time


def room_after_an_answer(policy: Policy) -> int:
    """Connections that an unhealthy host may have once new bytes came from it."""
    budget, taken = Budget(policy), 0
    for _ in range(3):
        budget.failed("a", 0.0, rests_until=0.0)
    budget.progressed("a")
    while budget.may_take("a", 0.0):
        budget.take("a")
        taken += 1
    return taken


def replaced_on_a_slow_line(policy: Policy) -> bool:
    """Whether one is replaced of two connections that both have become a tenth of what they were."""
    line = Line(900 * MIB, "ab", policy=policy)
    for number in range(2):
        line.respond(number)
    for second in range(1, 41):
        line.wait_until(float(second))
        for number in range(2):
            one = line.download.connections[number]
            if one.closing:
                return True
            line.bytes_to(number, one.position + (4 * MIB if second <= 20 else 400 * KIB))
    return False


def replaced_when_slow(policy: Policy) -> bool:
    """Whether a connection is replaced that brought 4 MiB a second, and then a fortieth of it for half a minute."""
    line = Line(900 * MIB, policy=policy)
    line.respond()
    at = 0
    for second in range(1, 51):
        at += 4 * MIB if second <= 20 else 100 * KIB
        line.wait_until(float(second))
        if line.download.connections[0].closing:
            return True
        line.bytes_to(0, at)
    return False


def slow_for(policy: Policy) -> bool:
    """Whether a connection is replaced that was too slow for some seconds and is well again."""
    line = Line(900 * MIB, policy=policy)
    line.respond()
    at = 0
    for tenth in range(1, 600):
        at += MIB // 100 if 300 <= tenth < 380 else 4 * MIB // 10
        line.wait_until(tenth / 10)
        if line.download.connections[0].closing:
            return True
        line.bytes_to(0, at)
    return False


def dismissed_at_once(policy: Policy) -> bool:
    """Whether a connection that has brought all it was asked for is closed before its answer has ended."""
    line = Line(4 * MIB, policy=policy)
    line.respond()
    line.bytes_to(0, 4 * MIB)
    return bool(line.of(act.CloseConnection))


def syncs(policy: Policy, *, came: int, seconds: float) -> int:
    """How often data are synced within some seconds after so many bytes came at once."""
    line = Line(policy=policy)
    line.respond()
    line.bytes_to(0, came)
    line.wait_until(seconds)
    return len(line.of(act.SyncData, ever=True))


def hashed(policy: Policy, *, came: int) -> list[int]:
    """How far the digest is sent once so many bytes came."""
    line = Line(policy=policy)
    line.respond()
    line.bytes_to(0, came)
    return [action.upto for action in line.of(act.AdvanceDigest)]


def source_asked_second(policy: Policy) -> float:
    """When the second of two sources is asked, where the first takes the request and never answers."""
    line = Line(None, "ab", policy=policy)
    while line.now < 30.0:
        line.wait_until(line.now + 1.0)
        line.keep(line.download.fill(line.now))
        for number, one in list(line.download.connections.items()):
            if one.source == 1:
                return line.now
            if one.closing:
                line.close(number)
    return line.now


def closed_when_silent(policy: Policy, *, answered: bool) -> float:
    """When a connection is closed that says nothing more."""
    line = Line(policy=policy)
    if answered:
        line.respond()
    while not line.of(act.CloseConnection) and line.download.next_deadline() < math.inf:
        line.wait()
    return line.now if line.of(act.CloseConnection) else math.inf


def waits(policy: Policy, most: int) -> list[float]:
    """How long the first so many requests wait for an answer that never comes."""
    line = Line(policy=policy)
    waited: list[float] = []
    while len(waited) < most and not line.download.over:
        line.wait()
        for number, one in list(line.download.connections.items()):
            if one.closing:
                waited.append(line.now - one.opened_at)
                line.close(number)
    return waited


def pauses(policy: Policy, failures: int) -> float:
    """The last of the pauses after so many failures."""
    line = Line(policy=policy)
    pause = 0.0
    for _ in range(failures):
        began = line.now
        line.close(max(line.download.connections), kind=FailureKind.UNREACHABLE)
        while not line.download.connections:
            line.wait()
        pause = line.now - began
    return pause


def asked_again_at(policy: Policy) -> float:
    """When a host is asked again that wants an hour's rest."""
    line = Line(policy=policy)
    line.close(0, kind=FailureKind.THROTTLED, retry_after=3600.0)
    while not line.download.connections:
        line.wait()
    return line.now


def given_up_at(policy: Policy, *, reached: bool, replaceable: bool = False) -> float:
    """When a file ends whose connections all fail, the first perhaps after an answer."""
    line = Line(policy=policy, replaceable=replaceable)
    if reached:
        line.respond()
    while line.now < 2000.0:
        for connection in list(line.download.connections):
            line.close(connection, kind=FailureKind.UNREACHABLE)
        if line.download.over:
            return line.now
        line.wait()
    return math.inf


def no_network_at(policy: Policy) -> float:
    """When a file is given up of whose two hosts none resolves."""
    line = Line(hosts="ab", policy=policy)
    while not line.download.over:
        for connection, live in list(line.download.connections.items()):
            line.close(connection, kind=FailureKind.UNREACHABLE, unresolved=live.host)
        line.wait()
    return line.now


def awake_after_a_night(policy: Policy) -> float:
    """How long a night is for a process that slept through it."""
    time = AwakeTime(policy.longest_step)
    return -time.read(0.0) + time.read(NIGHT)


def closed_after_a_sleep(policy: Policy) -> float:
    """When a connection is closed that brings nothing after a sleep."""
    line = Line(policy=policy)
    line.respond()
    line.respond(1)
    line.tell(ev.Awoke(NIGHT))
    return line.download.next_deadline()


def busy(policy: Policy) -> Line:
    """A file that another process has."""
    line = Line(policy=policy, prepare=False)
    line.tell(ev.LockBusy("process 7"))
    return line


def sources_tried(policy: Policy, *, digest: bool) -> set[int]:
    """Who is asked while the first source breaks ten times without a byte."""
    line = Line(hosts="ab", policy=policy, digest=digest)
    line.respond(0, validator='"1"')
    line.bytes_to(0, MIB)
    for _ in range(10):
        line.close(max(line.download.connections), kind=FailureKind.BROKEN)
        while not line.download.connections:
            line.wait()
    return {order.source for order in line.of(act.OpenRange, ever=True)}


def streams_in_vain(policy: Policy) -> int:
    """How often a source without ranges is asked that always breaks at one place; twenty are enough."""
    line = Line(policy=policy)
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    for number in range(1, 21):
        newest = max(line.download.connections)
        line.respond(newest)
        line.close(newest, 5 * MIB, FailureKind.BROKEN)
        if line.download.over:
            return number
        while not line.download.connections:
            line.wait()
    return number


# ---------------------------------------------------------------------- scenarios: who lied


def comparisons(policy: Policy) -> tuple[list[int], str]:
    """The lengths of the comparisons after a wrong digest, where both sources agree; and what that comes to."""
    line = Line(40 * MIB, "ab", policy=policy, thorough=False)
    for connection, position in ((0, 20 * MIB), (1, 40 * MIB)):
        line.respond(connection)
        line.close(connection, position)
    line.tell(ev.DigestChecked(matches=False, expected="a", actual="b"))
    line.tell(ev.DamageLocated(None))
    lengths = []
    while not line.download.over:
        number, one = min(line.download.connections.items())
        assert one.mode is act.Mode.COMPARE
        end = one.end(None)
        lengths.append(end - one.lease.start)
        line.respond(number)
        line.tell(ev.RangeCompared(number, end, end - one.lease.start))
        if number in line.download.connections:
            line.close(number)
    return lengths, line.of(act.Fail, ever=True)[0].reason


def compared_alone(policy: Policy) -> tuple[int, int]:
    """How many comparisons end before two are under way at once, and how many are then."""
    line = Line(40 * MIB, "ab", policy=policy)
    for connection, position in ((0, 20 * MIB), (1, 40 * MIB)):
        line.respond(connection)
        line.now += 9.0
        line.close(connection, position)
    line.tell(ev.DigestChecked(matches=False, expected="a", actual="b"))
    line.tell(ev.DamageLocated(None))
    count = 0
    while len(line.download.connections) == 1:
        line.now += 1.0
        ((number, one),) = line.download.connections.items()
        line.respond(number)
        line.tell(ev.RangeCompared(number, one.end(None), one.end(None) - one.lease.start))
        line.close(number)
        count += 1
    return count, len(line.download.connections)


def first_comparison(policy: Policy) -> int:
    return comparisons(policy)[0][0]


def longest_comparison(policy: Policy) -> int:
    return max(comparisons(policy)[0])


def verdict(policy: Policy) -> str:
    return comparisons(policy)[1]


# ---------------------------------------------------------------------- the table

SLOW = {"rest": MIB, "speed": 100.0 * KIB}
"""A file's last megabyte at 100 KiB a second: ten seconds, where another host would need a quarter."""
HALVES = changed(QUIET, first_segment=20 * MIB)
BULK = changed(LONG, sync_bytes=16 * MIB)
WIDE = changed(QUIET, first_segment=200 * MIB, window=MANY)
NO_ENDGAME = changed(LONG, endgame_bytes=0)

CASES: dict[str, Case] = {
    "connections": Case(lambda p: opened(p, hosts="abcdefghij"), 8, MANY, 10),
    "per_host": Case(opened, 2, 5, 5, Policy()),
    "per_host_is_explicit": Case(room_of_a_mirror_that_allows_four, 2, False, 4, Policy(), value=True),
    "files_in_flight": Case(begun, 12, MANY, 20),
    "files_ahead": Case(begun, 12, 0, 8),
    "fast_connection": Case(kept_by_a_fast_host, 1, math.inf, 2, changed(QUIET, per_host=2)),
    "unhealthy_from": Case(room_after_failures, 1, math.inf, 2, Policy()),
    "health_half_life": Case(lambda p: room_after_failures(p, later=1200.0), 2, math.inf, 1, Policy()),
    "recovery": Case(room_after_an_answer, 2, 1.0, 1, Policy()),
    "piece_size": Case(first_leases, [(0, 2 * MIB)], 1, [(0, MIB + 1)], changed(QUIET, first_segment=MIB + 1)),
    "small_file": Case(
        lambda p: first_leases(p, size=4 * MIB, hosts="ab"),
        [(0, None)],
        0,
        [(0, 2 * MIB), (2 * MIB, 4 * MIB)],
        changed(QUIET, first_segment=2 * MIB),
    ),
    "journal_from": Case(journaled, False, 0, True),
    "first_segment": Case(first_leases, [(0, 4 * MIB)], MANY, [(0, 100 * MIB)]),
    "segment_seconds": Case(
        second_lease, [(4 * MIB, 14 * MIB)], math.inf, [(4 * MIB, 100 * MIB)], changed(QUIET, window=MANY)
    ),
    "window": Case(
        lambda p: first_leases(p, size=900 * MIB),
        [(0, 128 * MIB)],
        MANY,
        [(0, 500 * MIB)],
        changed(QUIET, first_segment=500 * MIB),
    ),
    "rebalance": Case(lambda p: stolen(p, **SLOW), True, False, False, NO_ENDGAME),
    # a tenth of a second could be gained
    "split_seconds": Case(is_split, False, 0.0, True),
    "steal_gain": Case(lambda p: stolen(p, rest=200 * KIB, speed=MIB, helper=1.0 * MIB), False, 0.0, True, NO_ENDGAME),
    "steal_least": Case(lambda p: stolen(p, rest=60 * KIB, speed=20.0 * KIB), False, 1, True, NO_ENDGAME),
    "steal_grain": Case(grain, True, 1, False, NO_ENDGAME),
    "silent_seconds": Case(lambda p: given_up(p, **SLOW, pause=3.0), True, math.inf, False, NO_ENDGAME),
    "endgame_bytes": Case(lambda p: duplicated(p, **SLOW), True, 0, False, LONG),
    "endgame_ratio": Case(lambda p: duplicated(p, rest=MIB, speed=MIB, helper=1.0 * MIB), False, 0.0, True, LONG),
    "endgame_share": Case(lambda p: duplicated(p, rest=3 * MIB, speed=100.0 * KIB), False, 1.0, True, LONG),
    "slow_share": Case(replaced_when_slow, True, 0.0, False),
    "line_share": Case(replaced_on_a_slow_line, False, 0.0, True, WIDE),
    "slow_seconds": Case(slow_for, False, 0.0, True),
    "better_host": Case(place_for_a_better_host, [0], math.inf, [], changed(QUIET, connections=1)),
    "farewell_seconds": Case(dismissed_at_once, False, 0.0, True),
    "sync_bytes": Case(lambda p: syncs(p, came=20 * MIB, seconds=1.0), 1, MANY, 0, LONG, value=16 * MIB),
    "sync_least_seconds": Case(lambda p: syncs(p, came=20 * MIB, seconds=0.0), 0, 0.0, 1, BULK),
    "sync_seconds": Case(lambda p: syncs(p, came=MIB, seconds=5.0), 1, math.inf, 0, value=2.0),
    "digest_step": Case(lambda p: hashed(p, came=MIB), [], 1, [MIB], value=8 * MIB),
    "digest_most": Case(
        lambda p: hashed(p, came=90 * MIB), [64 * MIB], MANY, [90 * MIB], changed(LONG, digest_step=8 * MIB)
    ),
    "compare_block": Case(first_comparison, 128 * KIB, MANY, MIB, HALVES),
    "compare_step": Case(longest_comparison, MIB, 4 * MIB, 4 * MIB, HALVES),
    "compare_look": Case(compared_alone, (10, 2), 0, (1, 2), HALVES),
    "compare_ahead": Case(compared_alone, (1, 2), 0, (0, 2), changed(HALVES, per_host=2, compare_look=0)),
    "dispute_bytes": Case(verdict, "disputed", MANY, "record", HALVES),
    "stall_seconds": Case(lambda p: closed_when_silent(p, answered=True), 10.0, math.inf, math.inf),
    "first_answer_seconds": Case(source_asked_second, 6.0, math.inf, 21.0),
    "first_byte_seconds": Case(lambda p: closed_when_silent(p, answered=False), 20.0, math.inf, math.inf),
    "first_byte_most": Case(lambda p: waits(p, 4), [20.0, 40.0, 60.0, 60.0], 0.0, [20.0] * 4),
    "page_look_seconds": Case(
        lambda p: asked(page(p, TRICKLES, until=9.0)), [(0.0, 0), (5.0, 1)], math.inf, [(0.0, 0)]
    ),
    "page_rate": Case(lambda p: len(asked(page(p, [steady(1000.0)] * 2))), 2, 0.0, 1),
    "page_requests": Case(lambda p: len(asked(page(p, TRICKLES, until=19.0))), 2, MANY, 3),
    "page_least_rate": Case(lambda p: dropped(page(p, [steady(50.0)] * 3)), 20.0, 0.0, None),
    "page_trickle_seconds": Case(lambda p: dropped(page(p, TRICKLES)), 20.0, math.inf, None),
    "backoff_first": Case(lambda p: pauses(p, 1), 0.25, 0.0, 0.0),
    "backoff_most": Case(lambda p: pauses(p, 12), 15.0, math.inf, 512.0),
    "retry_after_most": Case(asked_again_at, 120.0, math.inf, 3600.0),
    "give_up_after": Case(lambda p: given_up_at(p, reached=True), 600.0, math.inf, math.inf, value=600.0),
    "unreached_give_up": Case(lambda p: given_up_at(p, reached=False), 25.0, math.inf, math.inf, value=25.0),
    "authority_give_up": Case(lambda p: given_up_at(p, reached=True, replaceable=True), 8.0, math.inf, math.inf),
    "unresolved_give_up": Case(no_network_at, 1.0, math.inf, 25.0, Policy(per_host=1)),
    "silent_give_up": Case(lambda p: len(waits(p, 9)), 4, 0.0, 2, Policy(per_host=1)),
    "lock_retry": Case(lambda p: busy(p).download.next_deadline(), 0.5, math.inf, math.inf),
    "longest_step": Case(awake_after_a_night, 2.0, math.inf, NIGHT),
    "awake_seconds": Case(closed_after_a_sleep, 3.0, math.inf, math.inf),
    "wait_for_lock": Case(lambda p: busy(p).download.over, True, True, False, value=False),
    "solo_failures": Case(lambda p: sources_tried(p, digest=False), {0, 1}, MANY, {0}),
    "one_stream_failures": Case(streams_in_vain, 4, MANY, 20),
    "speed_half_life": Case(replaced_when_slow, True, math.inf, False),
}
ELSEWHERE: Sequence[str] = ("blocked_seconds",)
"""Fields that the core only keeps for others: what a host was blocked for is remembered in a file."""


@pytest.mark.parametrize("name", CASES)
def test_each_policy_field_changes_the_outcome(name: str) -> None:
    """Under the policy the scenario ends as promised; with the field taken out of force it ends as the table says."""
    case = CASES[name]
    policy = case.base if case.value is None else changed(case.base, **{name: case.value})
    assert case.kept != case.lost
    assert case.play(policy) == case.kept
    assert case.play(changed(policy, **{name: case.removed})) == case.lost


def test_every_field_has_a_case() -> None:
    """A number that nobody has shown to matter does not belong here."""
    assert {field.name for field in fields(Policy)} == {*CASES, *ELSEWHERE}


def test_every_field_is_in_the_description_of_the_engine() -> None:
    """docs/engine.md names each field in brackets, behind its number."""
    page = Path(__file__).resolve().parents[2] / "docs" / "engine.md"
    named = set(re.findall(r"`(\w+)", " ".join(re.findall(r"\[(`[^\]]*)\]", page.read_text(encoding="utf-8")))))
    assert {field.name for field in fields(Policy)} - named == set()


def test_every_field_says_why() -> None:
    """Each field, or a pair of fields that are one policy, is followed by a sentence."""
    body = ast.parse(inspect.getsource(module)).body
    (made,) = [node for node in body if isinstance(node, ast.ClassDef) and node.name == "Policy"]
    silent: list[str] = []
    for node in made.body[1:]:
        if isinstance(node, ast.AnnAssign):
            assert isinstance(node.target, ast.Name)
            silent.append(node.target.id)
        elif isinstance(node, ast.Expr):
            assert isinstance(node.value, ast.Constant)
            said = node.value.value
            assert isinstance(said, str)
            assert said.strip().endswith(("...", ".", ":")), said
            assert 1 <= len(silent) <= 2, f"two fields at most share a sentence: {silent}"
            silent = []
    assert silent == []

"""A process that was stopped, a machine that was suspended: no progress was missed, and no source is to blame."""

from __future__ import annotations

from dataclasses import replace as changed

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.awake_time import AwakeTime
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy

ONE = Policy(per_host=1, sync_seconds=1e9, sync_bytes=10**12, digest_step=10**12)
NIGHT = 8 * 3600.0


class Sleeper:
    """A line whose clock runs on while it sleeps; the engine looks at it five times a second."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.clock = 1000.0
        self._time = AwakeTime(line.policy.longest_step)
        self._began = self._time.read(self.clock)
        self._slept = 0.0

    def look(self, step: float = 0.2) -> None:
        """As the engine's loop: read the clock, tell of a sleep, fire what is due."""
        self.clock += step
        self.line.now = self._time.read(self.clock) - self._began
        if self._time.slept > self._slept:
            self.line.tell(ev.Awoke(self._time.slept - self._slept))
            self._slept = self._time.slept
        while self.line.download.next_deadline() <= self.line.now:
            self.line.tell(ev.TimerFired())
            self.answer_closing()

    def answer_closing(self) -> None:
        for number, one in list(self.line.download.connections.items()):
            if one.closing:
                self.line.close(number)

    def wait(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.2)):
            self.look()


@pytest.mark.parametrize("patience", [5.0, 600.0])
@pytest.mark.parametrize("answered", [True, False])
def test_a_sleep_is_not_a_lack_of_progress(patience: float, answered: bool) -> None:
    """After the sleep the source is asked again, nothing has failed, and the download ends well."""
    policy = changed(ONE, give_up_after=patience, unreached_give_up=patience, first_segment=100 * MIB)
    line = Line(policy=policy)
    sleeper = Sleeper(line)
    if answered:
        line.respond()
        line.bytes_to(0, MIB)
    sleeper.wait(2.0)
    sleeper.look(NIGHT)
    assert not line.download.over
    sleeper.wait(4.0)
    assert line.of(act.CloseConnection, ever=True) == [act.CloseConnection(0)]
    assert [order.connection for order in line.of(act.OpenRange, ever=True)] == [0, 1]
    assert line.of(act.NoteFailure, ever=True) == []
    assert line.download.sources[0].failures_in_a_row == 0
    while line.download.connections:
        (newest,) = line.download.connections
        line.respond(newest)
        line.close(newest, line.download.connections[newest].end(100 * MIB))
    assert line.out == [act.CheckDigest()]


def test_a_connection_that_survived_goes_on() -> None:
    """Bytes or a head after the sleep: it is not replaced, and has its whole time again."""
    line = Line(hosts="ab", policy=ONE)
    sleeper = Sleeper(line)
    line.respond(0)
    sleeper.look(NIGHT)
    line.bytes_to(0, 1)
    line.respond(1)
    sleeper.wait(9.0)
    assert line.of(act.CloseConnection, ever=True) == []
    sleeper.wait(2.0)
    assert {close.connection for close in line.of(act.CloseConnection, ever=True)} == {0, 1}
    assert {note.failure.kind for note in line.of(act.NoteFailure, ever=True)} == {FailureKind.STALLED}


@pytest.mark.parametrize("kind", [FailureKind.BROKEN, FailureKind.STALLED, FailureKind.UNREACHABLE])
def test_what_broke_in_the_sleep_is_asked_for_again_at_once(kind: FailureKind) -> None:
    """A reset or a time-out that a connection wakes up to costs no back-off, and does not count against its host."""
    line = Line(policy=ONE)
    sleeper = Sleeper(line)
    line.respond()
    line.bytes_to(0, MIB)
    sleeper.look(NIGHT)
    line.close(0, MIB, kind)
    assert [order.start for order in line.of(act.OpenRange)] == [MIB]
    assert line.of(act.NoteFailure, ever=True) == []
    assert line.download._budget.host("a").failure_score == 0.0


def test_an_answer_in_the_sleep_still_counts() -> None:
    """What a server says for itself, as that it lacks the file, holds whenever it was said."""
    line = Line(policy=ONE)
    Sleeper(line).look(NIGHT)
    line.tell(ev.Awoke(NIGHT))
    line.close(0, kind=FailureKind.LACKS)
    assert line.of(act.Fail)[0].reason == "lacking"


@pytest.mark.parametrize("validator", [None, '"v"'])
def test_without_a_digest_only_a_validator_continues_what_slept(validator: str | None) -> None:
    """A stream that the sleep broke is continued under its validator; without one the file begins anew."""
    line = Line(digest=False, policy=ONE)
    line.respond(validator=validator)
    line.bytes_to(0, MIB)
    line.tell(ev.Awoke(NIGHT))
    line.close(0, MIB, FailureKind.BROKEN)
    (order,) = line.of(act.OpenRange)
    assert (order.start, order.if_range) == ((0, None) if validator is None else (MIB, validator))
    assert line.of(act.DiscardPieces) == ([act.DiscardPieces()] if validator is None else [])


@pytest.mark.parametrize("validator", [None, '"v"'])
def test_bytes_that_are_told_only_as_it_is_closed(validator: str | None) -> None:
    """Written after the sleep, told with the last word of a connection that was closed for its silence: as above."""
    line = Line(digest=False, policy=ONE)
    line.respond(validator=validator)
    line.tell(ev.Awoke(NIGHT))
    line.wait_until(ONE.awake_seconds)
    assert line.of(act.CloseConnection, ever=True) == [act.CloseConnection(0)]
    line.close(0, MIB)
    (order,) = line.of(act.OpenRange)
    assert (order.start, order.if_range) == ((0, None) if validator is None else (MIB, validator))
    assert line.of(act.DiscardPieces) == ([act.DiscardPieces()] if validator is None else [])


def test_the_give_up_timer_restarts_after_sleep() -> None:
    """A file that made no progress before the sleep has its whole patience after it, and not for ever."""
    line = Line(policy=Policy(per_host=1, give_up_after=30.0, stall_seconds=1e6, sync_seconds=1e9))
    sleeper = Sleeper(line)
    line.respond()
    line.bytes_to(0, 1)
    sleeper.wait(29.0)
    sleeper.look(9.0)
    sleeper.wait(29.0)
    assert not line.download.over
    sleeper.wait(2.0)
    assert line.of(act.Fail, ever=True)[0].reason == "exhausted"


def test_a_short_stop_doubts_no_connection() -> None:
    """Connections outlive a few seconds: one that is slow to answer is not asked anew for them."""
    line = Line(policy=ONE)
    sleeper = Sleeper(line)
    sleeper.look(9.0)
    sleeper.wait(10.0)
    assert line.of(act.CloseConnection, ever=True) == []


def test_time_without_sleep() -> None:
    """Steps up to the longest count as they are, longer ones as the longest; a clock that goes back stands still."""
    time = AwakeTime(2.0)
    assert [time.read(clock) for clock in (10.0, 11.5, 13.5, 100.0, 100.5, 99.0, 101.0)] == [
        10.0,
        11.5,
        13.5,
        15.5,
        16.0,
        16.0,
        16.5,
    ]
    assert time.slept == 84.5

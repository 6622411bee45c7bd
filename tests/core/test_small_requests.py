"""A page that comes too slowly is asked of another source as well; one that only keeps time-outs away is ended."""

from __future__ import annotations

import math

from core.small_line import asked, dropped, page, steady
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import KIB, Policy
from resume_dl.core.small_requests import Ask, Rest, SmallRequest, next_step
from resume_dl.core.sources import SourceState

POLICY = Policy()
TRICKLE = steady(0.2)


def test_a_trickle_is_doubled_and_then_ended():
    """One byte every five seconds: the next source is asked after five, and the first one is left after twenty."""
    log = page(POLICY, [TRICKLE, steady(100 * KIB)], until=21.0)
    assert log == [(0.0, "ask 0"), (5.0, "ask 1"), (20.0, "drop 0: less than 100 bytes came a second")]


def test_a_slow_line_is_left_alone():
    """A page of 2 MB at 100 KB/s takes twenty seconds, and nothing else is asked for it."""
    assert asked(page(POLICY, [steady(100_000), steady(100_000)], until=20.0)) == [(0.0, 0)]


def test_on_a_line_that_is_slow_for_all_nothing_is_doubled():
    """What others brought tells a slow line from a slow source."""
    slow = [steady(2_000), steady(2_000)]
    assert asked(page(POLICY, slow)) == [(0.0, 0), (5.0, 1)]
    assert asked(page(POLICY, slow, best=4_000.0)) == [(0.0, 0)]
    assert asked(page(POLICY, slow, best=400_000.0)) == [(0.0, 0), (5.0, 1)]


def test_a_pause_is_no_trickle():
    """Whatever came before, one good look within twenty seconds keeps a request alive."""

    def comes_and_goes(seconds: float) -> float:
        return 5_000.0 * (seconds // 15)

    assert dropped(page(POLICY, [comes_and_goes, TRICKLE], until=19.0)) is None
    assert not [what for _, what in page(POLICY, [comes_and_goes], ends=10.0, until=200.0) if what.startswith("drop")]


def test_a_request_that_slows_down_is_seen():
    """What came long ago does not hide that next to nothing comes now."""

    def stops(seconds: float) -> float:
        return min(seconds, 10.0) * 200_000 + seconds

    assert asked(page(POLICY, [stops, steady(100 * KIB)], until=30.0)) == [(0.0, 0), (15.0, 1)]
    assert dropped(page(POLICY, [stops, steady(100 * KIB)], until=60.0)) == 30.0


def test_a_lone_trickle_has_the_time_that_there_is():
    """Nothing better can be had: it is ended when the time is over, and then nothing is asked any more."""
    log = page(POLICY, [TRICKLE], ends=40.0)
    assert log == [(0.0, "ask 0"), (40.0, "drop 0: less than 100 bytes came a second"), (40.0, "over")]
    assert dropped(page(POLICY, [TRICKLE], until=3_000.0)) is None


def test_silence_before_the_first_byte_has_its_own_limit():
    """A proxy that fetches all of it first is no trickle, but it is doubled; a head that never ends is ended."""
    silent = steady(0.0)
    log = page(POLICY, [silent, silent], ends=600.0, until=29.0)
    assert asked(log) == [(0.0, 0), (5.0, 1)]
    assert dropped(log) is None
    log = page(POLICY, [silent, steady(100 * KIB)], ends=600.0, until=60.0)
    assert [what for _, what in log if what.startswith("drop")] == ["drop 0: no whole answer within 30 s"]
    assert dropped(page(POLICY, [silent])) is None  # it may take as long as it takes


def test_what_writes_into_one_place_is_not_doubled():
    assert asked(page(POLICY, [TRICKLE, TRICKLE], hedged=False, until=19.0)) == [(0.0, 0)]


def test_a_request_that_waits_for_its_turn_is_doubled_and_never_blamed():
    """Its host is busy with other pages; that is no failure of it."""
    states = [SourceState("0", "0"), SourceState("1", "1")]
    waits = SmallRequest(0, 0.0, 10.0)
    assert next_step(states, [waits], 0.0, {}) == Rest(5.0)
    found = next_step(states, [waits], 5.0, {})
    assert isinstance(found, Ask)
    assert found.source == 1
    assert waits.trouble(1_000.0, POLICY) is None
    waits.begin(100.0)
    assert waits.next_look(POLICY) == 105.0


def test_another_one_that_rests_is_asked_when_it_may():
    states = [SourceState("0", "0"), SourceState("1", "1")]
    states[1].failed(Failure(FailureKind.BROKEN, "broken"), 4.0, POLICY, lambda: 1.0, whole=True)
    one = SmallRequest(0, 0.0)
    assert next_step(states, [one], 4.4, {}) == Rest(5.0)
    states[1].not_before = 6.0
    assert next_step(states, [one], 5.0, {}) == Rest(6.0)
    states[1].not_before = math.inf
    assert next_step(states, [one], 6.0, {}) == Rest(10.0)

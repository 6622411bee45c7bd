"""The token bucket and the speed meter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.core.rate import SpeedMeter, TokenBucket


@given(st.lists(st.tuples(st.integers(1, 5000), st.floats(0, 3)), max_size=40))
def test_never_more_than_the_rate(takes: list[tuple[int, float]]) -> None:
    """Who waits as told spends, over any stretch from the start, at most the rate, one burst and the last chunk."""
    bucket, now, spent = TokenBucket(1000, 50.0), 50.0, 0
    for count, pause in takes:
        now += pause
        spent += count
        now += bucket.take(count, now)
        assert spent <= 1000 * (now - 50.0 + 0.1) + 1e-6


def test_waits_are_shared() -> None:
    """Several takers of one bucket queue behind each other; idle time is saved up only for a burst."""
    bucket = TokenBucket(100, 0.0)
    assert bucket.take(50, 0.0) == pytest.approx(0.5)
    assert bucket.take(50, 0.0) == pytest.approx(1.0)
    assert bucket.take(10, 1000.0) == pytest.approx(0.0)
    assert bucket.take(50, 1000.0) == pytest.approx(0.5)


def test_no_speed_before_there_was_time() -> None:
    """A first burst out of a socket's buffer is no measurement."""
    meter = SpeedMeter(3.0, 0.0)
    assert meter.speed is None
    meter.add(1 << 20, 0.01)
    assert meter.speed is None


def test_a_steady_stream_has_its_speed() -> None:
    """Equal bytes in equal times give their quotient."""
    meter = SpeedMeter(3.0, 0.0)
    for tenth in range(1, 100):
        meter.add(100, tenth / 10)
    assert meter.speed == pytest.approx(1000)


def test_old_speeds_fade_by_half_lives() -> None:
    """After many half-lives at a new speed only the new one is left; a clock that steps back is no time."""
    meter = SpeedMeter(1.0, 0.0)
    for second in range(1, 11):
        meter.add(1000, float(second))
    for second in range(11, 31):
        meter.add(10, float(second))
    assert meter.speed == pytest.approx(10, rel=0.01)
    meter.add(0, 0.0)
    assert meter.speed == pytest.approx(10, rel=0.01)

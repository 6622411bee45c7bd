"""Heuristics of the scheduling that have to pay: simulated seconds and bytes, alike on every machine."""

from __future__ import annotations

import math
from dataclasses import replace as changed

import pytest

from core.simulated_line import Mirror, play
from resume_dl.core.policy import KIB, MIB, Policy

EIGHT_SLOW = [Mirror(name, 50 * KIB) for name in "abcdefgh"]


def seconds_with_a_fast_mirror_among_slow_ones(better_host: float) -> float:
    """200 MiB from nine mirrors, one more than there are connections; the ideal is 12 s."""
    policy = changed(Policy(), better_host=better_host)
    return play([Mirror("fast", 8.0 * MIB), *EIGHT_SLOW], 200 * MIB, policy).seconds


def test_a_much_faster_host_gets_a_connection_back() -> None:
    """Its first lease ends within a second, and its place goes to a host that was not tried yet.

    Without ``better_host`` it is idle until a slow host has brought 4 MiB, 80 s later.
    """
    assert seconds_with_a_fast_mirror_among_slow_ones(Policy().better_host) < 25.0
    assert seconds_with_a_fast_mirror_among_slow_ones(math.inf) > 90.0


@pytest.mark.parametrize(("count", "ideal"), [(5, 100.0), (10, 100.0)])
def test_mirrors_that_limit_a_client_as_a_whole(count: int, ideal: float) -> None:
    """1 MiB a second each, over however many connections: none idles while another has two (8 in all, 2 a host)."""
    mirrors = [Mirror(name, 9.0 * MIB, total=1.0 * MIB) for name in "abcdefghij"[:count]]
    size = min(count, 8) * 100 * MIB
    assert play(mirrors, size).seconds < 1.06 * ideal


def test_mirrors_that_limit_each_connection() -> None:
    """A fast host's second connection still comes before a slow host's first: 16 MiB a second are there, 900 MiB."""
    mirrors = [Mirror(name, rate * MIB) for name, rate in zip("abcde", (4.0, 2.0, 1.0, 1.0, 0.5), strict=True)]
    assert play(mirrors, 900 * MIB).seconds < 1.15 * 900 / 16

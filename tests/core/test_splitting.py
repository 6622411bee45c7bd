"""A file without a digest from a source that limits each connection: more of them, to it alone, under one validator."""

from __future__ import annotations

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.responses import gives_ranges
from resume_dl.model.http import ResponseHead

SLOW = Policy(per_host=2, sync_bytes=10**12, sync_seconds=1e9)


def begun(
    policy: Policy = SLOW, *, speed: float = MIB, validator: str | None = '"v"', ranges: bool = True, hosts: str = "ab"
) -> Line:
    """Four seconds of the one connection at ``speed`` bytes a second; 30 MiB in all."""
    line = Line(30 * MIB, hosts, digest=False, policy=policy)
    line.tell(ev.ResponseStarted(0, 30 * MIB, validator, ranges=ranges))
    for tenth in range(1, 41):
        line.now = tenth / 10
        line.bytes_to(0, int(line.now * speed))
    line.log.clear()
    line.keep(line.download.fill(line.now, help_out=True))
    return line


def split(policy: Policy = SLOW) -> Line:
    """The first connection has let go of its tail, and a second one is asked for it."""
    line = begun(policy)
    (cut,) = line.of(act.ShortenLease)
    line.tell(ev.LeaseShortened(0, cut.end))
    line.keep(line.download.fill(line.now, help_out=True))
    return line


def test_the_tail_is_asked_of_the_same_source_under_the_same_validator() -> None:
    line = split()
    (cut,) = line.of(act.ShortenLease, ever=True)
    (order,) = line.of(act.OpenRange, ever=True)
    assert (order.source, order.start, order.if_range, order.mode) == (0, cut.end, '"v"', act.Mode.WRITE)
    assert not order.whole
    assert 15 * MIB < cut.end < 19 * MIB


def test_one_cut_at_a_time() -> None:
    line = begun()
    line.keep(line.download.fill(line.now, help_out=True))
    assert len(line.of(act.ShortenLease, ever=True)) == 1
    assert not line.of(act.OpenRange, ever=True)


@pytest.mark.parametrize(
    "scene",
    [
        {"speed": 6.8 * MIB},
        {"validator": None},
        {"ranges": False},
        {"policy": Policy(per_host=1)},
        {"policy": Policy(per_host=2, rebalance=False)},
        {"policy": Policy(per_host=2, steal_least=30 * MIB)},
    ],
)
def test_where_a_second_connection_would_bring_nothing_or_mix_versions(scene: dict) -> None:
    """Three seconds left; no strong validator; no ranges; no room; a limit that the user set; too little to cut off."""
    line = begun(**scene)
    assert not line.of(act.ShortenLease, ever=True)
    assert not line.of(act.OpenRange, ever=True)


def test_a_silent_connection_is_not_cut() -> None:
    line = begun()
    line.tell(ev.LeaseShortened(0, 30 * MIB))
    line.log.clear()
    line.now += SLOW.silent_seconds
    line.keep(line.download.fill(line.now, help_out=True))
    assert not line.of(act.ShortenLease, ever=True)


@pytest.mark.parametrize("kind", [FailureKind.CHANGED, FailureKind.REFUSED, FailureKind.RANGE_IGNORED])
def test_a_source_that_refuses_the_second_keeps_the_first(kind: FailureKind) -> None:
    """What the first brings is right all the same; the rest is asked for once that has ended."""
    line = split()
    second = max(line.download.connections)
    (cut,) = line.of(act.ShortenLease, ever=True)
    line.log.clear()
    line.close(second, kind=kind)
    line.keep(line.download.fill(line.now, help_out=True))
    assert not line.of(act.DiscardPieces, ever=True)
    assert not line.of(act.OpenRange, ever=True)
    line.bytes_to(0, cut.end)
    line.close(0, cut.end)
    (order,) = line.of(act.OpenRange)
    assert (order.source, order.start, order.if_range) == (0, cut.end, '"v"')
    assert not order.whole


def test_a_source_that_breaks_the_second_may_be_asked_again() -> None:
    line = split()
    line.close(max(line.download.connections), kind=FailureKind.BROKEN)
    line.log.clear()
    line.wait_until(line.now + 1)
    line.keep(line.download.fill(line.now, help_out=True))
    assert not line.of(act.DiscardPieces, ever=True)


def test_another_version_starts_again_once_nothing_else_is_in_progress() -> None:
    line = split()
    (cut,) = line.of(act.ShortenLease, ever=True)
    line.close(max(line.download.connections), kind=FailureKind.CHANGED)
    line.close(0, cut.end)
    line.close(max(line.download.connections), kind=FailureKind.CHANGED)
    assert line.of(act.DiscardPieces)


@pytest.mark.parametrize(
    ("status", "headers", "gives"),
    [
        (200, {"accept-ranges": "bytes"}, True),
        (200, {"accept-ranges": "none"}, False),
        (200, {}, False),
        (206, {}, True),
    ],
)
def test_which_sources_support_ranges(status: int, headers: dict[str, str], gives: bool) -> None:
    assert gives_ranges(ResponseHead(status, headers)) == gives

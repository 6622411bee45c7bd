"""Connections that ask whether a source has the bytes that are on disk."""

from __future__ import annotations

import pytest

from engine.running import DATA, KIB, MIB
from faults.behaviours import Drop, Flip, NeverAnswer, Rate
from resume_dl.core.actions import Mode
from resume_dl.core.events import ConnectionClosed, LocalFailed, RangeCompared
from resume_dl.core.failures import FailureKind
from resume_dl.core.ranges import RangeSet
from resume_dl.errors import StoreError
from resume_dl.store.part import JournaledPart

BLOCK = 128 * KIB


def filled(serve, *behaviours):
    """The whole file is on disk, unrecorded; its server behaves so."""
    server, orders = serve(*behaviours)
    orders.part.write(0, DATA)
    return server, orders


def compare(orders, start, end, **options):
    """All that was told: the differing ranges, each position, the last word.

    A block that a report divides may be in both reports; within one report no byte is told twice.
    """
    orders.open(start, end, Mode.COMPARE, **options)
    closed, before = orders.hear_until(ConnectionClosed)
    told = [event for event in before if isinstance(event, RangeCompared)]
    assert len(told) >= len(before) - 1  # and ResponseStarted
    for event in told:
        assert sum(last - first for first, last in event.differing) == RangeSet(event.differing).total
    return [each for event in told for each in event.differing], [event.position for event in told], closed


def test_equal_bytes_report_no_difference(serve):
    """The same bytes: compared to the end, nothing differs, nothing is written or recorded."""
    _server, orders = filled(serve)
    orders.part.write(MIB + 5, b"x")  # outside of what is compared
    differing, positions, closed = compare(orders, 100, MIB + 5)
    assert differing == []
    assert positions[-1] == MIB + 5
    assert closed == ConnectionClosed(0, MIB + 5, MIB + 5 - 100)
    assert orders.recorded == []
    assert orders.on_disk(MIB + 5, MIB + 6) == b"x"


def test_different_bytes_are_reported_by_block(serve):
    """Blocks with a wrong byte are told once each, joined where they touch, cut to the lease."""
    start, end = BLOCK // 2, 9 * BLOCK + 1000
    flipped = [start, start + 1, 2 * BLOCK - 1, 2 * BLOCK, 3 * BLOCK - 1, 5 * BLOCK, end - 1, end]
    _server, orders = filled(serve, Flip(*flipped))
    differing, positions, closed = compare(orders, start, end)
    assert list(RangeSet(differing)) == [(start, 3 * BLOCK), (5 * BLOCK, 6 * BLOCK), (9 * BLOCK, end)]
    assert positions == sorted(positions)
    assert (closed.position, closed.failure) == (end, None)
    assert orders.on_disk(0, len(DATA)) == DATA
    assert orders.recorded == []


@pytest.mark.parametrize("block", [KIB, 96 * KIB])
def test_blocks_of_another_size(serve, block):
    """What differs is told as finely as the core asks for it."""
    _server, orders = filled(serve, Flip(3 * block))
    assert compare(orders, 0, 5 * block, block=block)[0] == [(3 * block, 4 * block)]


def test_differences_are_reported_with_their_position(serve):
    """However slowly they come: no position is told before what differs below it."""
    _server, orders = filled(serve, Rate(MIB), Flip(10, BLOCK - 1, 3 * BLOCK + 5))
    orders.open(0, 5 * BLOCK, Mode.COMPARE)
    found: list[tuple[int, int]] = []
    events = 0
    while not isinstance(event := orders.hear(), ConnectionClosed):
        if isinstance(event, RangeCompared):
            events += 1
            found += event.differing
            assert ((0, BLOCK) in found) is (event.position > 10)
            assert ((3 * BLOCK, 4 * BLOCK) in found) is (event.position > 3 * BLOCK + 5)
    assert events > 2
    assert list(RangeSet(found)) == [(0, BLOCK), (3 * BLOCK, 4 * BLOCK)]


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_a_comparison_whose_connection_breaks(serve, how):
    """What came before the break was compared, and is told before the failure."""
    _server, orders = filled(serve, Flip(BLOCK + 1), Drop(after=3 * BLOCK, how=how))
    differing, positions, closed = compare(orders, 0, MIB)
    assert closed.failure is not None
    assert closed.failure.kind is FailureKind.BROKEN
    assert closed.position == positions[-1]
    assert closed.position == 3 * BLOCK or how == "rst"
    assert differing == ([(BLOCK, 2 * BLOCK)] if closed.position > BLOCK + 1 else [])


def test_shorter_on_disk(serve):
    """Bytes that the disk does not have are not equal to any."""
    _server, orders = serve()
    orders.part.write(0, DATA[:BLOCK])
    orders.part._file.reserve(BLOCK + 1)
    differing, _, closed = compare(orders, 0, 3 * BLOCK)
    assert closed.position == 3 * BLOCK
    assert list(RangeSet(differing)) == [(BLOCK, 3 * BLOCK)]


def test_shut_and_shortened(serve):
    """It can be stopped and shortened like any other."""
    _server, orders = filled(serve, Rate(MIB), Flip(5))
    worker = orders.open(0, MIB, Mode.COMPARE)
    first, _ = orders.hear_until(RangeCompared)
    assert first.differing == ((0, BLOCK),)
    worker.shorten(400 * KIB)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.failure) == (400 * KIB, None)
    worker = orders.open(0, MIB, Mode.COMPARE)
    orders.hear_until(RangeCompared)
    worker.shut()
    closed, _ = orders.hear_until(ConnectionClosed)
    assert closed.failure is None
    assert 0 < closed.position < MIB


def test_shut_before_its_head(serve):
    """Nothing was compared."""
    _server, orders = filled(serve, NeverAnswer())
    orders.open(10, MIB, Mode.COMPARE).shut()
    assert orders.hear() == ConnectionClosed(0, 10, 0)


def test_a_disk_that_cannot_be_read(serve, monkeypatch):
    """This machine's fault, not the source's."""
    _server, orders = filled(serve)

    def broken(*_):
        raise StoreError("a bad sector")

    monkeypatch.setattr(JournaledPart, "read", broken)
    orders.open(0, MIB, Mode.COMPARE)
    failed, _ = orders.hear_until(LocalFailed)
    assert str(failed.error) == "a bad sector"
    closed = orders.hear()
    assert isinstance(closed, ConnectionClosed)
    assert (closed.position, closed.failure) == (0, None)


def test_each_report_contains_all_differences_of_its_range(serve):
    """Also where one ends in the middle of a block: its rest is not left out of the next."""
    _server, orders = serve(Rate(MIB))
    orders.part.write(0, bytes(len(DATA)))
    orders.open(BLOCK, 5 * BLOCK, Mode.COMPARE)
    at, cut = BLOCK, 0
    while not isinstance(event := orders.hear(), ConnectionClosed):
        if isinstance(event, RangeCompared):
            told = RangeSet(event.differing)
            assert told.covers(at, event.position)
            at, cut = event.position, cut + (event.position % BLOCK != 0)
    assert at == 5 * BLOCK
    assert cut > 0, "no report ended in the middle of a block: this test shows nothing"

"""End-game duplicates: held in memory until they have won or lost."""

from __future__ import annotations

import zlib

import pytest

from engine.running import DATA, KIB, MIB
from faults.behaviours import Drop, NeverAnswer, Rate
from resume_dl.core.actions import Mode
from resume_dl.core.events import BytesReceived, ConnectionClosed, LocalFailed, RangeHeld, ResponseStarted
from resume_dl.core.failures import FailureKind
from resume_dl.errors import StoreError
from resume_dl.store.part import JournaledPart

START, END = 100 * KIB, 900 * KIB


def untouched(orders):
    return orders.on_disk(0, MIB) == bytes(MIB) and orders.recorded == []


def test_a_winning_duplicate_writes_its_bytes(serve):
    """Nothing is written before it has won; then only what is still missing, recorded with its CRC-32."""
    server, orders = serve()
    worker = orders.open(START, END, Mode.HOLD)
    held, before = orders.hear_until(RangeHeld)
    assert held == RangeHeld(0, END - START)
    assert isinstance(before[0], ResponseStarted)
    assert untouched(orders)
    orders.open(0, 10)  # its connection was given back already
    orders.hear_until(ConnectionClosed)
    assert [one.connection for one in server.requests()] == [1, 1]
    gaps = ((START + 7, 300 * KIB), (500 * KIB, END))
    worker.write(gaps)
    closed, before = orders.hear_until(ConnectionClosed)
    assert (closed, before) == (ConnectionClosed(0, END, END - START), [])
    for start, end in gaps:
        assert orders.on_disk(start, end) == DATA[start:end]
    for start, end in ((10, START + 7), (300 * KIB, 500 * KIB), (END, MIB)):
        assert orders.on_disk(start, end) == bytes(end - start)
    assert orders.recorded == [(0, 10, orders.label), *((*gap, orders.label) for gap in gaps)]
    for each in orders.written:
        assert each.crc32 == zlib.crc32(DATA[each.start : each.end])


def test_a_losing_duplicate_writes_nothing(serve):
    """Shut when it holds everything: it has written nothing, and says so."""
    _server, orders = serve()
    worker = orders.open(START, END, Mode.HOLD)
    orders.hear_until(RangeHeld)
    worker.shut()
    assert orders.hear() == ConnectionClosed(0, START, END - START)
    assert untouched(orders)


def test_a_duplicate_that_loses_while_it_receives(serve):
    """Shut in the midst of its body: no RangeHeld, and nothing written."""
    _server, orders = serve(Rate(MIB))
    worker = orders.open(START, END, Mode.HOLD)
    received, _ = orders.hear_until(BytesReceived)
    assert 0 < received.received < END - START
    worker.shut()
    closed, before = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.failure) == (START, None)
    assert all(isinstance(event, BytesReceived) for event in before)
    assert untouched(orders)


def test_a_duplicate_that_loses_before_its_response_head(serve):
    """Shut while its server is silent: over at once."""
    _server, orders = serve(NeverAnswer())
    orders.open(START, END, Mode.HOLD).shut()
    assert orders.hear() == ConnectionClosed(0, START, 0)


def test_a_duplicate_whose_connection_breaks(serve):
    """A body that ends early is a failure; what came of it is dropped."""
    _server, orders = serve(Drop(after=200 * KIB))
    orders.open(START, END, Mode.HOLD)
    closed, before = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.received) == (START, 200 * KIB)
    assert closed.failure is not None
    assert closed.failure.kind is FailureKind.BROKEN
    assert not any(isinstance(event, RangeHeld) for event in before)
    assert untouched(orders)


def test_a_shortened_duplicate(serve):
    """What it need not fetch any more is not waited for."""
    _server, orders = serve(Rate(MIB))
    worker = orders.open(START, END, Mode.HOLD)
    orders.hear_until(BytesReceived)
    worker.shorten(END - 300 * KIB)
    orders.hear_until(RangeHeld)
    worker.write(((START, END),))
    closed, _ = orders.hear_until(ConnectionClosed)
    assert closed.position == END - 300 * KIB
    assert orders.recorded == [(START, END - 300 * KIB, orders.label)]
    assert orders.on_disk(START, END) == DATA[START : END - 300 * KIB] + bytes(300 * KIB)


def test_a_disk_failure_while_a_duplicate_writes(serve, monkeypatch):
    """It has won and cannot be written: the error is told, and the position is what was written before."""
    _server, orders = serve()
    worker = orders.open(START, END, Mode.HOLD)
    orders.hear_until(RangeHeld)
    real = JournaledPart.write

    def full(part, offset, data):
        if offset >= 500 * KIB:
            raise StoreError("no room")
        real(part, offset, data)

    monkeypatch.setattr(JournaledPart, "write", full)
    worker.write(((START, END),))
    failed = orders.hear()
    assert isinstance(failed, LocalFailed)
    closed = orders.hear()
    assert isinstance(closed, ConnectionClosed)
    assert START < closed.position < END
    assert orders.recorded == [(START, closed.position, orders.label)]
    assert orders.on_disk(START, closed.position) == DATA[START : closed.position]


@pytest.mark.parametrize("gaps", [(), ((0, START), (END, MIB))])
def test_a_duplicate_that_wins_after_it_was_closed(serve, gaps):
    """Nothing of what it holds is missing any more: nothing is written."""
    _server, orders = serve()
    worker = orders.open(START, END, Mode.HOLD)
    orders.hear_until(RangeHeld)
    worker.write(gaps)
    assert orders.hear() == ConnectionClosed(0, END, END - START)
    assert untouched(orders)

"""Leases that are shortened while their connection is at work."""

from __future__ import annotations

import socket
import sys
import time

import pytest

from engine.orders import Orders, until
from engine.running import DATA, KIB, MIB
from faults.behaviours import Drop, Headers, Latency, NeverAnswer, Rate, Stall
from resume_dl.core.actions import Mode
from resume_dl.core.events import BytesWritten, ConnectionClosed, LeaseShortened, ResponseStarted
from resume_dl.core.failures import FailureKind


def zeros(count):
    return bytes(count)


class Gate:
    """The clock of a server whose answer waits for ``open`` (with ``Latency(0.02, gate.now)``)."""

    def __init__(self) -> None:
        self._is_open = False

    def now(self) -> float:
        return time.monotonic() if self._is_open else 0.0

    def open(self) -> None:
        self._is_open = True


def test_shortened_before_the_response_head(serve):
    """The new end holds for the body that is still to come; what lies behind it is not written."""
    gate = Gate()
    _server, orders = serve(Latency(0.02, gate.now))
    orders.open(100, MIB).shorten(300 * KIB)
    assert orders.hear() == LeaseShortened(0, 300 * KIB)
    gate.open()
    closed, before = orders.hear_until(ConnectionClosed)
    assert isinstance(before[0], ResponseStarted)
    assert (closed.position, closed.failure, closed.size) == (300 * KIB, None, None)
    assert orders.on_disk(0, MIB) == zeros(100) + DATA[100 : 300 * KIB] + zeros(MIB - 300 * KIB)
    assert orders.recorded == [(100, 300 * KIB, orders.label)]


@pytest.mark.parametrize("end", [0, 100])
def test_shortened_to_nothing_before_the_response_head(serve, end):
    """Nothing is left to fetch: it is over at once, though the server never answers."""
    _server, orders = serve(NeverAnswer())
    orders.open(100, MIB).shorten(end)
    assert orders.hear() == LeaseShortened(0, 100)
    assert orders.hear() == ConnectionClosed(0, 100, 0)
    orders.close()
    assert orders.silent()


def test_shortened_in_the_middle_of_the_body(serve):
    """It goes on to the new end, stops there, and drops the rest of the body with its connection."""
    server, orders = serve(Rate(2 * MIB))
    worker = orders.open(0, 3 * MIB)
    written, _ = orders.hear_until(BytesWritten)
    end = written.position + 200 * KIB + 7
    worker.shorten(end)
    shortened, _ = orders.hear_until(LeaseShortened)
    assert shortened == LeaseShortened(0, end)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.failure) == (end, None)
    assert closed.received >= end
    assert orders.on_disk(0, MIB) == DATA[:end] + zeros(MIB - end)
    assert orders.recorded == [(0, end, orders.label)]
    orders.open(end, MIB)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert orders.on_disk(0, MIB) == DATA[:MIB]
    assert [one.connection for one in server.requests()] == [1, 2]


def test_shortened_below_what_is_written(serve):
    """Where the stream is further, it stays with what it has, and ends though its server has fallen silent."""
    _server, orders = serve(Stall(after=300 * KIB))
    worker = orders.open(0, MIB)
    until(lambda: orders.on_disk(0, 300 * KIB) == DATA[: 300 * KIB])
    worker.shorten(100 * KIB)
    shortened, _ = orders.hear_until(LeaseShortened)
    assert shortened == LeaseShortened(0, 300 * KIB)
    assert orders.hear() == ConnectionClosed(0, 300 * KIB, 300 * KIB)
    assert orders.recorded == [(0, 300 * KIB, orders.label)]


def test_shortened_twice(serve):
    """A lease never becomes longer again."""
    gate = Gate()
    _server, orders = serve(Latency(0.02, gate.now))
    worker = orders.open(0, MIB)
    for end in (300 * KIB, 500 * KIB, 2 * MIB, 200 * KIB):
        worker.shorten(end)
    assert [orders.hear() for _ in range(4)] == [LeaseShortened(0, end * KIB) for end in (300, 300, 300, 200)]
    gate.open()
    closed, _ = orders.hear_until(ConnectionClosed)
    assert closed.position == 200 * KIB
    assert orders.recorded == [(0, 200 * KIB, orders.label)]


def test_shortened_at_the_end_of_the_body(serve):
    """An end that is the body's own leaves the connection in order: the next request goes over it."""
    server, orders = serve(Rate(2 * MIB))
    worker = orders.open(0, 300 * KIB)
    orders.hear_until(BytesWritten)
    worker.shorten(300 * KIB)
    shortened, _ = orders.hear_until(LeaseShortened)
    assert shortened == LeaseShortened(0, 300 * KIB)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert closed == ConnectionClosed(0, 300 * KIB, 300 * KIB)
    orders.open(300 * KIB, 400 * KIB)
    orders.hear_until(ConnectionClosed)
    assert [one.connection for one in server.requests()] == [1, 1]


def test_shortening_an_ended_lease_does_nothing(serve):
    """Its close is its last word."""
    _server, orders = serve()
    worker = orders.open(0, 100 * KIB)
    orders.hear_until(ConnectionClosed)
    worker.shorten(50 * KIB)
    assert orders.silent()


def test_shortening_a_whole_stream(serve):
    """One stream from 0 writes only the gaps below its new end, and says no size."""
    gate = Gate()
    _server, orders = serve(Latency(0.02, gate.now))
    gaps = ((10, 20), (50 * KIB, 60 * KIB), (250 * KIB, None))
    orders.open(0, None, gaps=gaps, whole=True).shorten(280 * KIB)
    orders.hear_until(LeaseShortened)
    gate.open()
    closed, _ = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.failure, closed.size) == (280 * KIB, None, None)
    ranges = [(10, 20), (50 * KIB, 60 * KIB), (250 * KIB, 280 * KIB)]
    assert orders.recorded == [(*each, orders.label) for each in ranges]
    there = orders.on_disk(0, MIB)
    for start, end in ranges:
        assert there[start:end] == DATA[start:end]
    assert there.count(0) >= MIB - sum(end - start for start, end in ranges)


def test_a_body_that_ends_early_after_shortening(serve):
    """A body that breaks before the new end is a failure as ever."""
    _server, orders = serve(Rate(400 * KIB), Drop(after=100 * KIB))
    worker = orders.open(0, MIB)
    orders.hear_until(BytesWritten)
    worker.shorten(200 * KIB)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert closed.position == 100 * KIB
    assert closed.failure is not None
    assert closed.failure.kind is FailureKind.BROKEN


def test_shortening_a_body_of_unknown_size(serve):
    """What stops at the new end has not seen the body's own: it says nothing of the file's size."""
    _server, orders = serve(Headers({"Content-Length": None, "Connection": "close"}), Rate(4 * MIB))
    orders.size = None
    orders.open(0, None, gaps=((0, None),), whole=True)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.size) == (len(DATA), len(DATA))
    worker = orders.open(0, None, gaps=((0, None),), whole=True)
    orders.hear_until(BytesWritten)
    worker.shorten(MIB)
    closed, _ = orders.hear_until(ConnectionClosed)
    assert (closed.position, closed.failure, closed.size) == (MIB, None, None)


@pytest.mark.skipif(sys.platform != "linux", reason="counts on how Linux treats a full backlog")
@pytest.mark.parametrize("mode", Mode)
def test_shortened_during_the_connect(tmp_path, mode):
    """A thread that sits in a connect, which nothing can wake, keeps neither a shortened lease nor a shut one open."""
    with socket.socket() as listening, socket.socket() as first:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        first.connect(listening.getsockname())
        orders = Orders(tmp_path, "http://{}:{}".format(*listening.getsockname()))
        orders.open(100, MIB, mode).shorten(100)
        assert [orders.hear(), orders.hear()] == [LeaseShortened(0, 100), ConnectionClosed(0, 100, 0)]
        orders.open(100, MIB, mode).shut()
        assert orders.hear() == ConnectionClosed(1, 100, 0)
        listening.accept()[0].close()
        first.close()
    orders.close()

"""Which bytes are asked of whom, in requests of what size."""

from __future__ import annotations

import pytest

from core.line import Line
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.ranges import RangeSet
from resume_dl.core.scheduling.leases import Lease, next_segment


def test_first_leases_in_file_order() -> None:
    """Every connection that the host may have begins with a first segment, in the file's order."""
    line = Line()
    assert line.leases == [(0, 4 * MIB), (4 * MIB, 8 * MIB)]


def test_all_sources_at_once() -> None:
    """Several hosts give their two connections each, eight in all; unmeasured hosts are each tried first."""
    line = Line(size=1000 * MIB, hosts="abcde")
    orders = line.of(act.OpenRange)
    assert [order.source for order in orders] == [0, 1, 2, 3, 4, 0, 1, 2]
    assert orders[-1].end == 32 * MIB


def test_later_leases_last_ten_seconds() -> None:
    """A lease is as long as its connection's speed makes it last ten seconds, up to a whole piece."""
    line = Line(policy=Policy(per_host=1))
    line.respond(0)
    line.now = 4.0
    line.close(0, 4 * MIB)
    assert line.leases == [(4 * MIB, 14 * MIB)]


def test_slow_connections_get_a_piece() -> None:
    """No lease is shorter than a piece, however slow its connection."""
    line = Line(policy=Policy(per_host=1))
    line.respond(0)
    line.now = 3.0
    line.close(0, 1000, FailureKind.BROKEN)
    line.wait()
    assert line.leases == [(1000, 2 * MIB)]


def test_the_faster_host_is_preferred() -> None:
    """With one connection free, it goes to the host that has proved faster."""
    line = Line(hosts="ab", policy=Policy(connections=2, per_host=2))
    line.now = 1.0
    line.bytes_to(0, 100_000)
    line.bytes_to(1, 6 * MIB)
    line.close(0, kind=FailureKind.BROKEN)
    assert [order.source for order in line.of(act.OpenRange)] == [1]


def test_the_window_holds_leases_together() -> None:
    """No lease reaches beyond the window above the lowest unfinished byte; it moves on with that byte."""
    line = Line(hosts="abc", policy=Policy(window=6 * MIB))
    assert line.leases == [(0, 4 * MIB), (4 * MIB, 6 * MIB)]
    line.bytes_to(1, 6 * MIB)
    line.close(1)
    assert line.leases == []
    line.bytes_to(0, 2 * MIB)
    assert line.leases[0][0] == 6 * MIB
    assert line.leases[-1][1] == 8 * MIB


@pytest.mark.parametrize(("held", "share"), [(0, 64 * MIB), (1, 32 * MIB), (3, 16 * MIB)])
def test_leases_of_fast_connections_fit_twice_into_the_window(held: int, share: int) -> None:
    """However fast, a connection gets half its share of the window: those ahead have a second lease before its edge."""
    policy, done = Policy(), RangeSet()
    leases = [Lease(at, at + MIB, ((at, at + MIB),)) for at in range(0, held * MIB, MIB)]
    got = next_segment(done, leases, 10_000 * MIB, policy, speed=40.0 * MIB, others=held * 40.0 * MIB)
    assert got is not None
    assert (got.start, got.end) == (held * MIB, held * MIB + share)


def test_equally_fast_connections_each_have_two_turns_in_a_window() -> None:
    """Four of them, one after the other and again: the eighth lease still ends within the window of the first byte."""
    policy, done = Policy(), RangeSet()
    leases = [Lease(at, at + 16 * MIB, ((at, at + 16 * MIB),)) for at in range(0, 64 * MIB, 16 * MIB)]
    for _ in range(3):  # all but the lowest come to their end, and get more
        start, end = leases.pop(1).gaps[0]
        assert end is not None
        done.add(start, end)
        lease = next_segment(done, leases, 10_000 * MIB, policy, speed=40.0 * MIB, others=120.0 * MIB)
        assert lease is not None
        assert lease.end is not None
        assert lease.end - lease.start == 16 * MIB
        leases.append(lease)
    assert max(lease.end or 0 for lease in leases) <= policy.window


def test_resumed_bytes_are_not_asked_again() -> None:
    """Leases fill the gaps that a journal left."""
    line = Line(resumed=ev.Prepared(((0, MIB), (3 * MIB, 99 * MIB)), 100 * MIB))
    assert line.leases == [(MIB, 3 * MIB), (99 * MIB, 100 * MIB)]
    assert line.download.resumed == 97 * MIB


def test_a_small_file_is_one_request() -> None:
    """Below the limit a file is asked for whole, without a Range, over one connection."""
    line = Line(size=8 * MIB - 1, hosts="ab")
    assert line.of(act.OpenRange) == [act.OpenRange(0, 0, 0, None, ((0, 8 * MIB - 1),), whole=True, size=8 * MIB - 1)]


def test_the_rest_of_a_small_file() -> None:
    """A small file that was begun goes on, gap by gap, over one connection."""
    line = Line(size=4 * MIB, resumed=ev.Prepared(((0, MIB), (2 * MIB, 3 * MIB)), 4 * MIB))
    assert line.leases == [(MIB, 2 * MIB)]
    line.close(0, 2 * MIB)
    assert line.leases == [(3 * MIB, 4 * MIB)]


def test_an_unknown_size_is_learnt_by_a_first_segment() -> None:
    """Where no record gives a size, the first range tells it, and only then others are opened."""
    line = Line(size=None, hosts="ab")
    assert line.leases == [(0, 4 * MIB)]
    line.respond(0, size=50 * MIB)
    assert line.of(act.FixSize) == [act.FixSize(50 * MIB)]
    assert line.leases == [(4 * MIB, 8 * MIB), (8 * MIB, 12 * MIB), (12 * MIB, 16 * MIB)]


@pytest.mark.parametrize(
    ("ranges", "lease"),
    [
        (((0, 5 * MIB),), (5 * MIB, 9 * MIB)),
        (((0, MIB), (2 * MIB, 3 * MIB)), (MIB, 2 * MIB)),
        (((MIB, 2 * MIB),), (0, MIB)),
    ],
)
def test_an_unknown_size_is_resumed(ranges: tuple[tuple[int, int], ...], lease: tuple[int, int]) -> None:
    """Bytes of an earlier run that never learnt the size are kept, and the next lease is a gap of some length."""
    assert Line(size=None, resumed=ev.Prepared(ranges)).leases == [lease]


def test_one_stream_skips_what_is_there() -> None:
    """A source without ranges is asked for the whole, and only its gaps are written."""
    line = Line(policy=Policy(per_host=1), resumed=ev.Prepared(((MIB, 2 * MIB),), 100 * MIB))
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    order = line.of(act.OpenRange)[0]
    assert (order.whole, order.start, order.end) == (True, 0, None)
    assert order.gaps == ((0, MIB), (2 * MIB, 100 * MIB))
    line.respond(1)
    line.bytes_to(1, 3 * MIB)
    assert list(line.download.done) == [(0, 3 * MIB)]
    assert line.download.kept == 2 * MIB
    assert line.download.wasted == MIB


def test_one_stream_of_unknown_size() -> None:
    """Also where nobody knows the end, the bytes at hand are not written again."""
    line = Line(size=None, resumed=ev.Prepared(((MIB, 2 * MIB),)))
    line.close(0, kind=FailureKind.RANGE_WRONG)
    assert line.of(act.OpenRange)[0].gaps == ((0, MIB), (2 * MIB, None))
    line.tell(ev.ResponseStarted(1, None))
    line.tell(ev.ConnectionClosed(1, 5 * MIB, 5 * MIB, None, 5 * MIB))
    assert line.out == [act.FixSize(5 * MIB), act.CheckDigest()]


def test_one_stream_is_alone() -> None:
    """A source without ranges waits while others give ranges, and stands in when they cannot."""
    line = Line(hosts="ab", policy=Policy(per_host=1))
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    assert line.leases == []
    line.close(1, kind=FailureKind.LACKS)
    assert [(order.source, order.whole) for order in line.of(act.OpenRange)] == [(0, True)]


def test_one_stream_leaves_nothing_to_others() -> None:
    """While one stream has every gap leased and brings something, a source with ranges finds none."""
    line = Line(hosts="ab", policy=Policy(per_host=1, silent_seconds=9.0))
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    line.close(1, kind=FailureKind.BROKEN)
    assert [order.whole for order in line.of(act.OpenRange)] == [True]
    line.now = 1.0
    line.keep(line.download.fill(1.0))
    assert line.out == []


def test_an_empty_file() -> None:
    """A size of nothing is learnt like any other."""
    line = Line(size=None)
    line.close(0, kind=FailureKind.RANGE_WRONG)
    line.tell(ev.ResponseStarted(1, 0))
    assert line.out == [act.FixSize(0)]
    line.close(1)
    assert line.out == [act.CheckDigest()]


def test_without_a_digest_one_source_has_the_file() -> None:
    """A large file without a digest is one stream from one source, and goes on there under its validator."""
    line = Line(hosts="ab", digest=False)
    assert [(order.source, order.whole) for order in line.of(act.OpenRange)] == [(0, True)]
    line.respond(0, validator='"v"')
    assert line.of(act.FixSize) == [act.FixSize(100 * MIB, '"v"', 0)]
    line.close(0, 7 * MIB, FailureKind.BROKEN)
    line.wait()
    order = line.of(act.OpenRange)[0]
    assert (order.source, order.start, order.end, order.if_range) == (0, 7 * MIB, 100 * MIB, '"v"')


def test_without_a_digest_a_journal_is_bound() -> None:
    """A later run goes on at the source that the journal names, or begins again where it names none at hand."""
    ranges = ((0, MIB),)
    line = Line(hosts="ab", digest=False, resumed=ev.Prepared(ranges, 100 * MIB, '"v"', "https://b/f"))
    order = line.of(act.OpenRange)[0]
    assert (order.source, order.start, order.if_range) == (1, MIB, '"v"')
    for strange in (
        ev.Prepared(ranges, 100 * MIB, '"v"', "https://c/f"),
        ev.Prepared(ranges, 100 * MIB, None, "https://b/f"),
        ev.Prepared(ranges, 99 * MIB, '"v"', "https://b/f"),
    ):
        line = Line(hosts="ab", digest=False, resumed=strange)
        assert isinstance(line.out[0], act.DiscardPieces)
        assert line.of(act.OpenRange)[0].whole


def test_a_journal_without_bytes_binds_nothing() -> None:
    """A size and a validator that no byte stands for may be of an older version of the file."""
    line = Line(None, "ab", digest=False, resumed=ev.Prepared((), 5 * MIB, '"v"', "https://b/f"))
    assert line.of(act.OpenRange) == [act.OpenRange(0, 0, 0, None, ((0, None),), whole=True, size=None)]


def test_a_journal_of_another_size() -> None:
    """Bytes of a file of another length are thrown away."""
    line = Line(resumed=ev.Prepared(((0, MIB),), 99 * MIB))
    assert isinstance(line.out[0], act.DiscardPieces)
    assert line.download.resumed == 0


def test_a_size_that_is_learnt_cuts_off() -> None:
    """Bytes beyond the end, once it is known, are none."""
    line = Line(size=None, resumed=ev.Prepared(((0, MIB), (9 * MIB, 10 * MIB))))
    line.respond(0, size=5 * MIB)
    assert list(line.download.done) == [(0, MIB)]

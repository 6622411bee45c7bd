"""Wrong bytes, missing files, changed files, faults of this machine, and the user's own stop."""

from __future__ import annotations

import pytest

from core.line import Line
from core.world import SMALL, Server, World
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.download import State
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import MIB, Policy

ONE = Policy(per_host=1)
WRONG = ev.DigestChecked(matches=False, expected="good", actual="bad")


def played(length: int, servers: list[Server], *, stated: bool = True, digest: bool = True) -> World:
    world = World(SMALL)
    world.add(length, servers, stated=stated, digest=digest)
    world.start()
    world.play()
    return world


def end_of(world: World) -> act.Finish | act.Fail | None:
    return world.files["file0"].end


# ---------------------------------------------------------------------- wrong bytes


def test_a_sole_liar_is_out_at_once() -> None:
    """Where one source gave every byte of a wrong file, it is never asked again, and the next has the file alone."""
    line = Line(size=MIB, hosts="ab")
    line.close(0, MIB)
    line.tell(WRONG)
    assert isinstance(line.out[0], act.NoteFailure)
    assert isinstance(line.out[1], act.DiscardPieces)
    assert line.download.sources[0].quarantined
    assert line.of(act.OpenRange)[0].source == 1


def test_among_several_nobody_is_blamed_yet() -> None:
    """Where several gave bytes, all are fetched again from each in turn, until one gives a right file."""
    world = played(80, [Server("a", honest=False), Server("b"), Server("c")])
    assert end_of(world) == act.Finish()
    sources = world.files["file0"].download.sources
    assert [source.quarantined for source in sources] == [True, False, False]
    assert [source.kept for source in sources] == [0, 80, 0]


def test_resumed_bytes_may_be_the_wrong_ones() -> None:
    """A source that only added to an earlier run's bytes is not quarantined for their digest."""
    line = Line(size=MIB, resumed=ev.Prepared(((0, 9),), MIB))
    line.close(0, MIB)
    line.tell(WRONG)
    assert not line.download.sources[0].quarantined
    assert line.leases == [(0, None)]
    line.close(1, MIB)
    line.tell(WRONG)
    assert line.out[-1].reason == "digest"


def test_nobody_has_the_right_bytes() -> None:
    """When every source lied, the reason is the digest, with both digests, and nothing is kept."""
    line = Line(size=MIB, hosts="ab")
    for connection in range(2):
        line.close(connection, MIB)
        line.tell(WRONG)
    fail = line.of(act.Fail)[0]
    assert (fail.reason, fail.expected, fail.actual, fail.resumable_bytes) == ("digest", "good", "bad", 0)
    assert [index for index, _ in fail.causes] == [0, 1]
    assert isinstance(line.out[-2], act.DiscardPieces)


def test_a_liar_and_a_404() -> None:
    """A quarantined source beside those that lack the file is still a wrong digest."""
    line = Line(size=MIB, hosts="ab")
    line.close(0, MIB)
    line.tell(WRONG)
    line.close(1, kind=FailureKind.LACKS)
    assert line.of(act.Fail)[0].reason == "digest"


def test_a_single_source_that_fails_makes_way() -> None:
    """In a refetch from one source three failures in a row are enough; the next begins again from nothing."""
    line = Line(size=MIB, hosts="abc", jitter=0.0)
    line.close(0, MIB)
    line.tell(WRONG)
    line.close(1, 1000, FailureKind.BROKEN)
    for connection in (2, 3):
        line.close(connection, kind=FailureKind.BROKEN)
    assert isinstance(line.out[1], act.DiscardPieces)
    order = line.of(act.OpenRange)[0]
    assert (order.source, order.whole) == (2, True)
    for connection in (4, 5, 6):
        line.close(connection, kind=FailureKind.BROKEN)
    assert line.of(act.Fail)[0].reason == "exhausted"


def test_old_failures_do_not_count_in_a_refetch() -> None:
    """A source that failed before has its three trials when the file is its own."""
    line = Line(size=MIB, hosts="ba", jitter=0.0)
    for connection in range(4):
        line.close(connection, kind=FailureKind.UNREACHABLE)
    assert line.download.sources[1].failures_in_a_row + line.download.sources[0].failures_in_a_row == 4
    line.download.sources[0].failures_in_a_row = 5
    newest = max(line.download.connections)
    liar = line.download.connections[newest].source
    line.close(newest, MIB)
    line.tell(WRONG)
    assert line.of(act.OpenRange)[0].source == 1 - liar


def test_a_wrong_size_does_not_rule_out_the_right_one() -> None:
    """Where no record states a size, a truncated copy that answered first does not make others lack the file."""
    world = played(80, [Server("a", honest=False, length=17), Server("b")], stated=False)
    assert end_of(world) == act.Finish()
    assert world.files["file0"].download.size == 80


def test_dropped_for_a_liar_s_size() -> None:
    """Who was dropped for not having a liar's size is asked when the liar is found out; who has nothing is not."""
    line = Line(size=None, hosts="abc", policy=Policy(per_host=1, first_segment=10 * MIB))
    line.respond(0, size=30 * MIB)
    line.bytes_to(0, 9 * MIB)
    line.close(1, kind=FailureKind.LACKS)
    line.close(2, kind=FailureKind.LACKS, size=31 * MIB)
    assert not line.download.sources[2].usable
    while line.download.connections:
        newest = max(line.download.connections)
        line.respond(newest)
        line.close(newest, line.download.connections[newest].lease.gaps[0][1])
    line.tell(ev.DataSynced(1))
    assert line.of(act.CheckDigest, ever=True)
    line.tell(WRONG)
    order = line.of(act.OpenRange)[0]
    assert (order.source, order.start, order.size) == (2, 0, None)


def test_a_size_without_bytes_is_forgotten() -> None:
    """A size that came with no byte counts less than another source's own answer."""
    line = Line(size=None, hosts="ab", policy=ONE)
    line.respond(0, size=4 * MIB)
    line.close(0, kind=FailureKind.BROKEN)
    assert line.of(act.OpenRange)[0].size == 4 * MIB
    line.close(1, kind=FailureKind.LACKS, size=5 * MIB)
    order = line.of(act.OpenRange)[0]
    assert (order.source, order.size) == (1, None)
    line.respond(2, size=5 * MIB)
    assert line.of(act.FixSize) == [act.FixSize(5 * MIB)]


def test_a_stated_size_is_kept() -> None:
    """A source with another size than the record's lacks the file."""
    line = Line(hosts="ab", policy=ONE)
    line.close(0, kind=FailureKind.LACKS, size=5 * MIB)
    assert line.download.size == 100 * MIB
    assert not line.download.sources[0].usable


# ---------------------------------------------------------------------- missing and changed


def test_everybody_lacks_it() -> None:
    """When every source says it has no such file, the reason says so."""
    line = Line(hosts="ab", policy=ONE)
    line.close(0, kind=FailureKind.LACKS)
    line.close(1, kind=FailureKind.LACKS)
    assert line.of(act.Fail)[0].reason == "lacking"


def test_everybody_refuses() -> None:
    """When no source may be asked any more, for whatever reasons, the download ends with all of them."""
    line = Line(hosts="ab", policy=ONE)
    line.close(0, kind=FailureKind.REFUSED)
    line.close(1, kind=FailureKind.FATAL)
    fail = line.of(act.Fail)[0]
    assert fail.reason == "exhausted"
    assert [failure.kind for _, failure in fail.causes] == [FailureKind.REFUSED, FailureKind.FATAL]


def test_no_source_at_all() -> None:
    """A file without sources ends at once."""
    assert Line(hosts=()).of(act.Fail)[0].reason == "lacking"


def test_without_a_digest_404_goes_to_the_next() -> None:
    """An index that one mirror lacks comes from the next one."""
    line = Line(size=None, hosts="ab", digest=False)
    line.close(0, kind=FailureKind.LACKS)
    assert line.of(act.OpenRange)[0].source == 1


@pytest.mark.parametrize("kind", [FailureKind.UNREACHABLE, FailureKind.BROKEN])
def test_without_a_digest_nothing_binds_before_the_first_byte(kind: FailureKind) -> None:
    """A source that answered but gave nothing is left for another."""
    line = Line(size=None, hosts="ab", digest=False)
    line.respond(0, size=9, validator='"v"')
    line.close(0, kind=kind)
    assert isinstance(line.out[1], act.DiscardPieces)
    assert line.of(act.OpenRange) == [act.OpenRange(1, 1, 0, None, ((0, None),), whole=True, size=None)]


def test_without_a_digest_and_validator_a_break_begins_again() -> None:
    """Bytes that nothing vouches for are not continued, and not called resumable."""
    line = Line(digest=False, jitter=0.0)
    line.respond(0)
    line.bytes_to(0, MIB)
    line.close(0, MIB, FailureKind.BROKEN)
    assert isinstance(line.out[1], act.DiscardPieces)
    assert line.of(act.OpenRange)[0].whole
    line.bytes_to(1, MIB)
    line.tell(ev.Cancelled())
    line.close(1, MIB)
    assert line.of(act.Fail)[0].resumable_bytes == 0


def test_without_a_digest_an_ill_source_is_left() -> None:
    """After three failures in a row the file begins again at another source; without another it is waited for."""
    for hosts, discarded in (("ab", True), ("a", False)):
        line = Line(digest=False, hosts=hosts, jitter=0.0)
        line.respond(0, validator='"v"')
        line.bytes_to(0, MIB)
        for connection in range(3):
            line.close(connection, kind=FailureKind.BROKEN)
        assert bool(line.of(act.DiscardPieces)) is discarded
        assert line.of(act.OpenRange)[0].source == int(discarded)


def test_changed_begins_again() -> None:
    """A file that became another one is thrown away and asked for whole, without If-Range."""
    line = Line(digest=False)
    line.respond(0, validator='"v"')
    line.close(0, MIB, FailureKind.BROKEN)
    line.wait()
    assert line.of(act.OpenRange)[0].if_range == '"v"'
    line.close(1, kind=FailureKind.CHANGED)
    assert isinstance(line.out[1], act.DiscardPieces)
    order = line.of(act.OpenRange)[0]
    assert (order.whole, order.if_range) == (True, None)
    line.respond(2, validator='"w"')
    assert line.download.validator == '"w"'


def test_unchanged_ends() -> None:
    """304: the copy that the caller has is right; that is no failure of the source."""
    line = Line(size=None, digest=False)
    line.close(0, kind=FailureKind.UNCHANGED)
    assert [type(action) for action in line.out] == [act.Fail]
    assert line.out[0].reason == "unchanged"


def test_without_a_digest_publishing_follows_the_last_byte() -> None:
    """There is nothing to check, and Publish still waits for the writer."""
    line = Line(size=None, digest=False)
    line.respond(0, size=9)
    line.bytes_to(0, 9)
    assert line.out == [act.CloseConnection(0)]
    line.close(0)
    assert line.out == [act.Publish()]
    line.tell(ev.Published())
    assert line.out == [act.Finish()]


# ---------------------------------------------------------------------- this machine, and the user


def in_state(state: State) -> Line:
    """A small download that stands there."""
    line = Line(size=MIB, prepare=state is State.TRANSFERRING or state in {State.VERIFYING, State.PUBLISHING})
    if state is State.LOCKED:
        line.tell(ev.LockBusy("x"))
    if state in {State.VERIFYING, State.PUBLISHING}:
        line.close(0, MIB)
    if state is State.PUBLISHING:
        line.tell(ev.DigestChecked(matches=True))
    assert line.download.state is state
    return line


@pytest.mark.parametrize("state", [State.PREPARING, State.VERIFYING, State.PUBLISHING])
def test_a_local_fault_ends_it(state: State) -> None:
    """What the store cannot do ends the download with its own error."""
    line = in_state(state)
    error = OSError(28, "full")
    line.tell(ev.LocalFailed(error))
    fail = line.of(act.Fail)[0]
    assert (fail.reason, fail.error) == ("local", error)


def test_a_local_fault_waits_for_writers() -> None:
    """A failed sync closes the connections first."""
    line = Line(policy=Policy(per_host=1, first_segment=64 * MIB))
    line.bytes_to(0, 20 * MIB)
    line.tell(ev.LocalFailed(OSError(28, "full"), sync=True))
    assert line.out == [act.CloseConnection(0)]
    line.close(0, 21 * MIB)
    assert line.of(act.Fail)[0].resumable_bytes == 21 * MIB


def test_a_full_disk_ends_it() -> None:
    """A worker that cannot write ends the download; its source is not to blame."""
    line = Line(policy=ONE)
    line.close(0, kind=FailureKind.LOCAL)
    assert line.of(act.Fail)[0].reason == "local"
    assert line.download.sources[0].usable


@pytest.mark.parametrize("state", [State.LOCKED])
def test_cancel_at_once(state: State) -> None:
    """Who waits for another process stops at once."""
    line = in_state(state)
    line.tell(ev.Cancelled())
    assert line.out == [act.Fail("cancelled")]


@pytest.mark.parametrize("answer", [ev.Prepared(), ev.LockBusy("x"), ev.LocalFailed(OSError())])
def test_cancel_while_preparing(answer: ev.Event) -> None:
    """The store's answer is waited for, whatever it is, and its lock then released."""
    line = in_state(State.PREPARING)
    line.tell(ev.Cancelled())
    assert line.out == []
    line.tell(answer)
    assert line.out == [act.Fail("cancelled")]


def test_cancel_while_transferring() -> None:
    """Every connection is closed; the end comes with the last word of the last, and what it wrote counts."""
    line = Line()
    line.respond(0)
    line.tell(ev.Cancelled())
    assert line.out == [act.CloseConnection(0), act.CloseConnection(1)]
    line.tell(ev.BytesWritten(0, MIB, MIB))
    line.respond(1)
    assert (line.out, line.download.done.total) == ([], 0)
    line.close(0, 2 * MIB)
    line.close(1)
    assert line.out == [act.Fail("cancelled", resumable_bytes=2 * MIB)]


def test_cancel_comes_too_late_for_a_right_file() -> None:
    """A file whose last byte has come is still judged, and a right one published."""
    line = in_state(State.VERIFYING)
    line.tell(ev.Cancelled())
    line.tell(ev.DigestChecked(matches=True))
    line.tell(ev.Published())
    assert line.out == [act.Finish()]


def test_cancel_before_a_wrong_digest() -> None:
    """After a stop, wrong bytes are thrown away and not fetched again."""
    line = in_state(State.VERIFYING)
    line.tell(ev.Cancelled())
    line.tell(WRONG)
    assert isinstance(line.out[-2], act.DiscardPieces)
    assert line.out[-1] == act.Fail("cancelled")


def test_words_of_unknown_connections() -> None:
    """What a forgotten connection says is not heard."""
    line = Line(policy=ONE)
    line.tell(ev.ConnectionClosed(99, MIB, MIB))
    assert line.out == []
    assert line.download.done.total == 0

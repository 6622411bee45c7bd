"""Wrong bytes, missing files, changed files, faults of this machine, and the user's own stop."""

from __future__ import annotations

import pytest

from core.line import Line
from core.world import SMALL, Server, World
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS, MIB, Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.sources import SourceState
from resume_dl.core.transitions import State

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


def wrong(line: Line) -> None:
    """The digest is wrong, and the format's own checksums cannot tell where."""
    line.tell(WRONG)
    assert line.out == [act.LocateDamage()]
    line.tell(ev.DamageLocated(None))


def compare(line: Line, connection: int, differing: tuple[tuple[int, int], ...] = ()) -> None:
    """A comparison comes to its end."""
    lease = line.download.connections[connection].lease
    assert lease.end is not None
    count = lease.end - lease.start
    line.respond(connection)
    line.tell(ev.RangeCompared(connection, lease.end, count, differing))
    if connection in line.download.connections:
        line.tell(ev.ConnectionClosed(connection, lease.end, count))


def compare_all(line: Line, *, same: bool) -> None:
    """Every comparison comes to its end, with the same bytes everywhere or nowhere."""
    while line.download.state is State.COMPARING:
        number, one = next(iter(line.download.connections.items()))
        compare(line, number, () if same else one.lease.gaps)


def test_two_owners_that_cannot_be_compared_give_their_whole_copies_in_turn() -> None:
    """Where both sources turn out to ignore ranges, nobody is blamed yet: each has the file to itself."""
    line = Line(size=8 * MIB, hosts="ab", policy=ONE)
    line.close(0, 4 * MIB)
    line.close(1, 8 * MIB)
    wrong(line)
    while any(one.mode is act.Mode.COMPARE for one in line.download.connections.values()):
        line.close(next(iter(line.download.connections)), kind=FailureKind.RANGE_IGNORED)
    assert line.of(act.DiscardPieces, ever=True) == [act.DiscardPieces()]
    assert [source.quarantined for source in line.download.sources] == [False, False]
    assert [(order.source, order.start, order.end) for order in line.of(act.OpenRange)] == [(0, 0, 8 * MIB)]


def test_a_single_source_of_wrong_bytes_is_excluded_at_once() -> None:
    """Where one source gave every byte of a wrong file and another contradicts it, the other has the file alone."""
    line = Line(size=MIB, hosts="ab")
    line.close(0, MIB)
    wrong(line)
    (order,) = line.of(act.OpenRange)
    assert (order.mode, order.source, order.start) == (act.Mode.COMPARE, 1, 0)
    compare_all(line, same=False)
    assert line.download.sources[0].quarantined
    assert line.of(act.DiscardPieces, ever=True) == [act.DiscardPieces()]
    orders = [order for order in line.of(act.OpenRange, ever=True) if order.mode is act.Mode.WRITE]
    assert [order.source for order in orders] == [0, 1]


def test_the_wrong_source_is_found_and_other_pieces_are_kept() -> None:
    """Of three sources one lies: only what it brought is fetched again, from the others."""
    world = played(80, [Server("a", honest=False), Server("b"), Server("c")])
    assert end_of(world) == act.Finish()
    download = world.files["file0"].download
    assert [source.quarantined for source in download.sources] == [True, False, False]
    assert download.kept_of(0) == 0
    assert download.sources[0].failures["wrong bytes"] == 1
    assert not any(isinstance(action, act.DiscardPieces) for _, action in world.log)
    forgotten = sum(e - s for _, a in world.log if isinstance(a, act.ForgetRanges) for s, e in a.ranges)
    assert forgotten <= download.sources[0].received
    assert download.kept == 80


def test_a_guess_between_two_is_taken_back() -> None:
    """Two sources contradict each other: whoever is suspected first, the honest one's bytes stand in the end."""
    for honest in ((True, False), (False, True)):
        world = played(80, [Server("a", honest=honest[0]), Server("b", honest=honest[1])])
        assert end_of(world) == act.Finish()
        sources = world.files["file0"].download.sources
        assert [source.quarantined for source in sources] == [not each for each in honest]


@pytest.mark.parametrize("honest", [0, 1, 2])
@pytest.mark.parametrize("length", [40, 80, 200])
def test_wrong_sources_that_contradict_each_other_are_not_a_majority(length: int, honest: int) -> None:
    """Two of three lie, each in its own way: the third, outvoted, gives its whole copy before the download fails."""
    world = played(length, [Server(host, honest=number == honest) for number, host in enumerate("abc")])
    assert end_of(world) == act.Finish()
    sources = world.files["file0"].download.sources
    assert [source.quarantined for source in sources] == [number != honest for number in range(3)]
    assert not world.budget.host("abc"[honest]).distrusted


def test_each_outvoted_source_is_asked_alone_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all lie, each in its own way, the download ends after one whole copy more of each that was outvoted."""
    digests = (f"wrong {number}" for number in range(1000))

    def check(world: World, key: str) -> None:
        world.files[key].owed.remove("check")
        world.tell(key, ev.DigestChecked(matches=False, expected="right", actual=next(digests)))

    monkeypatch.setattr(World, "check", check)
    world = played(80, [Server(host, honest=False) for host in "abcd"])
    end = end_of(world)
    assert isinstance(end, act.Fail)
    assert end.reason == "digest"
    sources = world.files["file0"].download.sources
    assert all(source.quarantined for source in sources)
    assert all(source.received <= 3 * 80 for source in sources)


def test_a_source_of_wrong_bytes_is_distrusted_for_other_files() -> None:
    """A host that lied is asked for another file only where nobody else has it."""
    budget = Budget(Policy())
    budget.host("a").distrusted = True
    other = Line(size=MIB, hosts="ab", budget=budget)
    assert [order.source for order in other.of(act.OpenRange)] == [1]
    alone = Line(size=MIB, hosts="a", budget=budget)
    assert [order.source for order in alone.of(act.OpenRange)] == [0]


def test_one_source_only() -> None:
    """Nobody to compare with: the reason says so, and what is provably good is kept."""
    line = Line(size=4 * MIB)
    line.close(0, 4 * MIB)
    line.tell(WRONG)
    line.tell(ev.DamageLocated(((MIB, 2 * MIB),)))
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.expected, fail.actual, fail.resumable_bytes) == ("single", "good", "bad", 3 * MIB)
    assert line.of(act.ForgetRanges) == [act.ForgetRanges(((MIB, 2 * MIB),))]


def test_one_source_and_no_checksums_inside() -> None:
    """Where nothing is provably good, nothing is kept: the next run begins anew."""
    line = Line(size=MIB)
    line.close(0, MIB)
    wrong(line)
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.resumable_bytes) == ("single", 0)


def test_resumed_bytes_may_be_the_wrong_ones() -> None:
    """What an earlier run left is suspected first: it alone is fetched again from the only source."""
    line = Line(size=MIB, resumed=ev.Prepared(((0, 9),), MIB))
    line.close(0, MIB)
    wrong(line)
    compare_all(line, same=False)
    assert not line.download.sources[0].quarantined
    assert line.leases == [(0, 9)]
    line.close(max(line.download.connections), 9)
    assert line.out == [act.CheckDigest()]
    line.tell(WRONG)
    assert line.of(act.Fail)[0].reason == "single"


def test_the_record_is_wrong() -> None:
    """Two sources agree on every byte against the record: that is said, with both, and the bytes are kept."""
    line = Line(size=2 * MIB, hosts="ab")
    line.close(0, 2 * MIB)
    wrong(line)
    compare_all(line, same=True)
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.agreeing, fail.resumable_bytes) == ("record", (0, 1), 2 * MIB)
    assert (fail.expected, fail.actual) == ("good", "bad")


def test_a_short_look_makes_the_record_suspect() -> None:
    """Who is to ask for a newer record first is told after some bytes that sources agree."""
    world = World(SMALL)
    world.add(80, [Server("a"), Server("b")], thorough=False)
    file = world.files["file0"]
    file.length = 81  # no copy is what the record says
    world.start()
    world.play()
    end = end_of(world)
    assert isinstance(end, act.Fail)
    assert (end.reason, end.agreeing, end.resumable_bytes) == ("disputed", (0, 1), 80)
    assert file.download.received - 80 < 40


def test_no_source_has_the_right_bytes() -> None:
    """When every source lied in its own way, the reason is the digest, with both digests."""
    world = played(80, [Server("a", honest=False), Server("b", honest=False)])
    end = end_of(world)
    assert isinstance(end, act.Fail)
    assert (end.reason, end.expected, end.actual) == ("digest", "right", "wrong")


def test_a_source_of_wrong_bytes_and_a_404() -> None:
    """Beside sources that lack the file there is nobody to compare with: still a wrong digest."""
    line = Line(size=MIB, hosts="ab")
    line.close(0, MIB)
    wrong(line)
    line.close(1, kind=FailureKind.LACKS)
    assert line.of(act.Fail)[0].reason == "digest"


def test_a_witness_without_ranges_has_the_file_alone() -> None:
    """A source that cannot be compared piece by piece brings a whole copy instead."""
    line = Line(size=MIB, hosts="ab", jitter=0.0)
    line.close(0, MIB)
    wrong(line)
    line.close(1, kind=FailureKind.RANGE_IGNORED)
    assert isinstance(line.of(act.DiscardPieces)[0], act.DiscardPieces)
    assert line.download.sources[0].quarantined
    assert [(order.source, order.whole) for order in line.of(act.OpenRange)] == [(1, True)]
    line.close(2, MIB)
    line.tell(ev.DigestChecked(matches=False, expected="good", actual="also bad"))
    assert line.of(act.Fail)[0].reason == "digest"


def test_whole_copies_that_agree() -> None:
    """Two whole copies with one digest are independent witnesses against the record."""
    line = Line(size=MIB, hosts="abc", jitter=0.0)
    line.close(0, MIB)
    wrong(line)
    for connection in (1, 2):
        line.close(connection, kind=FailureKind.RANGE_IGNORED)
    for connection in (3, 4):
        line.close(connection, MIB)
        line.tell(ev.DigestChecked(matches=False, expected="good", actual="other"))
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.agreeing, fail.actual) == ("record", (1, 2), "other")


def test_a_witness_that_fails_is_left() -> None:
    """Three failures in a row are enough for a witness; then whole copies are fetched in turn."""
    line = Line(size=MIB, hosts="abc", jitter=0.0)
    line.close(0, MIB)
    wrong(line)
    while not line.of(act.DiscardPieces):
        for connection in list(line.download.connections):
            line.close(connection, kind=FailureKind.BROKEN)
    order = line.of(act.OpenRange)[0]
    assert (order.source, order.whole) == (1, True)
    for _ in range(3):
        line.close(max(line.download.connections), kind=FailureKind.BROKEN)
    assert [order.source for order in line.of(act.OpenRange)] == [2]
    for _ in range(3):
        line.close(max(line.download.connections), kind=FailureKind.BROKEN)
    assert line.of(act.Fail)[0].reason == "exhausted"


def test_a_stop_while_sources_are_compared() -> None:
    """Comparisons are closed, all bytes are kept, and the next run asks again."""
    line = Line(size=2 * MIB, hosts="ab")
    line.close(0, 2 * MIB)
    wrong(line)
    line.tell(ev.Cancelled())
    assert line.of(act.CloseConnection) == [act.CloseConnection(1)]
    line.close(1)
    assert line.out == [act.Fail("cancelled", resumable_bytes=2 * MIB)]


def test_a_source_that_is_wrong_only_as_a_witness_is_excluded() -> None:
    """It brought nothing to this file: it is quarantined, and the others go on being compared."""
    line = Line(size=2 * MIB, hosts="abc")
    line.close(0, 2 * MIB)
    wrong(line)
    while line.download.state is State.COMPARING:
        number, one = next(iter(line.download.connections.items()))
        line.tell(ev.RangeCompared(number, one.position, 0))  # nothing new yet
        compare(line, number, one.lease.gaps if one.source == 1 else ())
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.agreeing) == ("record", (0, 2))
    assert [source.quarantined for source in line.download.sources] == [False, True, False]


@pytest.mark.parametrize("call", [ev.DigestChecked(matches=True), WRONG, ev.DamageLocated(None)])
def test_this_machine_fails_while_the_digest_is_at_work(call: ev.Event) -> None:
    """The end waits for the call, and its answer changes nothing any more."""
    line = Line(size=2 * MIB, hosts="ab")
    line.close(0, 2 * MIB)
    if isinstance(call, ev.DamageLocated):
        line.tell(WRONG)
    line.tell(ev.LocalFailed(OSError(28, "full")))
    assert line.out == []
    line.tell(call)
    assert [type(action) for action in line.out] == [act.Fail]
    assert line.out[0].reason == "local"


def test_damage_on_disk_is_fetched_again_alone() -> None:
    """A piece of an earlier run that is not what was recorded is forgotten and fetched again; nothing else is."""
    line = Line(size=20 * MIB, resumed=ev.Prepared(((0, 20 * MIB - 9),), 20 * MIB))
    assert line.of(act.AdvanceDigest) == [act.AdvanceDigest(20 * MIB - 9)]
    line.tell(ev.DigestAdvanced(MIB, ((MIB, 2 * MIB),)))
    assert line.of(act.ForgetRanges) == [act.ForgetRanges(((MIB, 2 * MIB),))]
    assert line.leases == [(MIB, 2 * MIB)]
    assert line.download.resumed == 19 * MIB - 9


def test_damage_found_at_the_end() -> None:
    """Also what is found only when the rest is hashed is fetched again."""
    line = Line(size=4 * MIB, resumed=ev.Prepared(((0, 4 * MIB),), 4 * MIB))
    assert line.out == [act.CheckDigest()]
    line.tell(ev.DigestAdvanced(0, ((0, 1000),)))
    assert line.leases == [(0, 1000)]


def test_a_wrong_size_does_not_rule_out_the_right_one() -> None:
    """Where no record states a size, a truncated copy that answered first does not make others lack the file."""
    world = played(80, [Server("a", honest=False, length=17), Server("b")], stated=False)
    assert end_of(world) == act.Finish()
    assert world.files["file0"].download.size == 80


def test_a_source_excluded_for_a_wrong_size_returns() -> None:
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
    while not line.of(act.CheckDigest):
        line.tell(ev.DigestAdvanced(line.of(act.AdvanceDigest, ever=True)[-1].upto))
    wrong(line)
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


def test_every_source_lacks_the_file() -> None:
    """When every source says it has no such file, the reason says so."""
    line = Line(hosts="ab", policy=ONE)
    line.close(0, kind=FailureKind.LACKS)
    line.close(1, kind=FailureKind.LACKS)
    assert line.of(act.Fail)[0].reason == "lacking"


def test_every_source_refuses() -> None:
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


def test_without_a_digest_an_unhealthy_source_is_replaced() -> None:
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
    assert line.out == []
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
    line.tell(ev.LocalFailed(error, digest=state is State.VERIFYING, publish=state is State.PUBLISHING))
    fail = line.of(act.Fail)[0]
    assert (fail.reason, fail.error) == ("local", error)


def test_a_progress_record_that_fails_while_publishing() -> None:
    """The file is verified and about to lose its journal: how publishing ends decides, and it is waited for."""
    line = in_state(State.PUBLISHING)
    line.tell(ev.LocalFailed(OSError(28, "full")))
    assert (line.out, line.download.state) == ([], State.PUBLISHING)
    line.tell(ev.Published())
    assert line.out == [act.Finish(another=False)]


def test_a_local_fault_waits_for_writers() -> None:
    """A failed sync closes the connections first."""
    line = Line(policy=Policy(per_host=1, first_segment=64 * MIB))
    line.bytes_to(0, 20 * MIB)
    line.tell(ev.LocalFailed(OSError(28, "full"), sync=True))
    assert line.out == [act.CloseConnection(0)]
    line.close(0, 21 * MIB)
    assert line.out == []
    line.tell(ev.DigestAdvanced(20 * MIB))
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
    """After a stop nobody is asked about wrong bytes; they are kept, and the next run asks."""
    line = in_state(State.VERIFYING)
    line.tell(ev.Cancelled())
    line.tell(WRONG)
    assert line.out == [act.Fail("cancelled", resumable_bytes=MIB)]


def test_events_of_unknown_connections_are_ignored() -> None:
    """What a forgotten connection says is not heard."""
    line = Line(policy=ONE)
    line.tell(ev.ConnectionClosed(99, MIB, MIB))
    assert line.out == []
    assert line.download.done.total == 0


def test_another_build_that_is_right_in_itself() -> None:
    """The format's checksums find a little wrong, and mending that is not enough: then all is compared."""
    line = Line(size=2 * MIB, hosts="ab")
    line.close(0, 2 * MIB)
    line.tell(WRONG)
    line.tell(ev.DamageLocated(((0, 1000),)))
    compare_all(line, same=False)
    assert line.of(act.ForgetRanges, ever=True) == [act.ForgetRanges(((0, 1000),))]
    line.close(max(line.download.connections), 1000)
    line.tell(WRONG)
    compare_all(line, same=False)
    assert line.of(act.ForgetRanges, ever=True)[1] == act.ForgetRanges(((1000, 2 * MIB),))
    line.close(max(line.download.connections), 2 * MIB)
    assert line.out == [act.CheckDigest()]
    assert [source.quarantined for source in line.download.sources] == [True, False]


def test_agreement_on_a_little_is_not_enough() -> None:
    """Sources that agree where the format finds damage are compared on the rest before the record is called wrong."""
    line = Line(size=2 * MIB, hosts="ab")
    line.close(0, 2 * MIB)
    line.tell(WRONG)
    line.tell(ev.DamageLocated(((0, 1000),)))
    compare_all(line, same=True)
    assert line.of(act.Fail)[0].reason == "record"
    compared = [order for order in line.of(act.OpenRange, ever=True) if order.mode is act.Mode.COMPARE]
    assert sum((order.end or 0) - order.start for order in compared) >= 2 * MIB


def test_one_source_in_an_earlier_run_and_now() -> None:
    """Its own earlier bytes are not fetched again for its lies: what is provably good is kept, run after run."""
    owner = (("https://a/f", ((1000, 2 * MIB),)),)
    line = Line(size=2 * MIB, resumed=ev.Prepared(((1000, 2 * MIB),), 2 * MIB, owners=owner))
    line.close(0, 1000)
    line.tell(WRONG)
    line.tell(ev.DamageLocated(((0, 1000),)))
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.resumable_bytes) == ("single", 2 * MIB - 1000)


def test_all_bytes_are_kept_while_a_newer_record_is_possible() -> None:
    """With one source and no thorough look wanted, nothing is thrown away yet."""
    line = Line(size=2 * MIB, thorough=False)
    line.close(0, 2 * MIB)
    wrong(line)
    (fail,) = line.of(act.Fail)
    assert (fail.reason, fail.agreeing, fail.resumable_bytes) == ("disputed", (0,), 2 * MIB)


def test_a_witness_that_fails_with_another_comparison_under_way() -> None:
    """What it is still comparing counts; nothing more is asked of it."""
    line = Line(size=7 * MIB, hosts="ab", policy=Policy(per_host=2, compare_look=0, compare_ahead=0))
    line.close(0, 7 * MIB)
    wrong(line)
    line.now += 1.0
    compare(line, 1)
    first, second = sorted(line.download.connections)
    line.close(first, kind=FailureKind.RANGE_IGNORED)
    assert line.leases == []
    assert list(line.download.connections) == [second]


def test_bytes_of_an_absent_source_are_fetched_again_without_comparison() -> None:
    """The only source gives no ranges: what came from elsewhere in an earlier run is suspected before its own."""
    line = Line(size=MIB, jitter=0.0, resumed=ev.Prepared(((0, 9),), MIB, owners=(("conda's .partial", ((0, 9),)),)))
    line.close(0, kind=FailureKind.RANGE_IGNORED)
    line.close(max(line.download.connections), MIB)
    wrong(line)
    assert line.of(act.ForgetRanges) == [act.ForgetRanges(((0, 9),))]
    assert line.of(act.OpenRange)[0].gaps == ((0, 9),)


def test_what_a_source_said_last_is_that_it_lacks_the_file():
    """Another connection to it may break afterwards; that is not why it is asked no more."""
    source = SourceState("https://a/", "a")
    lacks = Failure(FailureKind.LACKS, "answered 404")
    for failure in (lacks, Failure(FailureKind.BROKEN, "the connection ended early")):
        source.failed(failure, 0.0, DEFAULTS, lambda: 0.5)
    assert source.last_failure is lacks
    assert source.failures.total() == 2

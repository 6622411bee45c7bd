"""What the engine does for each order about a file: hash, forget, locate, in the right threads."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import deque

import pytest

from engine.running import DATA, KIB, MIB, NAME, POLICY, Told, artifact
from engine.scripted import Script
from faults.behaviours import Status
from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.engine.engine import HASHERS, Engine, _latest
from resume_dl.errors import DigestMismatchError, StoreError
from resume_dl.model.network import NetworkSettings
from resume_dl.ports import DigestProgress
from resume_dl.store.part import JournaledPart
from resume_dl.transport.client import HttpTransport


@pytest.fixture
def server(fault_server):
    serving = fault_server()
    serving.put(f"/{NAME}", DATA)
    return serving


def run(script, jobs, monkeypatch, **options):
    """The engine under this script; its outcomes."""
    script.install(monkeypatch)
    transport = HttpTransport(NetworkSettings(connect_timeout=60.0, first_byte_timeout=60.0, read_timeout=60.0))
    try:
        return Engine(transport, Told(), POLICY, **options).run(jobs)
    finally:
        transport.close()


def follow(place, what, steps, monkeypatch, **options):
    """One job: Prepare first, then for each step (kind of event, actions) what it says; other events are only heard."""
    key, left = what.key, deque(steps)
    ended = []

    def answer(_, event):
        if left and isinstance(event, left[0][0]):
            actions = left.popleft()[1]
            if any(isinstance(each, act.Finish | act.Fail) for each in actions):
                ended.append(True)
            return [(key, each) for each in actions]
        return []

    script = Script([(key, act.Prepare(journaled=True))], answer, lambda: bool(ended))
    (outcome,) = run(script, [place.job(what)], monkeypatch, **options)
    return script, outcome


SIZE = len(DATA)


def whole(number, start=0, end=SIZE, **more):
    return act.OpenRange(number, 0, start, end, ((start, end),), False, SIZE, **more)


def test_hash_forget_and_fetch_again(place, server, monkeypatch):
    """Bytes that are forgotten are not believed any more, and are hashed anew once they have come again."""
    what = artifact(server.base())
    wrong = bytearray(DATA)
    wrong[MIB + 5] ^= 1
    server.put(f"/{NAME}", bytes(wrong))
    half = 2 * MIB

    class Mending(list):
        """Actions before which the mirror is put right."""

        def __iter__(self):
            server.put(f"/{NAME}", DATA)
            return super().__iter__()

    script, outcome = follow(
        place,
        what,
        [
            (ev.Prepared, [whole(0)]),
            (ev.ConnectionClosed, [act.AdvanceDigest(half)]),
            (ev.DigestAdvanced, [act.CheckDigest()]),
            (ev.DigestChecked, Mending([act.ForgetRanges(((MIB, half),)), whole(1, MIB, half)])),
            (ev.ConnectionClosed, [act.CheckDigest()]),
            (ev.DigestChecked, [act.SyncData()]),
            (ev.DataSynced, [act.Fail("cancelled")]),
        ],
        monkeypatch,
    )
    first, second = [event for _, event in script.heard if isinstance(event, ev.DigestChecked)]
    assert first == ev.DigestChecked(False, what.sha256, hashlib.sha256(wrong).hexdigest())
    assert second == ev.DigestChecked(True, what.sha256, what.sha256)
    assert [event for _, event in script.heard if isinstance(event, ev.DigestAdvanced)] == [ev.DigestAdvanced(half)]
    assert outcome.reason == "cancelled"
    assert len(server.requests()) == 2


def test_forgotten_for_a_later_run(place, server, monkeypatch):
    """What was forgotten is gone from the journal, too; the rest has the label of who brought it."""
    what = artifact(server.base())
    follow(
        place,
        what,
        [
            (ev.Prepared, [whole(0)]),
            (ev.ConnectionClosed, [act.ForgetRanges(((MIB, 2 * MIB),)), act.SyncData()]),
            (ev.DataSynced, [act.Fail("cancelled")]),
        ],
        monkeypatch,
    )
    script, _ = follow(place, what, [(ev.Prepared, [act.Fail("cancelled")])], monkeypatch)
    ((_, prepared),) = script.heard
    believed = sum(end - start for start, end in prepared.ranges)
    assert len(DATA) - MIB - 512 * KIB <= believed <= len(DATA) - MIB
    assert all(end <= MIB or start >= 2 * MIB for start, end in prepared.ranges)
    assert [name for name, _ in prepared.owners] == [str(what.sources[0].url)]
    assert sorted(prepared.owners[0][1]) == sorted(prepared.ranges)


@pytest.mark.parametrize("method", ["advance_digest", "locate_damage", "digest", "forget"])
def test_a_failure_of_this_machine(place, server, monkeypatch, method):
    """Whatever the disk says reaches the core, whichever thread it was said in."""
    orders = {
        "advance_digest": act.AdvanceDigest(MIB),
        "digest": act.CheckDigest(),
        "locate_damage": act.LocateDamage(),
        "forget": act.ForgetRanges(((0, 1),)),
    }
    error = StoreError("a bad sector")

    def broken(*_):
        raise error

    monkeypatch.setattr(JournaledPart, method, broken)
    script, _ = follow(
        place,
        artifact(server.base()),
        [(ev.Prepared, [orders[method]]), (ev.LocalFailed, [act.Fail("cancelled")])],
        monkeypatch,
    )
    last = script.heard[-1][1]
    assert isinstance(last, ev.LocalFailed)
    assert last.error is error


def test_digest_progress_is_reported(place, server, monkeypatch):
    """Damage that the store finds while it hashes, or by the file's own checksums, comes to the core as it is."""
    damaged = ((5, 9), (20, 30))
    monkeypatch.setattr(JournaledPart, "advance_digest", lambda *_: DigestProgress(4, damaged))
    monkeypatch.setattr(JournaledPart, "locate_damage", lambda _: damaged)
    script, _ = follow(
        place,
        artifact(server.base()),
        [
            (ev.Prepared, [act.AdvanceDigest(MIB)]),
            (ev.DigestAdvanced, [act.CheckDigest()]),
            (ev.DigestAdvanced, [act.LocateDamage()]),
            (ev.DamageLocated, [act.Fail("cancelled")]),
        ],
        monkeypatch,
    )
    assert [event for _, event in script.heard[1:]] == [
        ev.DigestAdvanced(4, damaged),
        ev.DigestAdvanced(4, damaged),
        ev.DamageLocated(damaged),
    ]


def test_hashing_does_not_delay_other_jobs(place, server, monkeypatch):
    """While more files hash than can at once, another is opened, synced and published."""
    hashing = [artifact(server.base(), data=DATA + bytes([n]), name=f"{n}.conda") for n in range(HASHERS + 4)]
    other = artifact(server.base())
    go_on = threading.Event()
    real = JournaledPart.advance_digest

    def slow(part, upto):
        assert go_on.wait(20)
        return real(part, upto)

    monkeypatch.setattr(JournaledPart, "advance_digest", slow)
    prepared, done = set(), set()

    def answer(key, event):
        if isinstance(event, ev.Prepared):
            prepared.add(key)
            if key == other.key:
                return [(key, act.SyncData())]
            first = [(key, act.AdvanceDigest(0))]
            return first + ([(other.key, act.Prepare(journaled=True))] if len(prepared) == len(hashing) else [])
        if isinstance(event, ev.DataSynced):
            return [(key, act.Publish())]
        if isinstance(event, ev.Published):
            go_on.set()
            return [(key, act.Finish())]
        done.add(key)
        return [(key, act.Fail("cancelled"))]

    start = [(each.key, act.Prepare(journaled=True)) for each in hashing]
    script = Script(start, answer, lambda: len(done) == len(hashing))
    run(script, [place.job(each) for each in (*hashing, other)], monkeypatch)
    assert all(isinstance(event, ev.DigestAdvanced) for key, event in script.heard[-len(hashing) :])


def test_duplicates_by_the_engine(place, server, monkeypatch):
    """HOLD, WriteHeld, COMPARE and ShortenLease reach their connections."""
    hold = whole(0, 0, MIB, mode=act.Mode.HOLD)
    compare = whole(2, 0, 2 * MIB, mode=act.Mode.COMPARE)
    script, _ = follow(
        place,
        artifact(server.base()),
        [
            (ev.Prepared, [hold]),
            (ev.RangeHeld, [act.WriteHeld(0, ((0, MIB),))]),
            (ev.ConnectionClosed, [whole(1, MIB), act.ShortenLease(1, 2 * MIB)]),
            (ev.ConnectionClosed, [compare]),
            (ev.ConnectionClosed, [act.CloseConnection(7), act.Fail("cancelled")]),
        ],
        monkeypatch,
    )
    heard = [event for _, event in script.heard]
    assert heard[-1] == ev.ConnectionClosed(2, 2 * MIB, 2 * MIB)
    assert ev.LeaseShortened(1, 2 * MIB) in heard
    assert [each.position for each in heard if isinstance(each, ev.ConnectionClosed)] == [MIB, 2 * MIB, 2 * MIB]
    compared = [each for each in heard if isinstance(each, ev.RangeCompared)]
    assert compared[-1].position == 2 * MIB
    assert not any(each.differing for each in compared)


class Collected:
    """A tracer that remembers."""

    def __init__(self):
        self.begun, self.notes = [], []

    def begin(self, now, key, filename, size, sources):
        self.begun.append((key, filename, size, tuple(sources)))

    def note(self, now, key, what):
        self.notes.append((now, key, what))

    def close(self):
        raise AssertionError("whoever made it closes it")


def test_a_trace(place, server, monkeypatch):
    """Every event before the actions that answer it, each with its file, in order of time."""
    what = artifact(server.base(), server.base())
    tracer = Collected()
    script, _ = follow(
        place,
        what,
        [(ev.Prepared, [whole(0)]), (ev.ConnectionClosed, [act.SyncData()]), (ev.DataSynced, [act.Fail("cancelled")])],
        monkeypatch,
        tracer=tracer,
    )
    assert tracer.begun == [(what.key, NAME, len(DATA), ("m0", "m1"))]
    times = [now for now, _, _ in tracer.notes]
    assert times == sorted(times)
    assert {key for _, key, _ in tracer.notes} == {what.key}
    kinds = [type(note) for _, _, note in tracer.notes if not isinstance(note, ev.BytesWritten)]
    assert kinds == [
        act.Prepare,
        ev.Prepared,
        act.OpenRange,
        ev.ResponseStarted,
        ev.ConnectionClosed,
        act.SyncData,
        ev.DataSynced,
        act.Fail,
    ]
    events = [note for _, _, note in tracer.notes if isinstance(note, ev.Event)]
    assert events == [event for _, event in script.heard]


def test_a_trace_of_timers_and_stops(place, server):
    """Timers that fire, and the user's stop, are of no one file."""
    server.always(0, Status(503))
    tracer = Collected()
    fired = ev.TimerFired()
    place.run(artifact(server.base()), tracer=tracer, cancelled=lambda: any(note == fired for *_, note in tracer.notes))
    of_none = [note for _, key, note in tracer.notes if key is None]
    assert of_none[-1] == ev.Cancelled()
    assert of_none[:-1]
    assert set(of_none[:-1]) == {ev.TimerFired()}


def test_superseded_counts_are_dropped():
    """Of several counts of one connection that wait together only the last is told; nothing else is lost or moved."""
    closed = ev.ConnectionClosed(1, 9, 9)
    differing = ev.RangeCompared(4, 1, 1, ((0, 1),))
    waiting = [
        ("a", ev.BytesWritten(1, 3, 3)),
        ("b", ev.BytesWritten(1, 4, 4)),
        ("a", differing),
        ("a", ev.BytesWritten(2, 5, 5)),
        ("a", ev.BytesReceived(3, 5)),
        ("a", ev.BytesWritten(1, 8, 8)),
        ("a", closed),
        ("a", differing),
        ("a", ev.BytesReceived(3, 6)),
    ]
    assert _latest(waiting) == [waiting[i] for i in (1, 2, 3, 5, 6, 7, 8)]
    assert _latest(waiting[:1]) == waiting[:1]


def test_agreeing_mirrors_are_reported(place, server, monkeypatch):
    """The outcome names the mirrors that agree against the record."""
    what = artifact(server.base(), server.base(), server.base())
    end = act.Fail("record", actual="b" * 64, agreeing=(0, 2), resumable_bytes=7)
    _, outcome = follow(place, what, [(ev.Prepared, [end])], monkeypatch)
    assert (outcome.reason, outcome.agreeing) == ("record", ("m0", "m2"))
    assert isinstance(outcome.error, DigestMismatchError)
    assert outcome.error.resumable_bytes == 7


@pytest.mark.parametrize(
    ("last", "method"),
    [
        (act.Publish(), "publish"),
        (act.DiscardPieces(), "discard"),
        (act.ForgetRanges(((0, 1),)), "forget"),
        (act.Fail("cancelled"), "close"),
    ],
)
def test_a_journal_that_syncs_slowly(place, server, monkeypatch, last, method):
    """Other events are heard meanwhile, and what would end the record's meaning waits for it."""
    go_on, done = threading.Event(), []
    real_record, real = JournaledPart.record_durable, getattr(JournaledPart, method)

    def record(part, mark):
        assert go_on.wait(60)
        time.sleep(0.1 if mark == 16 else 0)
        real_record(part, mark)
        done.append(mark)

    def after(part, *more):
        done.append(method)
        return real(part, *more)

    monkeypatch.setattr(JournaledPart, "record_durable", record)
    monkeypatch.setattr(JournaledPart, method, after)

    class WhileItWaits(list):
        """Actions that are asked for before the disk is done."""

        def __iter__(self):
            assert done == []
            threading.Timer(0.1, go_on.set).start()
            return super().__iter__()

    end = [] if isinstance(last, act.Fail | act.Publish) else [act.Fail("cancelled")]
    follow(
        place,
        artifact(server.base()),
        [
            (ev.Prepared, [act.RecordProgress(16), act.RecordProgress(17), act.AdvanceDigest(0)]),
            (ev.DigestAdvanced, WhileItWaits([last, *end])),
            (ev.Published, [act.Finish()]),
        ],
        monkeypatch,
    )
    assert done[:3] == [16, 17, method]

"""Whole runs of the engine: several mirrors, stops and resumptions, other processes, full disks."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import time
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from engine.running import DATA, KIB, MIB, NAME, POLICY, Place, artifact
from faults.behaviours import Drop, Latency, Ok, Quota, Rate, Stall, Status
from resume_dl.engine.engine import Engine
from resume_dl.errors import (
    InternalError,
    Interrupted,
    JournalError,
    LockedError,
    OutOfSpaceError,
    SourcesExhaustedError,
    StoreError,
)
from resume_dl.model.network import NetworkSettings
from resume_dl.store.journal import VERSION
from resume_dl.store.part import JournaledPart
from resume_dl.transport.client import HttpTransport
from support.processes import Run

IN_FLIGHT = 256 * KIB
"""What a server may have sent of leases that were then shortened: nobody takes it any more."""


def mirrors(fault_server, count, *behaviours, data=DATA):
    server = fault_server(ports=count)
    server.put(f"/{NAME}", data)
    if behaviours:
        server.always(None, *behaviours)
    return server, artifact(*(server.base(i) for i in range(count)), data=data)


def settled(server):
    """Body bytes that the server has sent, once it has noticed that its client is gone."""
    sent = -1
    while sent != server.body_bytes():
        sent = server.body_bytes()
        time.sleep(0.1)
    return sent


def after(server, count):
    """A cancel that comes true when so many body bytes were sent."""
    return lambda: server.body_bytes() >= count


def test_every_mirror_is_used(fault_server, place):
    """Three slow mirrors share one file; hardly a byte is sent twice; the counts agree with the servers'."""
    server, what = mirrors(fault_server, 3, Rate(1.5 * MIB))
    (outcome,) = place.run(what)
    assert place.content() == DATA
    assert (outcome.downloaded, outcome.resumed) == (len(DATA), 0)
    assert len(DATA) <= server.body_bytes() <= len(DATA) + IN_FLIGHT
    assert outcome.wasted <= server.body_bytes() - len(DATA)
    assert sum(report.bytes for report in outcome.sources) == len(DATA)
    assert sorted(report.mirror for report in outcome.sources) == ["m0", "m1", "m2"]
    for port in range(3):
        assert 0 < outcome.sources[port].bytes <= server.body_bytes(port) <= outcome.sources[port].bytes + IN_FLIGHT


def test_headers_are_sent_to_their_own_source_only(fault_server, place):
    """What is sent to one source with every request is sent to no other, and shown nowhere."""
    server, what = mirrors(fault_server, 2, Rate(2 * MIB))
    first, second = what.sources
    what = replace(what, sources=(first, replace(second, headers={"X-Login": "s3cret"})))
    (outcome,) = place.run(what)
    assert outcome.error is None
    assert [each.headers.get("x-login") for each in server.requests(0)] == [None] * len(server.requests(0))
    assert {each.headers.get("x-login") for each in server.requests(1)} == {"s3cret"}
    assert server.requests(0)
    assert "s3cret" not in repr((outcome, place.told.events))


def test_many_files(fault_server, place):
    """Thirty files of all sizes, empty ones too: all right, none twice, no more connections than allowed."""
    server = fault_server(ports=2)
    server.always(None, Latency(0.005))
    chance = random.Random(1)
    files = []
    for number in range(30):
        data = chance.randbytes(chance.choice([0, 1, 1000, 70 * KIB, 300 * KIB]))
        server.put(f"/{number}.tar", data)
        files.append(artifact(server.base(0), server.base(1), data=data + b"", name=f"{number}.tar"))
    same = Counter(each.key for each in files)
    files = [each for each in files if same[each.key] == 1]
    outcomes = place.run(*files)
    assert [outcome.error for outcome in outcomes] == [None] * len(files)
    assert [outcome.artifact for outcome in outcomes] == files
    for each in files:
        assert hashlib.sha256(place.content(each.filename)).hexdigest() == each.sha256
    assert server.body_bytes() == sum(each.size for each in files)
    assert len({one.connection for one in server.requests()}) <= POLICY.connections
    assert place.left == []


def test_an_empty_file(fault_server, place):
    """No byte to fetch is no trouble."""
    _server, what = mirrors(fault_server, 1, data=b"")
    (outcome,) = place.run(what)
    assert (outcome.error, place.content()) == (None, b"")


def test_a_run_that_ends_with_an_exception_leaves_no_lock(fault_server, place):
    """Another run of the same process goes on at once with what came."""
    server, what = mirrors(fault_server, 2, Rate(2 * MIB))
    stopped = after(server, MIB)

    def interrupted():
        if stopped():
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        place.run(what, cancelled=interrupted)
    (outcome,) = place.run(what, wait_for_lock=False)
    assert (outcome.status, outcome.error) == ("resumed", None)
    assert place.content() == DATA


def test_stopped_and_resumed(fault_server, place):
    """A stop ends soon and keeps what came; the next run, from another mirror, fetches only the rest."""
    server, _what = mirrors(fault_server, 2, Rate(2 * MIB))
    first, second = artifact(server.base(0)), artifact(server.base(1))
    (outcome,) = place.run(first, cancelled=after(server, MIB))
    assert type(outcome.error) is Interrupted
    kept = outcome.error.resumable_bytes
    assert kept == outcome.downloaded > MIB // 2
    sent = settled(server)
    assert place.content() is None
    (outcome,) = place.run(second, connections=1)  # of two, one may leave an answer of which more is on its way
    assert (outcome.status, outcome.resumed, outcome.downloaded) == ("resumed", kept, len(DATA) - kept)
    assert place.content() == DATA
    assert server.body_bytes(1) == len(DATA) - kept
    assert sent - kept <= MIB


def test_a_stop_in_every_state(fault_server, place):
    """Whenever the stop comes, each file has an outcome, and the next run finishes."""
    server, what = mirrors(fault_server, 1, Rate(4 * MIB))
    others = []
    for number in range(12):
        data = bytes([number]) * 500_000
        server.put(f"/{number}.tar", data)
        others.append(artifact(server.base(), data=data, name=f"{number}.tar"))
    for delay in (0.0, 0.02, 0.1, 0.3, 0.6):
        until = time.monotonic() + delay
        remaining = [each for each in (what, *others) if place.content(each.filename) is None]
        outcomes = place.run(*remaining, cancelled=lambda until=until: time.monotonic() >= until)
        assert len(outcomes) == len(remaining)
        assert {type(each.error) for each in outcomes} <= {type(None), Interrupted}
    remaining = [each for each in (what, *others) if place.content(each.filename) is None]
    assert all(each.error is None for each in place.run(*remaining))
    assert settled(server) <= sum(each.size for each in (what, *others)) + 5 * 2 * MIB
    assert place.left == []


def test_a_stop_during_a_stall(fault_server, place):
    """A connection that waits for bytes, or for an answer, does not hold up a stop."""
    server, what = mirrors(fault_server, 2)
    server.always(0, Stall(after=1000))
    server.always(1, Latency(30))

    def stalled():
        return bool(server.requests(1)) and any(state.done >= 1000 for state in place.told.states)

    started = time.monotonic()
    (outcome,) = place.run(what, cancelled=stalled, stall_seconds=3000.0, first_byte_seconds=3000.0)
    assert time.monotonic() - started < 50  # the transport gives up after 60
    assert outcome.error.resumable_bytes in {1000, 2000}


def test_a_server_that_is_slow_to_answer(fault_server, place):
    """One that needs longer than the first attempt waits is waited for in the second."""
    server, what = mirrors(fault_server, 1, Latency(1.2, place.clock.now))
    (outcome,) = place.run(what, small_file=1 << 30, unreached_give_up=1.0, give_up_after=30.0)
    assert outcome.error is None
    assert [event for event, _ in place.told.events].count("source_failed") == 1
    assert len(server.requests()) == 2


PROGRAM = """
import sys
from pathlib import Path
from engine.running import NAME, POLICY, Place, artifact
from resume_dl.engine.job import Job
from engine.running import Told
from support.own_time import OwnTime
folder, base, wait, hold_at = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "wait", int(sys.argv[4])
class Telling(Told):
    said = False
    def progress(self, state):
        super().progress(state)
        if not self.said and wait and state.state == "locked":
            self.said = True
            print("waits", flush=True)
        elif not self.said and hold_at and state.done >= hold_at:
            self.said = True
            print("begun", flush=True)
            sys.stdin.readline()  # the engine stands still, and the lock is held for so long
place = Place(folder, OwnTime())
place.told = Telling()
place.job = lambda what: Job(what, __import__("resume_dl.store.part").store.part.PartStore(folder / ".resume-dl"),
                             folder / NAME, lambda: (folder / NAME).exists())
print("ready", flush=True)
sys.stdin.readline()
patience = {name: 3000.0 for name in ("stall_seconds", "first_byte_seconds", "first_byte_most", "give_up_after")}
(outcome,) = place.run(artifact(base), wait_for_lock=wait, small_file=1 << 30, **patience)
print(outcome.status, type(outcome.error).__name__, outcome.downloaded, flush=True)
notes = {state.note for state in place.told.states if state.state == "locked"}
print(*sorted(notes), flush=True)
"""


def start(place, server, *, wait, hold_at=0):
    """A process that is ready for a line to begin; with ``hold_at`` bytes it waits for another one."""
    tests = str(Path(__file__).parents[1])
    process = Run(
        [sys.executable, "-c", PROGRAM, place.folder, server.base(), "wait" if wait else "no", str(hold_at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [tests, os.environ.get("PYTHONPATH")]))},
    )
    assert process.stdout.readline() == "ready\n"
    return process


def ask(process):
    """Let it begin; the first line that it says."""
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline()


def test_two_processes_on_one_file(fault_server, place):
    """One works; the other waits, says for whom, and ends ``cached``; a third that may not wait is told at once."""
    quota = Quota(len(DATA) // 2)  # else all of it may have come, and the lock be gone, before the first progress
    server, _ = mirrors(fault_server, 1, quota)
    one = start(place, server, wait=True, hold_at=1)
    two, three = (start(place, server, wait=wait) for wait in (True, False))
    with one, two, three:
        assert ask(one) == "begun\n"
        assert ask(two) == "waits\n"
        out = three.communicate("\n", timeout=60)[0].split()
        assert out[:2] == ["failed", "LockedError"]
        quota.lift()
        worked = one.communicate("\n", timeout=60)[0].splitlines()
        waited = two.communicate(timeout=60)[0].splitlines()
    assert worked[0] == f"downloaded NoneType {len(DATA)}"
    assert waited[0] == "cached NoneType 0"
    assert waited[1] == f"waits for process {one.pid} (-c)"
    assert server.body_bytes() <= len(DATA) + IN_FLIGHT
    assert place.content() == DATA
    assert place.left == []


def test_a_run_continues_after_a_killed_process(fault_server, place):
    """Who waits for a process that is killed takes over, and fetches only what it had not recorded."""
    server, _ = mirrors(fault_server, 1, Rate(2 * MIB))
    one, two = start(place, server, wait=True, hold_at=MIB), start(place, server, wait=True)
    with one, two:
        assert ask(one) == "begun\n"
        assert ask(two) == "waits\n"
        one.kill()
        one.wait()
        waited = two.communicate(timeout=60)[0].splitlines()
    assert waited[0].startswith("resumed NoneType ")
    assert int(waited[0].split()[2]) < len(DATA) - MIB // 4
    assert place.content() == DATA
    assert settled(server) <= len(DATA) + MIB // 2  # one connection: 128 KiB that were not recorded, and buffers


def test_the_lock_without_waiting(fault_server, place):
    """``--no-wait``: LockedError names the owner; the bytes of the other are untouched."""
    server, what = mirrors(fault_server, 1)
    held = place.job(what).store.open(what, journaled=True)
    (outcome,) = place.run(what, wait_for_lock=False)
    assert type(outcome.error) is LockedError
    assert outcome.error.owner.startswith(f"process {os.getpid()} (")
    held.close()
    assert server.requests() == []


@pytest.fixture
def small_disk(tmp_path):
    """A file system with 2 MiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], capture_output=True, check=False, text=True
    )
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk(fault_server, small_disk):
    """The disk fills up: the error says so, what came is kept, and with more room the rest is fetched."""
    _server, what = mirrors(fault_server, 1, Rate(8 * MIB))
    place = Place(small_disk)
    (outcome,) = place.run(what)
    assert type(outcome.error) is OutOfSpaceError
    assert outcome.error.resumable_bytes > MIB
    kept = outcome.error.resumable_bytes
    subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
    (outcome,) = place.run(what)
    assert (outcome.error, outcome.status) == (None, "resumed")
    assert kept - 256 * KIB <= outcome.resumed <= kept
    assert place.content() == DATA


@pytest.mark.skipif(sys.platform == "win32", reason="needs RLIMIT_FSIZE")
def test_a_file_that_may_not_grow(fault_server, place):
    """A limit on the size of files: an error of ours at once, and nothing is left."""
    import resource

    _server, what = mirrors(fault_server, 1)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, before[1]))
    try:
        (outcome,) = place.run(what)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert isinstance(outcome.error, StoreError)
    assert place.left == []


def test_limit_rate(fault_server, place):
    """With a limit of 2 MiB/s, 3 MiB do not come in less than a second; all connections share it."""
    server, what = mirrors(fault_server, 3)
    started = time.monotonic()
    (outcome,) = place.run(what, limit_rate=2.0 * MIB)
    assert outcome.error is None
    assert time.monotonic() - started > 1.0
    assert len(DATA) <= server.body_bytes() <= len(DATA) + IN_FLIGHT


def test_without_a_digest(fault_server, place):
    """Nothing but the server's ETag binds the bytes: it is continued by If-Range, and mirrors are not mixed."""
    server, _ = mirrors(fault_server, 2)
    server.script(0, [Drop(after=MIB), Ok()])
    what = artifact(server.base(0), server.base(1), digest=False)
    (outcome,) = place.run(what)
    assert (outcome.error, place.content()) == (None, DATA)
    first, second = server.requests()
    assert (first.port, second.port) == (0, 0)
    assert second.headers["if-range"] == outcome.said.validator
    assert second.range.startswith(f"bytes={MIB}-")
    assert server.body_bytes() == len(DATA)


def test_without_a_digest_over_two_runs(fault_server, place):
    """The validator is remembered; the next run continues with the same source only."""
    server, _ = mirrors(fault_server, 2, Rate(2 * MIB))
    what = artifact(server.base(0), server.base(1), digest=False)
    (outcome,) = place.run(what, cancelled=after(server, MIB))
    kept = outcome.error.resumable_bytes
    assert kept > MIB // 2
    (outcome,) = place.run(what)
    assert (outcome.error, outcome.resumed, place.content()) == (None, kept, DATA)
    assert "if-range" in server.requests()[-1].headers
    assert len({one.port for one in server.requests()}) == 1


def test_without_a_digest_and_changed(fault_server, place):
    """The file changes between two runs: it is fetched anew, and no byte of the old one is in it."""
    server, _ = mirrors(fault_server, 1, Rate(2 * MIB))
    what = artifact(server.base(0), digest=False, sized=False)
    (outcome,) = place.run(what, cancelled=after(server, MIB))
    assert outcome.error.resumable_bytes > 0
    newer = b"PK\x03\x04" + random.Random(9).randbytes(2 * MIB)
    server.put(f"/{NAME}", newer)
    (outcome,) = place.run(what)
    assert (outcome.error, place.content()) == (None, newer)
    assert place.left == []


@pytest.mark.parametrize("dropping", [False, True])
def test_without_a_size(fault_server, place, dropping):
    """A digest and no size: the size comes with the first answer; drops cost nothing."""
    server, _ = mirrors(fault_server, 1)
    if dropping:
        server.always(0, Drop(after=300 * KIB))
    (outcome,) = place.run(artifact(server.base(), sized=False))
    assert (outcome.error, place.content()) == (None, DATA)
    assert len(DATA) <= server.body_bytes() <= len(DATA) + IN_FLIGHT


def test_a_journal_of_another_version(fault_server, place):
    """It is left alone, and the run ends with an error that says what to do."""
    server, what = mirrors(fault_server, 1)
    folder = place.folder / ".resume-dl"
    folder.mkdir()
    head = b"RDLJ" + (VERSION + 1).to_bytes(2, "little") + b"\x00\x00abcd"
    journal = head + zlib.crc32(head).to_bytes(4, "little")
    (folder / f"{what.key}.journal").write_bytes(journal)
    (folder / f"{what.key}.part").write_bytes(b"theirs")
    for _ in range(2):
        (outcome,) = place.run(what)
        assert type(outcome.error) is JournalError
        assert "resume-dl clean" in outcome.error.hint
    assert (folder / f"{what.key}.journal").read_bytes() == journal
    assert (folder / f"{what.key}.part").read_bytes() == b"theirs"
    assert server.requests() == []


def test_where_it_cannot_be_published(fault_server, place):
    """The last step fails: the whole file is kept, and the next run only has to hash it."""
    server, what = mirrors(fault_server, 1)
    (place.folder / NAME).mkdir()
    (outcome,) = place.run(what)
    assert isinstance(outcome.error, StoreError)
    assert outcome.error.resumable_bytes == len(DATA)
    (place.folder / NAME).rmdir()
    asked = len(server.requests())
    (outcome,) = place.run(what)
    assert (outcome.error, outcome.resumed, place.content()) == (None, len(DATA), DATA)
    assert len(server.requests()) == asked


def test_a_slow_disk_is_no_stall(fault_server, place, monkeypatch):
    """While the engine waits for the disk, bytes go on coming: no connection is taken for stalled."""
    real = JournaledPart.record_durable

    def slow(part, mark):
        time.sleep(0.6)
        real(part, mark)

    monkeypatch.setattr(JournaledPart, "record_durable", slow)
    server, what = mirrors(fault_server, 2, Rate(0.6 * MIB))
    (outcome,) = place.run(what, stall_seconds=0.5)
    assert (outcome.error, place.content()) == (None, DATA)
    assert [kind for kind, _ in place.told.events] == []
    assert len(DATA) <= server.body_bytes() <= len(DATA) + IN_FLIGHT


def test_a_bug_in_the_store_reaches_the_user(fault_server, place, monkeypatch):
    """An exception that nobody foresaw, in a worker's thread or in the pool, ends its file with an error."""
    _server, what = mirrors(fault_server, 1)

    def broken(*_):
        raise RuntimeError("a bug")

    for name in ("resume", "fix_size", "write", "record_written", "sync_data", "record_durable", "digest", "publish"):
        with monkeypatch.context() as patch:
            patch.setattr(JournaledPart, name, broken)
            (outcome,) = place.run(what)
        assert isinstance(outcome.error, InternalError), name
        assert outcome.error.exit_code == 70
        assert "a bug" in str(outcome.error.__cause__)
        assert place.content() is None
    (outcome,) = place.run(what)
    assert (outcome.error, place.content()) == (None, DATA)


def test_progress_is_reported(fault_server, place):
    """States come in order, bytes only grow, the last word is the whole file."""
    _server, what = mirrors(fault_server, 1, Rate(4 * MIB))
    place.run(what)
    states = [state.state for state in place.told.states]
    assert [each for each in dict.fromkeys(states) if each != "checking"] == ["downloading", "verifying", "downloaded"]
    done = [state.done for state in place.told.states]
    assert done == sorted(done)
    assert done[-1] == len(DATA)


def test_two_files_and_one_fails(fault_server, place):
    """A file that nobody has does not hold up the other."""
    server, what = mirrors(fault_server, 1)
    missing = artifact(server.base(), data=b"x" * 1000, name="b.tar")
    good, bad = place.run(what, missing)
    assert (good.error, place.content()) == (None, DATA)
    assert type(bad.error) is SourcesExhaustedError
    assert bad.reason == "lacking"


def test_a_low_limit_is_no_stall(fault_server, place):
    """At a limit so low that every connection waits for the others, none of them is taken for stalled."""
    data = b"PK\x03\x04" + random.Random(2).randbytes(400 * KIB)
    server, what = mirrors(fault_server, 3, data=data)
    (outcome,) = place.run(what, limit_rate=200.0 * KIB)
    assert (outcome.error, place.content()) == (None, data)
    assert [dict(fields) for _, fields in place.told.events] == []
    assert len(data) <= server.body_bytes() <= len(data) + IN_FLIGHT


def test_a_source_with_an_invalid_address(fault_server, place):
    """A source whose address cannot even be asked fails as a source; the others serve the file."""
    server, _ = mirrors(fault_server, 1)
    bad = ("http://[::1", "http://", "gopher://127.0.0.1", "http://127.0.0.1:99999", "http://a\x00b")
    for base in bad:
        (outcome,) = place.run(artifact(base))
        assert outcome.error is not None
        assert place.content() is None
    (outcome,) = place.run(artifact(*bad, server.base()))
    assert (outcome.error, place.content()) == (None, DATA)


def test_an_exception_of_on_done_ends_the_run(fault_server, place):
    """An exception in ``on_done`` is the caller's bug: it comes out of ``run`` instead of vanishing."""
    _, what = mirrors(fault_server, 1)
    transport = HttpTransport(NetworkSettings())

    def broken(_):
        raise RuntimeError("the caller's bug")

    engine = Engine(transport, place.told, POLICY)
    with pytest.raises(RuntimeError, match="the caller's bug"):
        engine.run([place.job(what)], broken)
    transport.close()


def test_a_connection_that_cannot_be_made(fault_server, place, monkeypatch):
    """The transport itself raises, which it should not: the run ends with an error and does not hang."""
    _, what = mirrors(fault_server, 1)

    def broken(*_):
        raise RuntimeError("no exchange")

    monkeypatch.setattr(HttpTransport, "exchange", broken)
    until = time.monotonic() + 60
    (outcome,) = place.run(what, cancelled=lambda: time.monotonic() > until)
    assert isinstance(outcome.error, InternalError)
    assert "no exchange" in str(outcome.error.__cause__)


def test_a_part_file_that_cannot_be_closed(fault_server, place, monkeypatch):
    """The last step of a failed file fails too: its own error is told all the same."""
    server, what = mirrors(fault_server, 1)
    server.always(0, Status(404))
    monkeypatch.setattr(JournaledPart, "close", lambda _: 1 / 0)
    (outcome,) = place.run(what)
    assert type(outcome.error) is SourcesExhaustedError

"""The lock of a part file, held by real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from contextlib import ExitStack
from pathlib import Path

import pytest

from resume_dl.errors import LockedError, StoreError
from resume_dl.store import lock as lock_module
from resume_dl.store.lock import FileLock
from resume_dl.store.part import PartStore
from store.parts import artifact, reopen
from support.processes import Run

HOLD = """
import sys
from pathlib import Path
from resume_dl.store.lock import FileLock
lock = FileLock(Path(sys.argv[1]))
lock.acquire()
print("held", flush=True)
sys.stdin.read()
lock.release(remove=True)
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "key.lock"


@pytest.fixture
def holder(path):
    """Another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_another_process_holds_it(path, holder):
    """LockedError names who has it, and asks again with the same answer."""
    for _ in range(2):
        with pytest.raises(LockedError, match=f"process {holder.pid}") as caught:
            FileLock(path).acquire()
        assert caught.value.owner == f"process {holder.pid} (-c)"


def test_a_killed_process_holds_no_lock(path, holder):
    """kill -9 lets go of the lock; the file that is left is no obstacle, and names the new owner."""
    holder.kill()
    holder.wait()
    lock = FileLock(path)
    lock.acquire()
    assert json.loads(path.read_text())["pid"] == os.getpid()
    lock.release()
    assert path.exists()


class Clock:
    """In place of ``time``; ``during_sleep`` is what other processes do meanwhile."""

    def __init__(self):
        self.now, self.slept = 0.0, []
        self.during_sleep = lambda: None

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds
        self.during_sleep()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(lock_module, "time", clock)
    return clock


def test_acquire_within_waits_for_a_released_lock(path, clock):
    """As soon as its holder lets go it is ours; one that is free is not waited for."""
    other, ours = FileLock(path), FileLock(path)
    other.acquire()
    clock.during_sleep = lambda: other.release() if len(clock.slept) == 3 else None
    ours.acquire_within(60.0)
    assert (ours.held, len(clock.slept)) == (True, 3)
    ours.release()
    ours.acquire_within(60.0)
    assert (ours.held, len(clock.slept)) == (True, 3)
    ours.release()


@pytest.mark.parametrize("pauses", [0, 4])
def test_acquire_within_gives_up_after_its_time(path, clock, pauses):
    """Then its holder is named; nothing is left open."""
    other = FileLock(path)
    other.acquire()
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        FileLock(path).acquire_within(pauses * lock_module._PAUSE)
    assert clock.slept == [lock_module._PAUSE] * pauses
    other.release()


def test_release_can_remove_the_lock_file(path, holder):
    """Released with its file removed, it can be had at once."""
    holder.stdin.close()
    holder.wait()
    assert not path.exists()
    lock = FileLock(path)
    lock.acquire()
    lock.release(remove=True)
    lock.release(remove=True)
    assert not path.exists()


def test_the_same_process_does_not_hold_it_twice(tmp_path):
    """Two part files of one key in one process: the second is refused as another process would be."""
    part = reopen(tmp_path)
    with pytest.raises(LockedError, match=f"process {os.getpid()}"):
        PartStore(tmp_path).open(artifact(), journaled=True)
    part.close()
    reopen(tmp_path).close()


@pytest.mark.parametrize("note", ["", "no json", "{}", '{"pid": "x", "host": 1, "program": 2}'])
def test_an_unreadable_note(path, holder, note):
    """Whatever the lock's file says, the answer is that it is held."""
    path.write_text(note)
    with pytest.raises(LockedError, match="another process"):
        FileLock(path).acquire()


def test_an_owner_on_another_machine_is_named(path, holder):
    """On a shared file system the host is told too."""
    path.write_text(json.dumps({"pid": 7, "host": "elsewhere", "program": "resume-dl"}))
    with pytest.raises(LockedError, match=r"process 7 \(resume-dl\) on elsewhere"):
        FileLock(path).acquire()


def test_removed_between_open_and_lock(path, monkeypatch):
    """The last owner removes the file after we opened it: the lock that we get is on the file of that name."""
    real, calls = lock_module.try_lock, []

    def slow(fd):
        calls.append(fd)
        if len(calls) == 1:
            path.unlink()
        return real(fd)

    monkeypatch.setattr(lock_module, "try_lock", slow)
    lock = FileLock(path)
    lock.acquire()
    assert len(calls) == 2
    monkeypatch.undo()
    with pytest.raises(LockedError):
        FileLock(path).acquire()
    lock.release(remove=True)


def test_removed_and_made_anew_between_open_and_lock(path, monkeypatch):
    """The last owner removes the file after we opened it, and another process makes it anew and locks it: it has it."""
    real, holders = lock_module.try_lock, ExitStack()

    def slow(fd):
        monkeypatch.undo()
        path.unlink()
        other = holders.enter_context(
            subprocess.Popen(
                [sys.executable, "-c", HOLD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
        )
        holders.callback(other.kill)
        assert other.stdout.readline() == "held\n"
        return real(fd)

    with holders:
        monkeypatch.setattr(lock_module, "try_lock", slow)
        lock = FileLock(path)
        with pytest.raises(LockedError):
            lock.acquire()
    lock.acquire()
    lock.release(remove=True)


def test_many_processes_race_for_it(tmp_path):
    """Taken and removed 900 times by three processes, it is never held by two at once."""
    program = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from resume_dl.errors import LockedError
        from resume_dl.store.lock import FileLock
        folder = Path(sys.argv[1])
        got = 0
        while got < 300:
            lock = FileLock(folder / "key.lock")
            try:
                lock.acquire()
            except LockedError:
                continue
            os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
            os.unlink(folder / "inside")
            got += 1
            lock.release(remove=True)
    """)
    with ExitStack() as running:
        command = [sys.executable, "-c", program, tmp_path]
        runs = [running.enter_context(Run(command, stderr=subprocess.PIPE, text=True)) for _ in range(3)]
        for run in runs:
            assert run.communicate(timeout=120)[1] == ""
            assert run.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks(path, monkeypatch):
    """Where the system refuses locks altogether, that is said, with what to do; no handle stays open."""

    def none(fd):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(lock_module, "try_lock", none)
    opened = []
    real = os.open
    monkeypatch.setattr(lock_module.os, "open", lambda *args, **more: opened.append(real(*args, **more)) or opened[-1])
    with pytest.raises(StoreError, match="no working locks: Operation not supported") as caught:
        FileLock(path).acquire()
    assert "--pkgs-dir" in caught.value.hint
    for fd in opened:
        with pytest.raises(OSError):
            os.fstat(fd)


def test_the_lock_holds_on_a_full_disk(path, monkeypatch):
    """The owner's name cannot be written: the lock holds all the same, and is let go of."""

    def full(fd, data):
        raise OSError(28, "No space left on device")

    lock = FileLock(path)
    monkeypatch.setattr(lock_module.os, "write", full)
    lock.acquire()
    with pytest.raises(LockedError):
        FileLock(path).acquire()
    monkeypatch.undo()
    lock.release()
    lock.acquire()
    lock.release(remove=True)


def test_it_knows_whether_it_is_held(path):
    """Before, while and after; to release what is not held does nothing to the file."""
    lock = FileLock(path)
    assert not lock.held
    path.write_text("another's")
    lock.release(remove=True)
    assert path.read_text() == "another's"
    lock.acquire()
    assert lock.held
    lock.release()
    assert not lock.held
    assert path.exists()
    lock.acquire()
    lock.release(remove=True)
    assert not path.exists()


def test_the_note_replaces_an_older_one(path):
    """A longer note of the owner before: the file has this process's alone."""
    path.write_text("x" * 4096)
    lock = FileLock(path)
    lock.acquire()
    assert json.loads(path.read_text()).keys() == {"pid", "host", "program"}
    lock.release(remove=True)


def test_a_lock_file_with_another_hard_link_is_not_written(path, tmp_path):
    """It may be somebody's document."""
    (tmp_path / "document").write_text("theirs")
    os.link(tmp_path / "document", path)
    lock = FileLock(path)
    lock.acquire()
    assert (tmp_path / "document").read_text() == "theirs"
    with pytest.raises(LockedError, match="another process"):
        FileLock(path).acquire()
    lock.release()


@pytest.mark.parametrize(
    ("argv", "name"), [("/x/bin/resume-dl", "resume-dl"), ("/x/resume_dl/__main__.py", "resume_dl"), ("-c", "-c")]
)
def test_the_program_is_named_as_the_user_calls_it(path, monkeypatch, argv, name):
    monkeypatch.setattr(sys, "argv", [argv])
    lock = FileLock(path)
    lock.acquire()
    with pytest.raises(LockedError, match=rf"process {os.getpid()} \({name}\) is using this file") as caught:
        FileLock(path).acquire()
    assert "--no-wait" in caught.value.hint
    lock.release(remove=True)


def handles_of(path):
    """How many handles of this process lead to ``path``, removed or not."""
    handles = (each for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    return sum(str(each.readlink()).startswith(str(path)) for each in handles)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which handles are open")
def test_a_failed_acquire_leaves_no_open_handle(path, holder, monkeypatch):
    """Neither where another process has it, nor where its file was removed between opening and locking."""
    for _ in range(3):
        with pytest.raises(LockedError):
            FileLock(path).acquire()
    assert handles_of(path) == 0
    holder.stdin.close()
    holder.wait()
    real, calls = lock_module.try_lock, []

    def slow(fd):
        calls.append(fd)
        if len(calls) < 3:
            path.unlink()
        return real(fd)

    monkeypatch.setattr(lock_module, "try_lock", slow)
    lock = FileLock(path)
    lock.acquire()
    assert handles_of(path) == 1
    lock.release(remove=True)
    assert handles_of(path) == 0

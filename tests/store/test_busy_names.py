"""Names that another process's handle blocks, as on Windows: with patience, then an error or a copy."""

from __future__ import annotations

import errno
import os
import sys
import threading
from pathlib import Path

import pytest

from resume_dl import fs
from resume_dl.bundle.unfinished import Unfinished
from resume_dl.errors import LockedError, StoreError
from resume_dl.fs import busy_names, folder_move, system
from resume_dl.fs import lock as locks
from resume_dl.fs.folder_move import move_folder
from resume_dl.store import platform
from resume_dl.store.lock import FileLock

windows = sys.platform == "win32"


class Clock:
    """In place of ``time``."""

    def __init__(self) -> None:
        self.now = 0.0
        self.during_sleep = lambda: None

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.during_sleep()


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(busy_names, "time", made)
    return made


@pytest.fixture
def blocking(monkeypatch) -> None:
    monkeypatch.setattr(system, "handles_block_names", lambda: True)


class Refusing:
    """In place of a call of ``os``: refuses as Windows does while ``seconds`` of the clock have not passed."""

    def __init__(self, monkeypatch, clock: Clock, name: str, seconds: float) -> None:
        self.tries, self._clock, self._seconds = 0, clock, seconds
        self._real = getattr(os, name)
        monkeypatch.setattr(os, name, self)

    def __call__(self, *arguments, **more):
        self.tries += 1
        if self._clock.now < self._seconds:
            raise PermissionError(errno.EACCES, "Permission denied")
        return self._real(*arguments, **more)


@pytest.mark.usefixtures("blocking")
def test_a_rename_waits_for_a_reader(tmp_path, monkeypatch, clock):
    """A scanner that takes nine seconds for a large file costs nine seconds."""
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    Refusing(monkeypatch, clock, "replace", 9.0)
    fs.replace(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"new"
    assert 9.0 <= clock.now < 9.2


def test_a_reader_that_lets_go_is_waited_for(tmp_path):
    """With the system's own refusals, where it refuses."""
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old")
    reader = (tmp_path / "b").open("rb")
    closing = threading.Timer(0.5, reader.close)
    closing.start()
    fs.replace(tmp_path / "a", tmp_path / "b")
    closing.join(60)
    assert (tmp_path / "b").read_bytes() == b"new"


@pytest.mark.usefixtures("blocking")
def test_a_rename_that_stays_refused_is_an_error_after_ten_seconds(tmp_path, monkeypatch, clock):
    Refusing(monkeypatch, clock, "replace", 1000.0)
    with pytest.raises(PermissionError):
        fs.replace(tmp_path / "a", tmp_path / "b")
    assert 9.9 < clock.now < 10.2


@pytest.mark.usefixtures("blocking")
def test_a_folder_in_the_way_is_not_waited_for(tmp_path, monkeypatch, clock):
    """No handle is the cause there."""
    (tmp_path / "b").mkdir()
    refusing = Refusing(monkeypatch, clock, "replace", 1000.0)
    with pytest.raises(PermissionError):
        fs.replace(tmp_path / "a", tmp_path / "b")
    assert (refusing.tries, clock.now) == (1, 0.0)


@pytest.mark.skipif(windows, reason="a refusal is final on POSIX alone")
def test_a_refusal_on_posix_is_final(tmp_path, monkeypatch, clock):
    refusing = Refusing(monkeypatch, clock, "replace", 1000.0)
    with pytest.raises(PermissionError):
        fs.replace(tmp_path / "a", tmp_path / "b")
    assert (refusing.tries, clock.now) == (1, 0.0)


def package(folder: Path) -> Path:
    (folder / "lib").mkdir(parents=True)
    (folder / "info").mkdir()
    (folder / "lib/a.py").write_bytes(b"a")
    (folder / "info/index.json").write_bytes(b"{}")
    (folder / "info/paths.json").write_bytes(b"{}")
    return folder


LAST = ("info/index.json", "info/repodata_record.json")


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.usefixtures("blocking")
def test_a_folder_that_stays_blocked_is_copied(tmp_path, monkeypatch, clock):
    """What tells a whole package comes last; the copy is synced, and nothing is left at the old name."""
    source, target, synced = package(tmp_path / "a"), tmp_path / "b", []
    monkeypatch.setattr(platform, "sync_trees", synced.append)
    Refusing(monkeypatch, clock, "replace", 1000.0)
    seen = []
    real = folder_move.shutil.copy2

    def copy2(source, target, **more):
        seen.append(Path(source).name)
        return real(source, target, **more)

    monkeypatch.setattr(folder_move.shutil, "copy2", copy2)
    platform.move_folder(source, target, last=LAST)
    assert files(target) == ["info/index.json", "info/paths.json", "lib/a.py"]
    assert seen[-1:] == ["index.json"]
    assert not source.exists()
    assert synced == [[target]]


@pytest.mark.usefixtures("blocking")
def test_a_copy_that_fails_leaves_nothing(tmp_path, monkeypatch, clock):
    """The disk is full half way: the folder is where it was, and the new name is free."""
    source = package(tmp_path / "a")
    Refusing(monkeypatch, clock, "replace", 1000.0)

    def full(*arguments, **more):
        raise OSError(errno.ENOSPC, "No space left")

    monkeypatch.setattr(folder_move.shutil, "copy2", full)
    with pytest.raises(OSError, match="No space left"):
        move_folder(source, tmp_path / "b", last=LAST)
    assert not (tmp_path / "b").exists()
    assert len(files(source)) == 3


def test_a_folder_is_renamed_where_nothing_blocks_it(tmp_path):
    source = package(tmp_path / "a")
    inode = source.stat().st_ino
    assert move_folder(source, tmp_path / "b", last=LAST) is False
    assert (tmp_path / "b").stat().st_ino == inode


# --- locks


@pytest.mark.usefixtures("blocking")
def test_a_lock_whose_file_is_being_removed_is_opened_a_moment_later(tmp_path, monkeypatch, clock):
    """Windows says EACCES until the last handle of the removed file is closed."""
    Refusing(monkeypatch, clock, "open", 0.3)
    lock = FileLock(tmp_path / "a.lock")
    lock.acquire()
    assert lock.held
    lock.release()


@pytest.mark.usefixtures("blocking")
def test_a_lock_file_that_cannot_be_opened_is_told(tmp_path, monkeypatch, clock):
    """After two seconds: a folder without permissions is not waited for as long as a scanner is."""
    Refusing(monkeypatch, clock, "open", 1000.0)
    with pytest.raises(PermissionError):
        FileLock(tmp_path / "a.lock").acquire()
    assert clock.now < 2.2


@pytest.mark.parametrize("number", [errno.EACCES, errno.EDEADLK, errno.EAGAIN])
def test_these_errors_say_that_a_byte_is_locked(number):
    def call():
        raise OSError(number, "locked")

    assert locks.granted(call) is False


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EIO, errno.ENOLCK])
def test_all_other_errors_are_told(number):
    """A share without locks would be waited for without end."""

    def call():
        raise OSError(number, "no locks here")

    with pytest.raises(OSError, match="no locks here"):
        locks.granted(call)


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch):
    def no_locks(fd):
        raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr("resume_dl.store.lock.try_lock", no_locks)
    with pytest.raises(StoreError, match="no working locks"):
        FileLock(tmp_path / "a.lock").acquire()


def test_each_lock_is_within_what_windows_can_lock():
    """The C library seeks with 32 bits."""
    assert locks.BEHIND_THE_TEXT < locks.LAST_BYTE < (1 << 31) - 1


# --- two writers of one name


def test_a_second_writer_of_one_name_is_told_so(tmp_path, monkeypatch):
    """Windows refuses to remove what the first one has open; elsewhere the first one finds out at its end."""
    first = Unfinished(tmp_path / "a.tar")
    if not windows:

        def unlink(path, **more):
            error = PermissionError(errno.EACCES, "Permission denied")
            error.winerror = 32
            raise error

        monkeypatch.setattr(Path, "unlink", unlink)
    with pytest.raises(LockedError, match=r"another process is writing .*a\.tar"):
        Unfinished(tmp_path / "a.tar")
    monkeypatch.undo()
    first.finish()
    first.publish()
    assert (tmp_path / "a.tar").exists()

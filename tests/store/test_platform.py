"""What the store asks of the system: positioned files, syncs, renames, locks, each with how it can fail."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from resume_dl.fs.lock import try_lock
from resume_dl.store import platform
from resume_dl.store.journal_file import JournalFile
from resume_dl.store.lock import FileLock
from resume_dl.store.platform import (
    PositionedFile,
    make_folder,
    remove_durably,
    rename_durably,
    replace,
    replace_durably,
    sync_directory,
    sync_fd,
    sync_file,
    sync_file_system,
    sync_trees,
    write_durably,
)

linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells which handles are open")


@pytest.fixture
def synced(monkeypatch):
    """Which files and folders were synced, by name; the calls are made all the same."""
    names = []

    def watched(real):
        def call(fd):
            names.append(Path(f"/proc/self/fd/{fd}").readlink().name)
            real(fd)

        return call

    monkeypatch.setattr(os, "fsync", watched(os.fsync))
    monkeypatch.setattr(os, "fdatasync", watched(os.fdatasync))
    return names


@pytest.fixture
def no_handle_left(tmp_path):
    """No handle of anything below the test's folder stays open."""
    yield
    handles = (each for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
    assert [each for each in handles if str(each.readlink()).startswith(str(tmp_path))] == []


# --- files


@linux
@pytest.mark.usefixtures("no_handle_left")
def test_a_positioned_file(tmp_path, synced):
    """Written and read anywhere, made longer and shorter, synced, closed as often as one likes."""
    path = tmp_path / "a"
    with pytest.raises(FileNotFoundError):
        PositionedFile(path, create=False)
    file = PositionedFile(path, create=True)
    assert file.size == 0
    file.write_at(5, b"hello")
    file.write_at(0, memoryview(b"12345"))
    file.write_at(3, b"")
    assert path.read_bytes() == b"12345hello"
    assert file.read_at(4, 3) == b"5he"
    assert file.read_at(8, 10) == b"lo"
    assert file.read_at(10, 1) == b""
    buffer = memoryview(bytearray(4))
    assert file.read_into(buffer, 1) == 4
    assert bytes(buffer) == b"2345"
    assert file.read_into(buffer, 8) == 2
    file.reserve(20)
    assert file.size == 20
    file.reserve(3)
    assert path.read_bytes() == b"123"
    assert file.links == 1
    os.link(path, tmp_path / "b")
    assert file.links == 2
    file.sync()
    assert synced == ["a"]
    file.close()
    file.close()
    with pytest.raises(OSError, match="descriptor"):
        file.read_at(0, 1)
    PositionedFile(path, create=False).close()


def test_a_positioned_file_is_written_whole(tmp_path, monkeypatch):
    """A system that takes a few bytes at a time gets the rest again."""
    name = "pwrite" if hasattr(os, "pwrite") else "write"
    real = getattr(os, name)
    monkeypatch.setattr(os, name, lambda fd, data, *offset: real(fd, data[:3], *offset))
    file = PositionedFile(tmp_path / "a", create=True)
    file.write_at(2, b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"\0\x000123456789"
    file.close()


def test_a_close_frees_its_own_handle_alone(tmp_path):
    """The number may be another file's by the second call."""
    file = PositionedFile(tmp_path / "a", create=True)
    file.close()
    with (tmp_path / "b").open("w") as other:
        file.close()
        assert os.fstat(other.fileno())


def test_reading_without_preadv(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "preadv", raising=False)
    file = PositionedFile(tmp_path / "a", create=True)
    file.write_at(0, b"0123")
    buffer = memoryview(bytearray(6))
    assert file.read_into(buffer, 1) == 3
    assert bytes(buffer[:3]) == b"123"
    file.close()


# --- syncs


def test_fsync_is_used_without_fdatasync(tmp_path, monkeypatch):
    calls = []
    monkeypatch.delattr(os, "fdatasync", raising=False)
    monkeypatch.setattr(os, "fsync", calls.append)
    sync_fd(5)
    assert calls == [5]


@linux
@pytest.mark.usefixtures("no_handle_left")
def test_files_and_folders_are_synced_by_name(tmp_path, synced):
    """No link is followed, no pipe waited for, and no handle left."""
    (tmp_path / "a").write_bytes(b"x")
    sync_file(tmp_path / "a")
    sync_directory(tmp_path)
    assert synced == ["a", tmp_path.name]
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(OSError, match="link"):
        sync_file(tmp_path / "link")
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "absent")


@linux
@pytest.mark.usefixtures("no_handle_left")
@pytest.mark.parametrize(
    ("number", "passes"),
    [(errno.EINVAL, True), (errno.ENOTSUP, True), (errno.EBADF, True), (errno.EIO, False), (errno.ENOSPC, False)],
)
def test_a_folder_that_cannot_be_synced(tmp_path, monkeypatch, number, passes):
    """Some network file systems have no such call; a disk that failed is an error."""

    def refuse(fd):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    if passes:
        sync_directory(tmp_path)
    else:
        with pytest.raises(OSError) as caught:
            sync_directory(tmp_path)
        assert caught.value.errno == number


class Library:
    """A C library whose ``syncfs`` answers with ``number``; 0 is success, None: it has no such call."""

    def __init__(self, number):
        self.number = number

    @property
    def syncfs(self):
        if self.number is None:
            raise AttributeError("syncfs")
        return lambda fd: -1 if self.number else 0


@linux
@pytest.mark.parametrize(
    ("number", "result"),
    [
        (0, True), (None, False), (errno.ENOSYS, False), (errno.EPERM, False), (errno.EINVAL, False),
        (errno.ENOTSUP, False), (errno.EIO, OSError), (errno.ENOSPC, OSError),
    ],
)  # fmt: skip
def test_results_of_syncfs(monkeypatch, number, result):
    """Done, or no such call here; an error of the disk is one."""
    import ctypes

    kept = []  # whether the library keeps errno for us
    monkeypatch.setattr(ctypes, "CDLL", lambda name, use_errno: kept.append(use_errno) or Library(number))
    monkeypatch.setattr(ctypes, "get_errno", lambda: number if kept == [True] else 0)
    if result is OSError:
        with pytest.raises(OSError) as caught:
            sync_file_system(0)
        assert caught.value.errno == number
        assert caught.value.strerror
    else:
        assert sync_file_system(0) is result


@linux
@pytest.mark.usefixtures("no_handle_left")
@pytest.mark.parametrize("has_call", [True, False])
def test_trees_are_synced_at_once_or_file_by_file(tmp_path, monkeypatch, synced, has_call):
    """By one call of the file system; without it each file and folder of each tree, links aside, folders last."""
    for name in ("one", "two"):
        (tmp_path / name / "in").mkdir(parents=True)
        (tmp_path / name / "in" / f"{name}.txt").write_bytes(b"x")
        (tmp_path / name / "link").symlink_to("in")
    (tmp_path / "one" / "closed").write_bytes(b"x")
    asked = []
    monkeypatch.setattr(platform, "sync_file_system", lambda fd: asked.append(os.fstat(fd).st_ino) or has_call)
    sync_trees([tmp_path / "one", tmp_path / "two"])
    assert asked == [(tmp_path / "one").stat().st_ino]
    assert sorted(synced) == ([] if has_call else ["closed", "in", "in", "one", "one.txt", "two", "two.txt"])
    sync_trees([])
    assert len(asked) == 1


@linux
@pytest.mark.usefixtures("no_handle_left")
def test_a_failed_syncfs_is_an_error(tmp_path, monkeypatch):
    (tmp_path / "a").write_bytes(b"x")
    monkeypatch.setattr(platform, "sync_file_system", lambda fd: False)
    real = os.open
    refused = []

    def unreadable(path, flags, *more, **named):
        if Path(path).name == "a":
            refused.append(path)
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *more, **named)

    monkeypatch.setattr(os, "open", unreadable)
    sync_trees([tmp_path])  # a file that this user cannot read was not written by this user
    assert len(refused) == 1
    monkeypatch.undo()
    monkeypatch.setattr(platform, "sync_file_system", lambda fd: False)

    def failed(fd):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failed)
    with pytest.raises(OSError, match="Input/output"):
        sync_trees([tmp_path])


# --- names


@linux
def test_replace_durably_syncs_file_and_folder(tmp_path, synced):
    """Data, name, folder: in that order, and each once."""
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "new").write_bytes(b"new")
    (folder / "old").write_bytes(b"old")
    replace_durably(tmp_path / "new", folder / "old")
    assert synced == ["new", "in"]
    rename_durably(folder / "old", tmp_path / "newer")
    assert synced == ["new", "in", tmp_path.name]
    assert (tmp_path / "newer").read_bytes() == b"new"
    remove_durably(tmp_path / "newer")
    assert synced == ["new", "in", tmp_path.name, tmp_path.name]
    remove_durably(tmp_path / "newer")
    assert len(synced) == 4
    assert not (tmp_path / "newer").exists()


def test_a_rename_is_done_once(tmp_path):
    (tmp_path / "a").write_bytes(b"x")
    replace(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


@pytest.mark.parametrize("named", [True, False])
def test_a_failed_durable_write_leaves_no_temporary_file(tmp_path, named):
    """Under a temporary name first, the caller's or one of its own; where it fails, that is gone again."""
    temporary = tmp_path / "temporary" if named else None
    write_durably(tmp_path / "a", b"one", temporary=temporary)
    write_durably(tmp_path / "a", b"two", temporary=temporary)
    assert (tmp_path / "a").read_bytes() == b"two"
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_durably(tmp_path / "folder", b"x", temporary=temporary)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder"]


@linux
def test_folders_that_are_made_are_synced(tmp_path, synced):
    """Each in the one above it; what was there costs nothing, and ``make`` may be another way to make it."""
    make_folder(tmp_path / "one" / "two")
    assert sorted(synced) == sorted(["one", tmp_path.name])
    make_folder(tmp_path / "one" / "two")
    assert len(synced) == 2
    made = []
    make_folder(tmp_path / "three", lambda path: made.append(path) or path.mkdir())
    assert made == [tmp_path / "three"]
    assert synced[2:] == [tmp_path.name]
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


# --- locks


def test_a_lock_is_held_by_one_handle(tmp_path):
    """Another handle is told that it is held until the first is closed; a system without locks is an error."""
    path = tmp_path / "lock"
    one, two = (os.open(path, os.O_RDWR | os.O_CREAT) for _ in range(2))
    assert try_lock(one) is True
    assert try_lock(two) is False
    os.close(one)
    assert try_lock(two) is True
    os.close(two)
    with pytest.raises(OSError, match="descriptor"):
        try_lock(two)


@pytest.fixture
def free_descriptor_0():
    """Standard input is closed, as some services start their programs: the next file gets descriptor 0."""
    kept = os.dup(0)
    os.close(0)
    yield
    os.dup2(kept, 0)
    os.close(kept)


def is_open(fd):
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.mark.usefixtures("free_descriptor_0")
@pytest.mark.parametrize("kind", ["file", "lock", "journal", "trees"])
def test_a_file_that_has_descriptor_0(tmp_path, monkeypatch, kind):
    """It is used and closed as any other."""
    if kind == "file":
        file = PositionedFile(tmp_path / "a", create=True)
        assert is_open(0)
        file.close()
    elif kind == "lock":
        lock = FileLock(tmp_path / "a")
        lock.acquire()
        assert is_open(0)
        assert lock.held
        lock.release()
        assert not lock.held
    elif kind == "journal":
        journal = JournalFile(tmp_path / "a")
        journal.rewrite(None)
        assert is_open(0)
        journal.close()
    else:
        asked = []
        monkeypatch.setattr(platform, "sync_file_system", lambda fd: asked.append(fd) or True)
        sync_trees([tmp_path])
        assert asked == [0]
    assert not is_open(0)

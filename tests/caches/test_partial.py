"""A complete ``.partial`` in conda's cache: put there, withdrawn, and never against conda's own lock."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from resume_dl.caches.conda.partial import conda_lock, duplicate, open_locked, place, withdraw_orphans
from resume_dl.errors import LockedError
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from support.condas_lock import LOCK, another_conda_works_on

NAME = "a-1-0.conda"
OTHER_BYTES = f"""{LOCK}
file = open(sys.argv[1], "a+b")
for start, count in ((0, 21), (22, 100)):
    lock(file, start, count)
print("held", flush=True)
sys.stdin.read()
"""
TRY = f"""{LOCK}
try:
    lock(open(sys.argv[1], "a+b"), 21, 1)
    print("free")
except OSError:
    print("held")
"""


@pytest.fixture
def pkgs(tmp_path):
    (tmp_path / FOLDER).mkdir(mode=0o700)
    return tmp_path


def verified(pkgs, data=b"whole"):
    path = pkgs / FOLDER / "copy-1"
    path.write_bytes(data)
    return path


def partial(pkgs, name=NAME):
    return pkgs / f"{name}.partial"


def left(pkgs):
    return sorted(path.name for path in (pkgs / FOLDER).iterdir())


def condas_byte(path):
    """Whether another process finds conda's lock held."""
    return subprocess.run([sys.executable, "-c", TRY, path], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def locks_on_all_other_bytes(path):
    with subprocess.Popen(
        [sys.executable, "-c", OTHER_BYTES, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        yield
        holder.stdin.close()


@pytest.mark.parametrize("prefix", [None, b"prefix"])
def test_a_placed_partial_is_withdrawn(pkgs, prefix):
    """A prefix that lay there is replaced; withdrawn, neither file nor mark is left, however often."""
    if prefix is not None:
        partial(pkgs).write_bytes(prefix)
    handed = place(pkgs, NAME, verified(pkgs))
    assert handed.path == partial(pkgs)
    assert partial(pkgs).read_bytes() == b"whole"
    assert left(pkgs) == [f"handed-{partial(pkgs).stat().st_ino}-{NAME}.lock"]
    for _ in range(2):
        handed.withdraw()
        assert not partial(pkgs).exists()
        assert left(pkgs) == []


def test_a_partial_in_use_by_conda_is_not_replaced(pkgs):
    """LockedError with the file's name; verified copy and mark are gone, the prefix stays."""
    partial(pkgs).write_bytes(b"prefix")
    with another_conda_works_on(partial(pkgs)):
        with pytest.raises(LockedError, match=r"conda is using a-1-0\.conda\.partial") as caught:
            place(pkgs, NAME, verified(pkgs))
        assert caught.value.owner == "conda"
    assert left(pkgs) == []
    assert partial(pkgs).read_bytes() == b"prefix"


def test_a_mark_that_another_process_holds(pkgs):
    """The same file is being placed already: refused, and that mark stays."""
    copy = verified(pkgs)
    mark = FileLock(pkgs / FOLDER / f"handed-{copy.stat().st_ino}-{NAME}.lock")
    mark.acquire()
    with pytest.raises(LockedError):
        place(pkgs, NAME, copy)
    assert left(pkgs) == [mark.path.name]
    assert not partial(pkgs).exists()
    mark.release(remove=True)


def test_partials_of_killed_processes_are_withdrawn(pkgs):
    """Each by its own mark: what conda took meanwhile stays, and so does what a living process placed."""
    handed = {}
    for name in ("dead", "taken", "alive", "dead2"):
        handed[name] = place(pkgs, f"{name}-1-0.conda", verified(pkgs))
    inode = partial(pkgs, "taken-1-0.conda").stat().st_ino
    partial(pkgs, "taken-1-0.conda").rename(pkgs / "taken-1-0.conda")
    partial(pkgs, "taken-1-0.conda").write_bytes(b"a new prefix")
    assert partial(pkgs, "taken-1-0.conda").stat().st_ino != inode
    for name in ("dead", "taken", "dead2"):
        handed[name]._mark.release()  # as the end of its process does
    for other in ("aaa", "zzz", "handed-x-b.lock", "handed-1-b.lock.old"):
        (pkgs / FOLDER / other).write_bytes(b"")
    withdraw_orphans(pkgs)
    assert sorted(path.name for path in pkgs.glob("*.partial")) == [
        "alive-1-0.conda.partial",
        "taken-1-0.conda.partial",
    ]
    marks = [handed["alive"]._mark.path.name]
    assert left(pkgs) == sorted(["aaa", "zzz", "handed-x-b.lock", "handed-1-b.lock.old", *marks])


@pytest.mark.skipif(sys.platform == "win32", reason="a folder has no mode there")
def test_orphans_in_a_folder_that_others_write_to_are_left_alone(pkgs):
    """Whoever can write a mark there could have any file withdrawn."""
    handed = place(pkgs, NAME, verified(pkgs))
    handed._mark.release()
    (pkgs / FOLDER).chmod(0o777)
    withdraw_orphans(pkgs)
    assert partial(pkgs).exists()
    withdraw_orphans(pkgs / "absent")


def test_an_orphan_in_use_by_conda_is_kept(pkgs):
    """Its mark goes all the same: from now on the file is conda's."""
    handed = place(pkgs, NAME, verified(pkgs))
    handed._mark.release()
    with another_conda_works_on(partial(pkgs)):
        withdraw_orphans(pkgs)
    assert partial(pkgs).read_bytes() == b"whole"
    assert left(pkgs) == []


ONLY_LOOKED_AT = pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be replaced there")


@pytest.mark.parametrize("use", [open_locked, pytest.param(conda_lock, marks=ONLY_LOOKED_AT)])
def test_the_lock_is_the_byte_that_conda_locks(pkgs, use):
    """Held by us as conda holds it, free afterwards; locks on all other bytes are no obstacle."""
    path = partial(pkgs)
    path.write_bytes(b"prefix")
    with use(path):
        assert condas_byte(path) == "held"
    assert condas_byte(path) == "free"
    with locks_on_all_other_bytes(path), use(path):
        pass
    with another_conda_works_on(path), pytest.raises(LockedError), use(path):
        pass
    with pytest.raises(ZeroDivisionError), use(path):
        raise ZeroDivisionError
    assert condas_byte(path) == "free"


def test_open_locked_yields_a_handle_of_the_file(pkgs):
    """To the caller alone: it is closed at the end."""
    partial(pkgs).write_bytes(b"prefix")
    with open_locked(partial(pkgs)) as fd:
        assert os.read(fd, 10) == b"prefix"
    with pytest.raises(OSError) as caught:
        os.fstat(fd)
    assert caught.value.errno == errno.EBADF  # its text is in the language of the system


def test_without_a_file_there_is_nothing_to_lock(pkgs):
    """What is done under the lock is done; a reader is told that there is nothing."""
    entered = False
    with conda_lock(partial(pkgs)):
        entered = True
    assert entered
    with pytest.raises(FileNotFoundError), open_locked(partial(pkgs)):
        pass


def test_duplicate_makes_a_hard_link_or_a_copy(tmp_path):
    """Below the cache's folder of unfinished files, private; a link in name only where that is wanted and harmless."""
    source, link = tmp_path / "source", tmp_path / "link"
    source.write_bytes(b"bytes")
    link.symlink_to(source)
    pkgs = tmp_path / "pkgs"
    second = duplicate(source, pkgs)
    assert second.samefile(source)
    for copy in (duplicate(link, pkgs), duplicate(source, pkgs, link=False)):
        assert not copy.is_symlink()
        assert not copy.samefile(source)
        assert copy.read_bytes() == b"bytes"
        assert copy.parent == pkgs / FOLDER
    assert len(left(pkgs)) == 3
    assert (pkgs / FOLDER).stat().st_mode & 0o777 == 0o700


def test_a_copy_that_fails_leaves_nothing(tmp_path):
    """The source cannot be read: its error, and no half of a copy."""
    with pytest.raises(OSError, match="source"):
        duplicate(tmp_path / "source", tmp_path)
    if sys.platform == "linux":  # a regular file that opens and cannot be read
        with pytest.raises(OSError):
            duplicate(Path("/proc/self/mem"), tmp_path)
    assert left(tmp_path) == []

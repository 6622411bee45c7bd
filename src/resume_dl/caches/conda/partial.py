"""Complete ``<fn>.partial`` files, which hand an archive to conda: it accepts them for any URL, hashes and extracts.

conda 24.7 and 26.7 keep an unfinished download there and continue it; one that has the record's size is only hashed
and renamed. It must be a regular, writable file. A cache entry (``publish``) is preferred, because an unused
``.partial`` does harm later: conda would append to it. So it is withdrawn when our process ends
(``HandedPartial.withdraw``), or by the next process if ours was killed (``withdraw_orphans``): a lock file in the work
folder, held as long as our process lives, names its inode.

conda's own lock on it is one byte at offset 21 (``gateways/disk/lock.py``): ``fcntl.lockf``, on Windows
``msvcrt.locking``; ``flock`` does not see it. A process that replaces or removes the file holds that lock.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import LockedError
from resume_dl.fs.lock import granted
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import replace
from resume_dl.store.work_folder import is_trusted, make_work_folder

SUFFIX = ".partial"
_CONDA_LOCK_BYTE = 21
_MARK = re.compile(r"handed-(\d+)-(.+)\.lock")


class HandedPartial:
    """A complete ``.partial`` that this process put into a package cache; see ``place``."""

    def __init__(self, path: Path, inode: int, mark: FileLock) -> None:
        self.path = path
        self._inode = inode
        self._mark = mark

    def withdraw(self) -> None:
        """Remove it if conda has not used it. Never raises OSError; a second call does nothing."""
        _remove_if(self.path, self._inode)
        self._mark.release(remove=True)


def duplicate(source: Path, folder: Path, *, link: bool = True) -> Path:
    """Make a hard link or a copy of ``source`` below ``<pkgs>/.resume-dl/`` of the cache ``folder``. Raises OSError.

    A link is made only if ``link`` permits it and ``source`` is a regular file that we can write, so that conda can
    treat it as its own. Its bytes are verified, and conda does not write to a file that has its full size.
    """
    target = folder / FOLDER / f"copy-{secrets.token_hex(8)}"
    make_work_folder(target.parent)
    found = source.lstat()
    if link and stat.S_ISREG(found.st_mode) and os.access(source, os.W_OK):
        with suppress(OSError):
            os.link(source, target)
            return target
    try:
        shutil.copyfile(source, target)
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise
    return target


def place(pkgs_dir: Path, filename: str, verified: Path) -> HandedPartial:
    """Rename a **verified** file of ``<pkgs>/.resume-dl/`` to ``<fn>.partial``, replacing conda's unfinished one.

    Raises LockedError if a conda process is using that one, or OSError; ``verified`` is removed then.
    """
    target = pkgs_dir / f"{filename}{SUFFIX}"
    inode = verified.stat().st_ino
    mark = FileLock(pkgs_dir / FOLDER / f"handed-{inode}-{filename}.lock")
    try:
        mark.acquire()
        try:
            with conda_lock(target):
                replace(verified, target)
        except BaseException:
            mark.release(remove=True)
            raise
    except BaseException:
        with suppress(OSError):
            verified.unlink()
        raise
    return HandedPartial(target, inode, mark)


def withdraw_orphans(pkgs_dir: Path) -> None:
    """Remove files that killed processes had placed and conda did not use. Never raises OSError."""
    if not is_trusted(pkgs_dir / FOLDER):
        return
    with suppress(OSError):
        for name in fs.names_in(pkgs_dir / FOLDER):
            found = _MARK.fullmatch(name)
            if found is None:
                continue
            mark = FileLock(pkgs_dir / FOLDER / name)
            with suppress(LockedError):  # its process still runs
                mark.acquire()
                _remove_if(pkgs_dir / f"{found[2]}{SUFFIX}", int(found[1]))
                mark.release(remove=True)


def _remove_if(path: Path, inode: int) -> None:
    with suppress(OSError, LockedError), conda_lock(path):
        if path.lstat().st_ino == inode:
            path.unlink()


@contextmanager
def open_locked(path: Path) -> Iterator[int]:
    """Open a ``.partial`` for reading, under conda's lock. Raises LockedError if a conda process has it, or OSError.

    Closing any other handle of that file in this process would free the lock (fcntl(2)).
    """
    fd = fs.open_regular(path, os.O_RDWR)
    try:
        _try_byte(fd, path)
        yield fd
    finally:
        _free_byte(fd)
        os.close(fd)


@contextmanager
def conda_lock(path: Path) -> Iterator[None]:
    """Hold conda's lock on a ``.partial`` while it is replaced or removed; does nothing if the file is missing.

    Raises LockedError if a conda process has it. On Windows an open file can be neither replaced nor removed, so there
    the lock is taken and released before the block.
    """
    try:
        fd = fs.open_regular(path, os.O_RDWR)
    except FileNotFoundError:
        yield
        return
    try:
        _try_byte(fd, path)
        if sys.platform != "win32":
            yield
    finally:
        _free_byte(fd)
        os.close(fd)
    if sys.platform == "win32":
        yield


def _try_byte(fd: int, path: Path) -> None:
    if not granted(lambda: _lock_byte(fd)):
        raise LockedError(f"conda is using {path.name}", owner="conda")


def _lock_byte(fd: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, _CONDA_LOCK_BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _CONDA_LOCK_BYTE)


def _free_byte(fd: int) -> None:
    """Release the lock where closing the handle does not (Windows)."""
    if sys.platform == "win32":
        import msvcrt

        with suppress(OSError):  # we did not hold it
            os.lseek(fd, _CONDA_LOCK_BYTE, os.SEEK_SET)
            msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)

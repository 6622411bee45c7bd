"""Locks on open files, which the system releases when the file is closed or its process ends."""

from __future__ import annotations

import errno
import os
import sys
from typing import Callable

from resume_dl.fs.busy_names import patiently
from resume_dl.fs.regular import open_regular
from resume_dl.fs.system import Place

BEHIND_THE_TEXT = 1 << 20
"""Locks are mandatory on Windows: locking a byte far beyond the text leaves the text readable for others."""
LAST_BYTE = (1 << 31) - 2
"""The highest byte that Windows's C library locks."""
_OPENED_WITHIN = 2.0
"""Seconds. A lock's file cannot be opened while its last owner removes it, which takes some milliseconds."""
_LOCKED = frozenset({errno.EACCES, errno.EAGAIN, errno.EDEADLK, getattr(errno, "EDEADLOCK", errno.EDEADLK), 0})
"""Of a range that another process has locked: fcntl(2) says the first two, Windows's ``_locking`` all but EAGAIN, and
Wine's nothing, 0."""


def open_lock(path: Place, mode: int = 0o666) -> int:
    """Open a file that is to be locked, make it if it is missing; for ``os.close``. Raises OSError."""
    return patiently(lambda: open_regular(path, os.O_RDWR | os.O_CREAT, mode), _OPENED_WITHIN)


def granted(lock_range: Callable[[], object]) -> bool:
    """Whether a call locks its range of a file; False where another process has it. Raises any other OSError."""
    try:
        lock_range()
    except OSError as error:
        if error.errno not in _LOCKED:
            raise
        return False
    return True


def try_lock(fd: int, *, at: int = BEHIND_THE_TEXT) -> bool:
    """Take an exclusive lock on an open file, without waiting; False if another process has it.

    It is released when the handle is closed or the process ends. ``at``: the byte that Windows locks, at most
    ``LAST_BYTE``; the file's position is restored there. Raises OSError if the file system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        before = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, at, os.SEEK_SET)
        try:
            return granted(lambda: msvcrt.locking(fd, msvcrt.LK_NBLCK, 1))
        finally:
            os.lseek(fd, before, os.SEEK_SET)
    else:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

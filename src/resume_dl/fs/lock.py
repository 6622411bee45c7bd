"""Locks on open files, which the system releases when the file is closed or its process ends."""

from __future__ import annotations

import os
import sys

_BEHIND_THE_TEXT = 1 << 20
"""Locks are mandatory on Windows: locking a byte far beyond the text leaves the text readable for others."""


def try_lock(fd: int, *, at: int = _BEHIND_THE_TEXT) -> bool:
    """Take an exclusive lock on an open file, without waiting; False if another process has it.

    It is released when the handle is closed or the process ends. ``at``: the byte that Windows locks; the file's
    position is restored there. Raises OSError if the file system has no locks.
    """
    if sys.platform == "win32":
        import msvcrt

        before = os.lseek(fd, 0, os.SEEK_CUR)
        os.lseek(fd, at, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(fd, before, os.SEEK_SET)
    else:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True

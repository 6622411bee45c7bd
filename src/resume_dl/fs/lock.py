"""The lock of an open file, which ends with it: a process that is killed holds none."""

from __future__ import annotations

import os
import sys

_BEHIND_THE_TEXT = 1 << 20
"""Locks are mandatory on Windows: a byte far behind the text leaves it readable for others."""


def try_lock(fd: int, *, at: int = _BEHIND_THE_TEXT) -> bool:
    """Take an exclusive lock on an open file, without waiting; False where another process has it.

    It falls when the handle is closed or the process ends, however it ends. ``at``: the byte that Windows locks; the
    file's position is kept there. Raises OSError where the file system has no locks.
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

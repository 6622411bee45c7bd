"""A lock on an open file, released when the file is closed or the process ends."""

import errno
import os
import sys


def lock(fd: int) -> bool:
    """Lock an open file until it is closed; False if another process holds the lock. No-op where unsupported."""
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415 - Windows alone has it

        os.lseek(fd, 1 << 62, os.SEEK_SET)  # beyond the data: a locked range cannot be read by other processes
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        import fcntl  # noqa: PLC0415 - Windows has it not

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in {errno.EWOULDBLOCK, errno.EACCES}
    return True

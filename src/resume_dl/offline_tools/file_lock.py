"""The lock of an open file, which ends with it: a process that is killed holds none."""

import errno
import os
import sys


def lock(fd: int) -> bool:
    """Lock an open file until it is closed; False where another process has. File systems without locks have none."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(fd, 1 << 62, os.SEEK_SET)  # beyond the data: what is locked there nobody else can read
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        os.lseek(fd, 0, os.SEEK_SET)
    else:
        import fcntl

        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            return error.errno not in {errno.EWOULDBLOCK, errno.EACCES}
    return True

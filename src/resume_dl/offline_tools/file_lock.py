"""The lock of an open file, on file systems of removable disks too."""

import errno

from resume_dl.fs.lock import LAST_BYTE, try_lock


def lock(fd: int) -> bool:
    """Lock an open file until it is closed; False where another process has. File systems without locks have none."""
    try:
        return try_lock(fd, at=LAST_BYTE)
    except OSError as error:
        return error.errno != errno.EACCES

"""The lock of an open file, on file systems of removable disks too."""

import errno

from resume_dl.fs.lock import try_lock

_BEHIND_THE_DATA = 1 << 62


def lock(fd: int) -> bool:
    """Lock an open file until it is closed; False where another process has. File systems without locks have none."""
    try:
        return try_lock(fd, at=_BEHIND_THE_DATA)
    except OSError as error:
        return error.errno != errno.EACCES

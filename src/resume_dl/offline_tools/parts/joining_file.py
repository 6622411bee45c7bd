"""The unfinished file ``X.tar.joining``: free space, lock, and the final rename."""

import os
import shutil
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from resume_dl.fs.lock import open_lock
from resume_dl.offline_tools.file_lock import lock
from resume_dl.offline_tools.parts.find_parts import exists
from resume_dl.offline_tools.parts.parts_list import MACHINE, JoinError, Parts


def check_room(whole: Parts, joining: Path) -> None:
    """Raise JoinError if the whole file does not fit on the disk."""
    have = 0
    if exists(joining):
        found = joining.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise JoinError(f"{joining} is not a file", "move it away, or choose another name with -o", MACHINE)
        have = min(found.st_size, getattr(found, "st_blocks", sys.maxsize) * 512, whole.size)
    free = shutil.disk_usage(str(joining.parent)).free
    if whole.size - have > free:
        raise JoinError(
            f"{joining.parent} has {free:,} bytes free, and {whole.size - have:,} more are needed",
            "free some space, or choose a folder on another disk with -o",
            MACHINE,
        )


def open_locked(joining: Path) -> BinaryIO:
    """Open and lock the unfinished file; one that another process has finished meanwhile is not written."""
    fd = open_lock(joining)
    try:
        mine = lock(fd) and os.path.samestat(os.fstat(fd), joining.lstat())
    except OSError:
        mine = False
    if not mine:
        os.close(fd)
        raise JoinError(f"another process is joining {joining}", "wait until it ends", MACHINE)
    return os.fdopen(fd, "r+b")

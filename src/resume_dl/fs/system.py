"""Differences between systems: flags, calls relative to an open folder, links, what open handles and sockets do."""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import Union

Place = Union[str, "os.PathLike[str]"]
WINDOWS = sys.platform == "win32"
BY_FD = not WINDOWS and {os.open, os.stat, os.unlink, os.rmdir, os.rename} <= os.supports_dir_fd
_SURROGATE = 0x20000000
"""Name-surrogate bit of a reparse tag; cloud and deduplicated files lack it."""


def flags_of(*names: str) -> int:
    """The union of those named flags of ``os`` that this system has."""
    return sum(getattr(os, name, 0) for name in names)


FOLDER = flags_of("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


def is_link(found: os.stat_result) -> bool:
    """Whether an ``lstat`` result is a symbolic link or a Windows junction."""
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0) & _SURROGATE)


def names_in(folder: Place) -> list[str]:
    """The names in a folder, in no order: in half the time of ``Path.iterdir``. Raises OSError."""
    return os.listdir(folder)


def absolute(path: Place) -> Path:
    """``path`` from the root, without ``..``; links stay as they are, and loops of them raise nothing."""
    return Path(os.path.abspath(str(path)))


def handles_block_names() -> bool:
    """Whether an open handle keeps other processes from replacing or removing its file, as it does on Windows."""
    return WINDOWS


def reader_has_gone(error: OSError) -> bool:
    """Whether a failed write to a pipe says that its reader has ended; Windows's C library says EINVAL for EPIPE."""
    return isinstance(error, BrokenPipeError) or (WINDOWS and error.errno == errno.EINVAL)


def shutdown_wakes_readers() -> bool:
    """Whether ``shutdown`` of a socket ends the ``recv`` that another thread waits in; Windows promises nothing."""
    return not WINDOWS

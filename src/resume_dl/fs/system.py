"""Differences between systems: flags, calls relative to an open folder, links, what open handles and sockets do."""

from __future__ import annotations

import errno
import ntpath
import os
import stat
import sys
from pathlib import Path
from typing import Iterator, Union

Place = Union[str, "os.PathLike[str]"]
WINDOWS = sys.platform == "win32"
BY_FD = not WINDOWS and {os.open, os.stat, os.unlink, os.rmdir, os.rename} <= os.supports_dir_fd
_SURROGATE = 0x20000000
"""Name-surrogate bit of a reparse tag; cloud and deduplicated files lack it."""
_SHORT = 240
"""Letters of a path that every call of Windows takes: MAX_PATH is 260, and 12 less for the name of a folder."""


def extended(path: str, *, always: bool = False) -> str:
    r"""The ``\\?\`` form of an absolute Windows path that is too long for MAX_PATH, or of any with ``always``. Pure.

    In that form a name may also be a device's or end in a dot or a blank, so what another program has made can be
    removed. Relative paths stay as they are. Source: Microsoft, "Maximum Path Length Limitation".
    """
    if (len(path) < _SHORT and not always) or path.startswith(("\\\\?\\", "\\\\.\\")):
        return path
    path = ntpath.normpath(path)  # ``/`` and ``..`` mean nothing there; trailing dots and blanks stay
    if path.startswith("\\\\"):
        return "\\\\?\\UNC" + path[1:]
    return "\\\\?\\" + path if path[1:3] == ":\\" else path


def native(path: Place) -> Place:
    """``path`` as the system's calls take it at any length."""
    return extended(os.fspath(path)) if WINDOWS else path


class AnyLength:
    """Mixed into a class of paths: system calls get the extended form where it is needed, and people never see it."""

    def __fspath__(self) -> str:
        """What ``open``, ``os`` and ``shutil`` work with."""
        return extended(str(self))


if sys.platform == "win32":

    class _LongPath(AnyLength, type(Path())):
        def iterdir(self) -> Iterator[Path]:
            for name in os.listdir(self):  # pathlib of Python 3.13 lists by the text of the path
                yield self / name


def roomy(path: Path) -> Path:
    """``path`` as one below which names may be longer than 260 characters on Windows too."""
    if sys.platform == "win32":
        return _LongPath(path)
    return path


def flags_of(*names: str) -> int:
    """The union of those named flags of ``os`` that this system has."""
    return sum(getattr(os, name, 0) for name in names)


FOLDER = flags_of("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


def is_link(found: os.stat_result) -> bool:
    """Whether an ``lstat`` result is a symbolic link or a Windows junction."""
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0) & _SURROGATE)


def names_in(folder: Place) -> list[str]:
    """Return the names in a folder, unordered; takes half the time of ``Path.iterdir``. Raises OSError."""
    return os.listdir(folder)


def absolute(path: Place) -> Path:
    """Return ``path`` as an absolute path without ``..``; links are not resolved, so loops of links do not raise."""
    return roomy(Path(os.path.abspath(str(path))))


def handles_block_names() -> bool:
    """Whether an open handle keeps other processes from replacing or removing its file, as it does on Windows."""
    return WINDOWS


def reader_has_gone(error: OSError) -> bool:
    """Whether a failed write to a pipe says that its reader has ended; Windows's C library says EINVAL for EPIPE."""
    return isinstance(error, BrokenPipeError) or (WINDOWS and error.errno == errno.EINVAL)


def shutdown_wakes_readers() -> bool:
    """Whether ``shutdown`` of a socket ends the ``recv`` that another thread waits in; Windows promises nothing."""
    return not WINDOWS

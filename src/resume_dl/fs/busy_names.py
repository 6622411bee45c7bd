"""Names that another process's open handle blocks for a moment: renamed and opened with patience.

On Windows a file that a reader or a virus scanner has open cannot be replaced, a folder with such a file in it cannot
be renamed, and a name whose file is being removed cannot be opened. POSIX blocks none of these.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from functools import partial
from typing import Callable, Sequence, TypeVar

from resume_dl.fs import system
from resume_dl.fs.removal import remove
from resume_dl.fs.system import Place

PATIENCE = 10.0
"""Seconds: scanners hold a new file for some ten milliseconds, a large one for seconds."""
_PAUSE = 0.05

T = TypeVar("T")


def patiently(call: Callable[[], T], patience: float = PATIENCE) -> T:
    """Make ``call`` until it is not refused for a handle of another process, for ``patience`` seconds at most.

    Raises the last PermissionError, at once where handles block no names, and every other exception.
    """
    ends = time.monotonic() + patience
    while True:
        try:
            return call()
        except PermissionError:
            if not system.handles_block_names() or time.monotonic() >= ends:
                raise
        time.sleep(_PAUSE)


def replace(source: Place, destination: Place, *, dir_fd: int | None = None) -> None:
    """Rename a file or folder over ``destination`` (a folder must not exist there), with patience. Raises OSError.

    ``dir_fd``: an open folder that both names are relative to.
    """
    if dir_fd is None:
        source, destination = system.native(source), system.native(destination)
    # No other process's handle is the cause where a folder is there: it cannot be replaced.
    may_clear = dir_fd is not None or not os.path.isdir(destination)
    patiently(
        partial(os.replace, source, destination, src_dir_fd=dir_fd, dst_dir_fd=dir_fd), PATIENCE if may_clear else 0
    )


def move_folder(source: Place, destination: Place, *, last: Sequence[str] = ()) -> bool:
    """Rename a folder to a free name; one that stays blocked is copied. Returns whether it was copied.

    A copy is not on the disk yet. The files ``last`` (relative, with ``/``) are copied after all others, in this order:
    by them a client tells a whole folder. Raises OSError; then nothing is left at ``destination``.
    """
    source, destination = system.native(source), system.native(destination)
    try:
        replace(source, destination)
    except PermissionError:
        if not system.handles_block_names() or os.path.lexists(destination):
            raise
        _copy(os.fspath(source), os.fspath(destination), last)
        with suppress(OSError):  # a handle is open in it: it is removed with what else is left over
            remove(source)
        return True
    return False


def _copy(source: str, destination: str, last: Sequence[str]) -> None:
    late = {os.path.normpath(os.path.join(source, name)) for name in last}

    def left_out(folder: str, names: list[str]) -> list[str]:
        return [name for name in names if os.path.normpath(os.path.join(folder, name)) in late]

    try:
        shutil.copytree(source, destination, symlinks=True, ignore=left_out)
        for name in last:
            if os.path.lexists(os.path.join(source, name)):
                shutil.copy2(os.path.join(source, name), os.path.join(destination, name), follow_symlinks=False)
    except BaseException:
        with suppress(OSError):
            remove(destination)
        raise

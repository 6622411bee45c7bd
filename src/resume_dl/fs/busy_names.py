"""Retries of renames and opens that fail while another process has a handle open.

On Windows a file that a reader or a virus scanner has open cannot be replaced, a folder with such a file in it cannot
be renamed, and a name whose file is being removed cannot be opened. POSIX blocks none of these.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Callable, TypeVar

from resume_dl.fs import system
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

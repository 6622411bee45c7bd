"""Folders moved although another process has a handle open in them, as virus scanners have on Windows."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from typing import Sequence

from resume_dl.fs import system
from resume_dl.fs.busy_names import replace
from resume_dl.fs.removal import remove
from resume_dl.fs.system import Place


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

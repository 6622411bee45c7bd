"""Files that get their name when complete; until then they are ``<name>.unfinished`` in the same folder.

A killed run leaves that file behind; the next one for the same name removes it and starts again.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import LockedError, NotWritableError, OutOfSpaceError, StoreError

SUFFIX = ".unfinished"
_SHARING_VIOLATION = 32
"""Windows's number for a file that another process has open."""
_NO_SPACE = {errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC)}


class Unfinished:
    """An unfinished file for ``path``. Raises OSError, which ``writing`` translates."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._temporary = path.with_name(path.name + SUFFIX)
        remove_stale(self._temporary, path)
        self._file = self._temporary.open("xb")
        self._published = False
        self._left = True
        """Whether the temporary name still belongs to this file."""

    def write(self, data: bytes | memoryview) -> None:
        """Append ``data``."""
        self._file.write(data)

    def finish(self) -> None:
        """Sync the file to disk; raises LockedError if another process has taken over the name."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._close()
        if not self._left:
            raise _locked(self.path)

    def publish(self) -> None:
        """Rename the finished file; an existing file is replaced."""
        fs.replace(self._temporary, self.path)
        self._left = False
        self._published = True

    def withdraw(self) -> None:
        """Remove the file, published or not."""
        self.discard()
        if self._published:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Remove the file unless it was published."""
        with suppress(OSError):  # after a failed write the flush fails too
            self._close()
        if self._left:
            with suppress(OSError):
                self._temporary.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._file.closed:
            return
        try:
            self._left = os.path.samestat(os.fstat(self._file.fileno()), self._temporary.lstat())
        except FileNotFoundError:
            self._left = False
        self._file.close()


def remove_stale(temporary: Path, path: Path) -> None:
    """Remove what a killed run left of ``path``. Raises LockedError if a process still writes it, OSError.

    Windows refuses to remove an open file; elsewhere its writer finds that it has lost the name (``finish``).
    """
    try:
        temporary.unlink(missing_ok=True)
    except PermissionError as error:
        if getattr(error, "winerror", 0) != _SHARING_VIOLATION:
            raise
        raise _locked(path) from error


def _locked(path: Path) -> LockedError:
    return LockedError(f"another process is writing {path}", hint="wait until it ends, or choose another name")


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Translate OSErrors into ours while files of ``folder`` are written."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise OutOfSpaceError(
                f"no space left in {folder}", needed=0, free=0, hint="free some space there, or choose another folder"
            ) from error
        if error.errno == errno.EFBIG:
            raise StoreError(
                f"the file system of {folder} does not support files of this size",
                hint="FAT32 supports less than 4 GiB a file: split it with a part size of 4GiB or less",
            ) from error
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            raise NotWritableError(
                f"{error.filename or folder} cannot be written: {error.strerror}", hint="choose another folder"
            ) from error
        raise


def check_room(folder: Path, needed: int) -> None:
    """Raise OutOfSpaceError if ``folder``'s disk has less than ``needed`` bytes free."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OutOfSpaceError(
            f"{folder} has {free:,} bytes free, and {needed:,} are needed",
            needed=needed,
            free=free,
            hint="free some space there, or choose a folder on another disk",
        )

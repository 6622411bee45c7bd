"""Lock files: an operating-system lock, so that one process at a time writes a part file. Locks do not expire."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import LockedError, StoreError
from resume_dl.fs.lock import open_lock, try_lock

_PAUSE = 0.05
_MOST_NOTE = 4096
"""The most bytes of the note about the owner in a lock file."""


class FileLock:
    """A lock held from ``acquire`` to ``release``, or until the process ends in any way."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    @property
    def held(self) -> bool:
        """Whether we hold it."""
        return self._fd >= 0

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises LockedError (``owner`` describes the process that has it), or StoreError if the file system has no locks.
        """
        while True:
            fd = open_lock(self.path)
            try:
                got = try_lock(fd)
            except OSError as error:
                os.close(fd)
                raise StoreError(
                    f"the file system of {self.path.parent} has no working locks: {error.strerror}",
                    hint="choose a folder on a local disk with --pkgs-dir",
                ) from error
            if not got:
                os.close(fd)
                owner = self._owner()
                raise LockedError(
                    f"{owner} is using this file", owner=owner, hint="wait for it, or run without --no-wait"
                )
            if self._is_current(fd):
                break
            os.close(fd)  # the previous owner removed the file between our open and our lock
        self._fd = fd
        if os.fstat(fd).st_nlink > 1:
            return  # another hard link to it may be a user's document: lock it, but do not write to it
        note = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "program": _program()})
        with suppress(OSError):  # on a full disk the lock still holds, only without its owner's name
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, note.encode())

    def acquire_within(self, seconds: float) -> None:
        """Take the lock, waiting up to ``seconds`` for another process; for locks that are held for milliseconds."""
        ends = time.monotonic() + seconds
        while True:
            try:
                return self.acquire()
            except LockedError:
                if time.monotonic() >= ends:
                    raise
            time.sleep(_PAUSE)

    def release(self, *, remove: bool = False) -> None:
        """Release the lock; ``remove``: remove its file too (POSIX: while it is held, so that it has one owner)."""
        if self._fd < 0:
            return
        if remove and sys.platform != "win32":
            with suppress(OSError):
                self.path.unlink()
        os.close(self._fd)
        self._fd = -1
        if remove and sys.platform == "win32":
            with suppress(OSError):  # another process may have opened it by now, and uses it
                self.path.unlink()

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), self.path.stat())
        except FileNotFoundError:
            return False

    def _owner(self) -> str:
        try:
            note = json.loads(fs.read_regular(self.path, _MOST_NOTE))
            where = "" if note["host"] == socket.gethostname() else f" on {note['host']}"
            return f"process {int(note['pid'])} ({note['program']}){where}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"


def _program() -> str:
    """Return the name by which a user knows this process; ``python -m x`` runs ``x/__main__.py``."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name

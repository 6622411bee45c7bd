"""One process a part file: an operating-system lock on a file of its own, never broken by age."""

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
"""Bytes of what a lock's file says of its owner."""


class FileLock:
    """Held from ``acquire`` to ``release`` or to the end of the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = -1

    @property
    def held(self) -> bool:
        """Whether it is ours now."""
        return self._fd >= 0

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises LockedError (``owner`` says who has it) or StoreError where the file system has no locks.
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
                    f"{owner} works on this file", owner=owner, hint="wait for it, or run without --no-wait"
                )
            if self._is_current(fd):
                break
            os.close(fd)  # its last owner removed the file between our open and our lock
        self._fd = fd
        if os.fstat(fd).st_nlink > 1:
            return  # the file has another name, which may be a user's document: it is locked and not written
        note = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "program": _program()})
        with suppress(OSError):  # on a full disk the lock holds all the same, only its owner stays unnamed
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, os.SEEK_SET)
            os.write(fd, note.encode())

    def acquire_within(self, seconds: float) -> None:
        """The same, and wait for another process that has it; for locks that are held for some milliseconds."""
        ends = time.monotonic() + seconds
        while True:
            try:
                return self.acquire()
            except LockedError:
                if time.monotonic() >= ends:
                    raise
            time.sleep(_PAUSE)

    def release(self, *, remove: bool = False) -> None:
        """Let go; with ``remove`` the lock's file goes too (POSIX: while it is held, so that no two can hold it)."""
        if self._fd < 0:
            return
        if remove and sys.platform != "win32":
            with suppress(OSError):
                self.path.unlink()
        os.close(self._fd)
        self._fd = -1
        if remove and sys.platform == "win32":
            with suppress(OSError):  # another process may have it open by now: then it is that one's
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
    """What a user would call this process; ``python -m x`` runs ``x/__main__.py``."""
    path = Path(sys.argv[0])
    return path.parent.name if path.name == "__main__.py" else path.name

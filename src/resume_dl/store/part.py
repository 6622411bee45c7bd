"""The folder of unfinished files, each keyed by its digest (invariants 2 and 6)."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import LockedError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.store import journal as jn
from resume_dl.store.disk_errors import as_store_errors
from resume_dl.store.journal_file import NEW, read_journal
from resume_dl.store.lock import FileLock
from resume_dl.store.part_file import JournaledPart, can_continue
from resume_dl.store.platform import rename_durably
from resume_dl.store.running_digest import hash_file
from resume_dl.store.work_folder import check_work_folder, is_trusted, make_work_folder

__all__ = ["FOLDER", "JournaledPart", "PartStore", "Unfinished", "hash_file"]

FOLDER = ".resume-dl"
"""The folder's name inside a package cache: on the same file system, so that publishing is one rename."""
_LOCK = re.compile(r"(?:sha256|md5|url)-[0-9a-f]+\.lock")
"""Names of the locks of part files; the folder has others, which their owners remove."""


@dataclass(frozen=True, slots=True)
class Unfinished:
    """An unfinished download for ``status``; sizes in bytes, ``done``: those from which a later run can resume."""

    key: str
    path: Path
    size: int | None
    done: int


class PartStore:
    """The folder of part files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, artifact: Artifact, *, journaled: bool) -> JournaledPart:
        """Lock and open an artifact's part file, creating it if needed.

        Raises LockedError, NotWritableError, OutOfSpaceError or StoreError.
        """
        lock = FileLock(self.folder / f"{artifact.key}.lock")
        with as_store_errors(self.folder / artifact.key):
            make_work_folder(self.folder)
            lock.acquire()
        try:
            if artifact.sha256 and artifact.md5:
                self._adopt_alias(artifact.key, str(Digest("md5", artifact.md5)))
            return JournaledPart(self.folder, artifact, lock, journaled=journaled)
        except BaseException:
            lock.release()
            raise

    def unfinished(self) -> list[Unfinished]:
        """Return every part file in the folder, in use or not."""
        found: list[Unfinished] = []
        if not is_trusted(self.folder):
            return found
        with suppress(OSError):
            for path in sorted(self.folder.glob("*.part")):
                size, done = None, 0
                with suppress(OSError, StoreError):
                    contents = read_journal(path.with_suffix(".journal")) or jn.Contents(0)
                    size = contents.size
                    if can_continue(path.stem, contents):
                        done = sum(w.end - w.start for w in [*contents.durable, *contents.written])
                found.append(Unfinished(path.stem, path, size, done))
        return found

    def remove(self, key: str) -> int:
        """Remove an unfinished download; returns the bytes in its journal. Raises LockedError if it is in use."""
        check_work_folder(self.folder)
        lock = FileLock(self.folder / f"{key}.lock")
        with as_store_errors(lock.path):
            lock.acquire()
            try:
                done = sum(part.done for part in self.unfinished() if part.key == key)
                for suffix in (".part", ".journal", NEW):
                    (self.folder / f"{key}{suffix}").unlink(missing_ok=True)
            finally:
                lock.release(remove=True)
        return done

    def sweep_locks(self) -> None:
        """Remove locks of processes that were killed between publishing a file and releasing its lock. Never raises."""
        if not is_trusted(self.folder):
            return
        with suppress(OSError):
            for name in fs.names_in(self.folder):
                if _LOCK.fullmatch(name) and not self._has_bytes(name):
                    lock = FileLock(self.folder / name)
                    with suppress(OSError, StoreError):  # in use, or another user's
                        lock.acquire()
                        lock.release(remove=not self._has_bytes(name))

    def _has_bytes(self, lock: str) -> bool:
        """Whether the part file of a lock, or its journal, exists."""
        file = self.folder / lock
        return any(os.path.lexists(file.with_suffix(suffix)) for suffix in (".part", ".journal", NEW))

    def rekey(self, old: Artifact, new: Artifact) -> bool:
        """Continue the unfinished file of ``old`` under the key of ``new``, whose bytes it holds.

        False, without changes, if there is no such file, if another process uses either of them, or if ``new`` has a
        part file already. Raises StoreError.
        """
        if new.key == old.key or not (self.folder / f"{old.key}.part").exists():
            return False
        check_work_folder(self.folder)
        lock = FileLock(self.folder / f"{new.key}.lock")
        with as_store_errors(lock.path):
            try:
                lock.acquire()
            except LockedError:
                return False
        moved = False
        try:
            with suppress(LockedError):
                moved = self._move(old.key, new.key)
        finally:
            lock.release(remove=not (self.folder / f"{new.key}.part").exists())
        return moved

    def _adopt_alias(self, key: str, alias: str) -> None:
        """Continue a file under its sha256 that was started when only its md5 was known (invariant 6)."""
        with suppress(StoreError):  # another process uses it under the old key: start a new one
            self._move(alias, key)

    def _move(self, old_key: str, new_key: str) -> bool:
        """Give a part file and its journal another key, whose lock the caller holds; whether that was done.

        Raises LockedError or StoreError.
        """
        old, new = self.folder / f"{old_key}.part", self.folder / f"{new_key}.part"
        if new.exists() or not old.exists():
            return False
        lock = FileLock(self.folder / f"{old_key}.lock")
        with as_store_errors(lock.path):
            lock.acquire()
            moved = False
            try:
                # the journal first: after a kill here the next run finds it moved, and moves the bytes too
                with suppress(FileNotFoundError):
                    rename_durably(old.with_suffix(".journal"), new.with_suffix(".journal"))
                if new.with_suffix(".journal").exists():  # without a journal the bytes are useless
                    rename_durably(old, new)
                    moved = True
            except FileNotFoundError:
                pass  # its owner has published or removed it since
            finally:
                lock.release(remove=moved)
        return moved

"""Kept copies of channel indexes, and what their servers said of the version that each holds.

A copy and its note are two files. The copy is synced before its note is written, and the note is removed before the
copy is replaced: a note of another version would never be corrected, as the server calls that version unchanged.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from resume_dl.errors import NotWritableError, OutOfSpaceError, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.repodata import LARGEST, unpack_zst
from resume_dl.store.part import PartStore
from resume_dl.store.platform import make_folder, remove_durably, replace_durably, write_durably


@dataclass(frozen=True, slots=True)
class Note:
    """``validator`` is of the copy that came from the address ``source``; for other sources it means nothing.

    None: that server states none.
    """

    source: str
    validator: str | None


class KeptCopies:
    """One copy of each index, unpacked, in ``folder``; an index whose unpacked size exceeds ``largest`` is refused."""

    def __init__(self, folder: Path, *, largest: int | None = None) -> None:
        self._folder = folder
        self.largest = LARGEST if largest is None else largest

    @property
    def parts(self) -> PartStore:
        """The part files of indexes on their way."""
        return PartStore(self._folder / "parts")

    def path(self, index: Artifact) -> Path:
        """Where the copy lies."""
        return self._folder / f"{index.key}.json"

    def arriving(self, index: Artifact) -> Path:
        """Where an index lies between its last byte and ``keep``."""
        return self._folder / f"{index.key}-{index.filename}.new"

    def make_folder(self) -> None:
        """Make the folder, and see that it can be written, before anything is asked for.

        Raises OutOfSpaceError or NotWritableError.
        """
        try:
            make_folder(self._folder)
        except OSError as error:
            raise self.unwritable(error) from error
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise self.unwritable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def keep(self, index: Artifact, note: Note) -> None:
        """Unpack what has arrived where it is packed, and let it take the kept copy's place.

        Raises IntegrityError, OutOfSpaceError, NotWritableError.
        """
        new, target = self.arriving(index), self.path(index)
        try:
            if index.filename.endswith(".zst"):
                unpacked = target.with_suffix(f".{secrets.token_hex(4)}")
                try:
                    unpack_zst(new, unpacked, largest=self.largest)
                finally:
                    new.unlink()
                new = unpacked
            remove_durably(_note_of(target))  # never a validator beside another copy
            replace_durably(new, target)
            said = {"url": str(index.url), "source": note.source, "validator": note.validator}
            # only now: an index that a power cut spoilt would stay for ever, as the server calls it unchanged
            write_durably(_note_of(target), json.dumps(said).encode())
        except OSError as error:
            raise self.unwritable(error) from error

    def note(self, index: Artifact) -> Note | None:
        """What was said of the kept copy; None where there is no copy."""
        target = self.path(index)
        try:
            said = json.loads(_note_of(target).read_text(encoding="utf-8"))
            if target.is_file():
                return Note(str(said["source"]), said["validator"] if isinstance(said["validator"], str) else None)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        return None

    def unwritable(self, error: OSError) -> ResumeDLError:
        """What the user is told where the folder cannot be written."""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return OutOfSpaceError(
                f"no space left in {self._folder}, where channel indexes are kept",
                needed=0,
                free=0,
                hint="free some space there, or name another folder with the variable RESUME_DL_CACHE_DIR",
            )
        return NotWritableError(
            f"{self._folder}, where channel indexes are kept, cannot be written: {error.strerror or error}",
            hint="name a folder that can be written with the variable RESUME_DL_CACHE_DIR",
        )


def _note_of(copy: Path) -> Path:
    return copy.with_suffix(".note")

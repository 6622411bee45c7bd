"""Kept copies of channel indexes, each with a note of its server's cache headers.

A copy and its note are two files. The copy is synced before its note is written, and the note is removed before the
copy is replaced: a note that belongs to another version would never be corrected, as the server would answer 304.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import IntegrityError, NotWritableError, OutOfSpaceError, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.model.http import CacheHeaders, by_validator
from resume_dl.resolve.repodata import LARGEST, check_index, unpack_zst
from resume_dl.store.lock import FileLock
from resume_dl.store.part import PartStore
from resume_dl.store.platform import make_folder, remove_durably, replace_durably, write_durably

SERVER_MOST = 3600.0
"""Upper limit in seconds for a server's max-age, because new packages appear every hour."""
ABSENT_MOST = 7 * 24 * 3600.0
"""Seconds for which a missing index is remembered; conda also asks again after seven days."""
_LONGEST_HOSTS = 1 << 16
"""Bytes; a run uses only a few hosts."""
_LOCK_SECONDS = 10.0
"""Seconds to wait for the lock, which another run holds while it renames two files."""


@dataclass(frozen=True, slots=True)
class Note:
    """The cache headers that the URL ``source`` (redacted) sent for the kept copy; they apply to no other source.

    ``checked``: the time of its last confirmation, in seconds since 1970.
    """

    source: str
    said: CacheHeaders
    checked: float
    answered_by: tuple[str, ...] = ()
    """The hosts that the copy came from, after redirects; empty if an earlier version wrote it."""

    def age(self, now: float) -> float:
        """Return the seconds since the last confirmation; 0 if the clock was set back."""
        return max(0.0, now - self.checked)

    def confirmed(self, said: CacheHeaders, now: float, answered_by: Iterable[str] = ()) -> Note:
        """Return the note after its source has confirmed the copy as unchanged; ``said``: that answer's cache headers.

        The copy's origin stays the same; ``answered_by`` are the hosts that confirmed it.
        """
        hosts = tuple(sorted({*self.answered_by, *answered_by}))
        return Note(self.source, self.said.confirmed(said), now, hosts)

    def fields(self) -> dict[str, object]:
        """Return the fields as JSON values, for ``read_note``."""
        said = self.said
        validators = {"validator": said.validator, "etag": said.etag, "last_modified": said.last_modified}
        times = {"max_age": said.max_age, "checked": self.checked}
        return {"source": self.source, **validators, **times, "answered_by": list(self.answered_by)}


@dataclass(frozen=True, slots=True)
class Freshness:
    """The age up to which a kept index is used without a request.

    ``max_age`` in seconds; None: the server's value, at most ``SERVER_MOST``. ``refresh``: always send a request.
    """

    refresh: bool = False
    max_age: float | None = None

    def allows(self, note: Note, now: float) -> bool:
        """Whether the copy of this note may be used; a date in the future is of unknown age and does not count."""
        most = min(note.said.max_age or 0.0, SERVER_MOST) if self.max_age is None else self.max_age
        return self._is_within(note, most, now)

    def allows_absence(self, note: Note, now: float) -> bool:
        """Whether to rely without a request on ``note``, which records that its source has no such index."""
        return self._is_within(note, ABSENT_MOST if self.max_age is None else min(self.max_age, ABSENT_MOST), now)

    def _is_within(self, note: Note, most: float, now: float) -> bool:
        return not self.refresh and note.checked <= now < note.checked + most


AS_SERVERS_SAY = Freshness()


class KeptCopies:
    """An unpacked copy of each index in ``folder``; an index with an unpacked size above ``largest`` is refused."""

    def __init__(self, folder: Path, *, largest: int | None = None) -> None:
        self._folder = folder
        self.largest = LARGEST if largest is None else largest

    @property
    def parts(self) -> PartStore:
        """The part files of index downloads."""
        return PartStore(self._folder / "parts")

    def path(self, index: Artifact) -> Path:
        """Return the copy's path."""
        return self._folder / f"{index.key}.json"

    def arriving(self, index: Artifact) -> Path:
        """Return the path of a downloaded index before ``keep``."""
        return self._folder / f"{index.key}-{index.filename}.new"

    def make_folder(self) -> None:
        """Create the folder and check that it is writable, before any request.

        Raises OutOfSpaceError or NotWritableError.
        """
        try:
            make_folder(self._folder)
        except OSError as error:
            raise self.unwritable(error) from error
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise self.unwritable(PermissionError(errno.EACCES, os.strerror(errno.EACCES)))

    def keep(self, index: Artifact, note: Note) -> None:
        """Unpack a downloaded index if necessary, check it, and replace the kept copy.

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
            try:
                check_index(new)
            except IntegrityError:
                new.unlink()
                raise
            with self._locked(target):
                remove_durably(_note_of(target))  # a validator must never be beside another copy
                replace_durably(new, target)
                # synced first: a copy damaged by a power cut would stay for ever, as the server answers 304
                self._write(index, note, target)
        except OSError as error:
            raise self.unwritable(error) from error

    def confirm(self, index: Artifact, note: Note, confirmed: Note) -> None:
        """Record that the source of ``note`` has confirmed the kept copy as unchanged.

        Does nothing if another process has replaced the copy meanwhile.
        """
        target = self.path(index)
        try:
            with self._locked(target):
                if self.note(index) == note:
                    self._write(index, confirmed, target)
        except OSError as error:
            raise self.unwritable(error) from error

    def note(self, index: Artifact) -> Note | None:
        """Return the kept copy's note; None if there is no copy.

        If the note is unreadable, the file's time counts and the source is unknown.
        """
        target = self.path(index)
        try:
            written = target.stat().st_mtime
        except OSError:
            return None
        try:
            return read_note(json.loads(_note_of(target).read_text(encoding="utf-8")), written)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return Note("", CacheHeaders(), written)

    # ------------------------------------------------------------------ hosts of part files

    def hosts_of_part(self, index: Artifact) -> frozenset[str] | None:
        """Return the hosts that supplied the bytes of an index's part file; None if unknown."""
        try:
            data = fs.read_regular(self._part_hosts(index), _LONGEST_HOSTS)
            found = json.loads(data)
        except (OSError, ValueError, RecursionError):
            return None
        return frozenset(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else None

    def note_hosts_of_part(self, index: Artifact, hosts: Iterable[str]) -> None:
        """Store the hosts for the run that resumes; empty if the part file was published or removed."""
        try:
            if names := sorted(hosts):
                write_durably(self._part_hosts(index), json.dumps(names).encode())
            else:
                self._part_hosts(index).unlink(missing_ok=True)
        except OSError as error:
            raise self.unwritable(error) from error

    def _part_hosts(self, index: Artifact) -> Path:
        return self._folder / f"{index.key}-{index.filename}.hosts"

    @staticmethod
    def _write(index: Artifact, note: Note, target: Path) -> None:
        write_durably(_note_of(target), json.dumps({"url": str(index.url), **note.fields()}).encode())

    @contextmanager
    def _locked(self, target: Path) -> Iterator[None]:
        """Lock this copy and its note against other processes, so that both are of one version."""
        lock = FileLock(target.with_suffix(".lock"))
        lock.acquire_within(_LOCK_SECONDS)
        try:
            yield
        finally:
            lock.release(remove=True)

    def unwritable(self, error: OSError) -> ResumeDLError:
        """Return the error for a folder that cannot be written."""
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            return OutOfSpaceError(
                f"no space left in {self._folder}, where channel indexes are kept",
                needed=0,
                free=0,
                hint="free some space there, or set RESUME_DL_CACHE_DIR to another folder",
            )
        return NotWritableError(
            f"{self._folder}, where channel indexes are kept, cannot be written: {error.strerror or error}",
            hint="set RESUME_DL_CACHE_DIR to a writable folder",
        )


def _note_of(copy: Path) -> Path:
    return copy.with_suffix(".note")


def read_note(fields: dict[str, object], written: float) -> Note:
    """Parse a note's fields; ``written``: the copy's modification time. Raises KeyError or TypeError."""
    source, checked, max_age = fields["source"], fields.get("checked", written), fields.get("max_age")
    if "etag" in fields:
        said = CacheHeaders(_header(fields["etag"]), _header(fields["last_modified"]), _seconds(max_age))
    else:  # written by an earlier version
        said = by_validator(_header(fields["validator"]) or None)
    return Note(str(source), said, _seconds(checked) or 0.0, _texts(fields.get("answered_by")))


def _header(value: object) -> str:
    """Return the value if it is safe in a request header, else an empty string."""
    return value if isinstance(value, str) and value.isascii() and value.isprintable() else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < float("inf") else None

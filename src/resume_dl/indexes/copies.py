"""Kept copies of channel indexes, and what their servers said of the version that each holds.

A copy and its note are two files. The copy is synced before its note is written, and the note is removed before the
copy is replaced: a note of another version would never be corrected, as the server calls that version unchanged.
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
"""Seconds; a server that calls its index fresh for longer is asked again all the same: packages come every hour."""
ABSENT_MOST = 7 * 24 * 3600.0
"""Seconds for which a server's word that it has no such index is remembered; conda asks every seven days too."""
_LONGEST_HOSTS = 1 << 16
"""Bytes; a run meets a handful of hosts."""
_LOCK_SECONDS = 10.0
"""Another run holds a copy's lock while it renames two files."""


@dataclass(frozen=True, slots=True)
class Note:
    """What the address ``source`` (redacted) said of the kept copy; for other sources it means nothing.

    ``checked``: when it said so last, in seconds since 1970.
    """

    source: str
    said: CacheHeaders
    checked: float
    answered_by: tuple[str, ...] = ()
    """The hosts that the copy came from, redirects followed; empty where earlier versions kept it."""

    def age(self, now: float) -> float:
        """Seconds since then; 0 where the clock has been put back."""
        return max(0.0, now - self.checked)

    def confirmed(self, said: CacheHeaders, now: float, answered_by: Iterable[str] = ()) -> Note:
        """The note once its source has called the copy unchanged; ``said``: what goes with that answer.

        The copy still comes from where it came from; ``answered_by`` are the hosts that vouch for it now.
        """
        hosts = tuple(sorted({*self.answered_by, *answered_by}))
        return Note(self.source, self.said.confirmed(said), now, hosts)

    def fields(self) -> dict[str, object]:
        """As JSON values, for ``read_note``."""
        said = self.said
        validators = {"validator": said.validator, "etag": said.etag, "last_modified": said.last_modified}
        times = {"max_age": said.max_age, "checked": self.checked}
        return {"source": self.source, **validators, **times, "answered_by": list(self.answered_by)}


@dataclass(frozen=True, slots=True)
class Freshness:
    """How old a kept index may be that is used without a request.

    ``max_age`` in seconds; None: as long as its server said, at most ``SERVER_MOST``. ``refresh``: none is used so.
    """

    refresh: bool = False
    max_age: float | None = None

    def allows(self, note: Note, now: float) -> bool:
        """Whether the copy of this note may be used; not one from the future, whose age is unknown."""
        most = min(note.said.max_age or 0.0, SERVER_MOST) if self.max_age is None else self.max_age
        return self._is_within(note, most, now)

    def allows_absence(self, note: Note, now: float) -> bool:
        """Whether to believe without a request that there is no such index, as ``note`` says of its source."""
        return self._is_within(note, ABSENT_MOST if self.max_age is None else min(self.max_age, ABSENT_MOST), now)

    def _is_within(self, note: Note, most: float, now: float) -> bool:
        return not self.refresh and note.checked <= now < note.checked + most


AS_SERVERS_SAY = Freshness()


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
        """Unpack what has arrived where it is packed, and let it take the kept copy's place if it is an index.

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
                remove_durably(_note_of(target))  # never a validator beside another copy
                replace_durably(new, target)
                # only now: an index that a power cut spoilt would stay for ever, as the server calls it unchanged
                self._write(index, note, target)
        except OSError as error:
            raise self.unwritable(error) from error

    def confirm(self, index: Artifact, note: Note, confirmed: Note) -> None:
        """Note that the source of ``note`` calls the kept copy unchanged.

        Not where another process has put another copy there meanwhile.
        """
        target = self.path(index)
        try:
            with self._locked(target):
                if self.note(index) == note:
                    self._write(index, confirmed, target)
        except OSError as error:
            raise self.unwritable(error) from error

    def note(self, index: Artifact) -> Note | None:
        """What was said of the kept copy; None where there is no copy.

        Without a readable note the copy is as old as its file, and no source is known.
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

    # ------------------------------------------------------------------ whose bytes a part file has

    def hosts_of_part(self, index: Artifact) -> frozenset[str] | None:
        """The hosts that gave what lies in the part file of an index; None where this is not known."""
        try:
            data = fs.read_regular(self._part_hosts(index), _LONGEST_HOSTS)
            found = json.loads(data)
        except (OSError, ValueError, RecursionError):
            return None
        return frozenset(found) if isinstance(found, list) and all(isinstance(each, str) for each in found) else None

    def note_hosts_of_part(self, index: Artifact, hosts: Iterable[str]) -> None:
        """Keep them for the run that goes on; none: the part file has become a copy, or has been removed."""
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
        """Keep other processes from this copy and its note, which must not be of two versions."""
        lock = FileLock(target.with_suffix(".lock"))
        lock.acquire_within(_LOCK_SECONDS)
        try:
            yield
        finally:
            lock.release(remove=True)

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


def read_note(fields: dict[str, object], written: float) -> Note:
    """A note's fields; ``written``: when its copy was written. Raises KeyError or TypeError."""
    source, checked, max_age = fields["source"], fields.get("checked", written), fields.get("max_age")
    if "etag" in fields:
        said = CacheHeaders(_header(fields["etag"]), _header(fields["last_modified"]), _seconds(max_age))
    else:  # as earlier versions wrote it
        said = by_validator(_header(fields["validator"]) or None)
    return Note(str(source), said, _seconds(checked) or 0.0, _texts(fields.get("answered_by")))


def _header(value: object) -> str:
    """What may go into a request's header as it is."""
    return value if isinstance(value, str) and value.isascii() and value.isprintable() else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _seconds(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and 0 <= value < float("inf") else None

"""A journal on the disk, open for appending, with the order of writes and syncs of docs/journal.md."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.store import journal as jn
from resume_dl.store.platform import sync_fd, write_durably

NEW = ".new"
"""Suffix of a journal that is being rewritten; it is never read."""
_MOST_BYTES = 256 << 20
"""The most bytes of a journal: enough for a record each 128 KiB of a 1 TB file."""


def read_journal(path: Path) -> jn.Contents | None:
    """Read a journal; None if it is missing or its header is damaged. Raises JournalError for another version."""
    try:
        return jn.read(fs.read_regular(path, _MOST_BYTES))
    except (FileNotFoundError, ValueError):
        return None


def remove_journal(path: Path) -> None:
    """Remove a journal and its unfinished replacement. Never raises OSError."""
    for each in (path, path.with_suffix(NEW)):
        with suppress(OSError):
            each.unlink()


class JournalFile:
    """A journal to which several threads append; closed until ``rewrite`` or ``reopen``. All methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._sources: dict[str, int] = {}
        self._nonce = 0
        self._fd = -1
        self._length = 0

    @property
    def length(self) -> int:
        """The length in bytes, as of now: a mark for ``record_durable``."""
        with self._lock:
            return self._length

    def reopen(self, contents: jn.Contents) -> None:
        """Open the existing journal, whose content is exactly ``contents``, for appending."""
        self._nonce = contents.nonce
        self._sources = {name: number for number, name in contents.sources.items()}
        self._open(contents.good_length)

    def rewrite(self, contents: jn.Contents | None) -> None:
        """Replace the journal atomically by a new one with ``contents`` and a new nonce."""
        self._nonce = nonce = secrets.randbits(32)
        self._sources = {}
        records = [jn.encode_header(nonce)]
        if contents is not None:
            self._sources = {name: number for number, name in contents.sources.items()}
            records += [jn.encode_source(nonce, number, name) for number, name in contents.sources.items()]
            if contents.size is not None:
                records.append(jn.encode_size(nonce, contents.size))
            if contents.validator is not None and contents.bound_source is not None:
                records.append(jn.encode_validator(nonce, self._sources[contents.bound_source], contents.validator))
            records += [jn.encode_written(nonce, w) for w in contents.durable]
            if contents.durable:
                records.append(jn.encode_durable(nonce, sum(map(len, records))))
            records += [jn.encode_written(nonce, w) for w in contents.written]
        data = b"".join(records)
        write_durably(self.path, data, temporary=self.path.with_suffix(NEW))
        self._open(len(data))

    def record_size(self, size: int, validator: str | None = None, source: str | None = None) -> None:
        """Append the file's size, and for a file without a digest its validator and source; no sync."""
        with self._lock:
            self._append(jn.encode_size(self._nonce, size))
            # A truncated validator or name would mean another version or source, so it is left out instead.
            if validator is not None and source is not None and jn.fits(validator) and jn.fits(source):
                self._append(jn.encode_validator(self._nonce, self._source_id(source), validator))

    def record_written(self, start: int, end: int, crc32: int, source: str) -> None:
        """Append a *written* record; no sync."""
        with self._lock:
            written = jn.Written(start, end, self._source_id(source), crc32)
            self._append(jn.encode_written(self._nonce, written))

    def record_durable(self, mark: int) -> None:
        """Append a *durable* record, synced."""
        with self._lock:
            self._append(jn.encode_durable(self._nonce, mark))
        sync_fd(self._fd)

    def record_discard(self) -> None:
        """Append a *discard* record, synced."""
        with self._lock:
            self._append(jn.encode_discard(self._nonce))
        sync_fd(self._fd)

    def record_forget(self, ranges: Iterable[tuple[int, int]], kept: Iterable[jn.Written]) -> None:
        """Append *forget* records, synced; before them *written* records for what is ``kept`` of the voided ones.

        In this order a kill between them loses nothing that is kept.
        """
        records = [jn.encode_written(self._nonce, w) for w in kept]
        records += [jn.encode_forget(self._nonce, start, end) for start, end in ranges]
        with self._lock:
            self._append(b"".join(records))
        sync_fd(self._fd)

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _open(self, length: int) -> None:
        self._fd = fs.open_regular(self.path, os.O_RDWR | os.O_APPEND)
        self._length = length

    def _append(self, records: bytes) -> None:
        """Append all of ``records`` or nothing; the caller holds the lock."""
        count = os.write(self._fd, records)
        if count != len(records):
            os.ftruncate(self._fd, self._length)
            raise OSError(28, "no space left for the journal")
        self._length += count

    def _source_id(self, name: str) -> int:
        number = self._sources.get(name)
        if number is None:
            number = 1 + max(self._sources.values(), default=-1)
            self._append(jn.encode_source(self._nonce, number, name))
            self._sources[name] = number  # only after the append: a failed one defines no source
        return number

"""A journal on the disk, open for appending: the order of its writes and syncs (docs/journal.md)."""

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
"""A journal that is being rewritten; never read."""
_MOST_BYTES = 256 << 20
"""Of a journal: a record each 128 KiB comes to this for a file of 1 TB."""


def read_journal(path: Path) -> jn.Contents | None:
    """What a journal says, None where there is none that can be read; raises JournalError for another version."""
    try:
        return jn.read(fs.read_regular(path, _MOST_BYTES))
    except (FileNotFoundError, ValueError):
        return None


def remove_journal(path: Path) -> None:
    """Remove a journal and what is left of rewriting it, as far as they are there and may be."""
    for each in (path, path.with_suffix(NEW)):
        with suppress(OSError):
            each.unlink()


class JournalFile:
    """Appended to by several threads; every method raises OSError. Closed until ``rewrite`` or ``go_on``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._sources: dict[str, int] = {}
        self._nonce = 0
        self._fd = -1
        self._length = 0

    @property
    def length(self) -> int:
        """In bytes; what is behind it was appended later."""
        with self._lock:
            return self._length

    def go_on(self, contents: jn.Contents) -> None:
        """Append to the journal that is there, which says ``contents`` and nothing else."""
        self._nonce = contents.nonce
        self._sources = {name: number for number, name in contents.sources.items()}
        self._open(contents.good_length)

    def rewrite(self, contents: jn.Contents | None) -> None:
        """Put a new journal in its place, by one rename, that says ``contents`` (a new nonce apart)."""
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
        """The file's size, and where no digest binds its bytes its validator and source; no sync."""
        with self._lock:
            self._append(jn.encode_size(self._nonce, size))
            # A part of a validator, or of a name, would stand for another version or source: rather none.
            if validator is not None and source is not None and jn.fits(validator) and jn.fits(source):
                self._append(jn.encode_validator(self._nonce, self._source_id(source), validator))

    def record_written(self, start: int, end: int, crc32: int, source: str) -> None:
        """A *written* record; no sync."""
        with self._lock:
            written = jn.Written(start, end, self._source_id(source), crc32)
            self._append(jn.encode_written(self._nonce, written))

    def record_durable(self, mark: int) -> None:
        """A *durable* record, synced."""
        with self._lock:
            self._append(jn.encode_durable(self._nonce, mark))
        sync_fd(self._fd)

    def record_discard(self) -> None:
        """A *discard* record, synced."""
        with self._lock:
            self._append(jn.encode_discard(self._nonce))
        sync_fd(self._fd)

    def record_forget(self, ranges: Iterable[tuple[int, int]], kept: Iterable[jn.Written]) -> None:
        """*Forget* records, synced; before them what is ``kept`` of the records that they void, as *written* records.

        In this order a kill in between loses nothing that is kept.
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
        """Append them whole or not at all; the caller holds the lock."""
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
            self._sources[name] = number  # once the journal has it: an append that failed names nothing
        return number

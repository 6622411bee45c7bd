"""Unfinished files: a sparse part file, its journal and its lock, keyed by digest (invariants 2 and 6)."""

from __future__ import annotations

import hashlib
import os
import secrets
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl.errors import JournalError, NotWritableError, OutOfSpaceError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.ports import DigestProgress, Resumed
from resume_dl.store import journal as jn
from resume_dl.store.lock import FileLock
from resume_dl.store.platform import PositionedFile, replace, sync_directory, sync_fd

FOLDER = ".resume-dl"
"""The folder's name inside a package cache: on the same file system, so that publishing is one rename."""
_NEW = ".new"
"""A journal that is being rewritten; never read."""
_BLOCK = 1 << 20
_NO_SPACE = {28, 122}  # ENOSPC, EDQUOT


def hash_file(path: Path, algorithm: str) -> str:
    """The hex digest of a whole file; raises OSError."""
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            hasher.update(view[:count])
    return hasher.hexdigest()


@contextmanager
def _mapped(path: Path) -> Iterator[None]:
    """Turn the operating system's errors into ours."""
    try:
        yield
    except OSError as error:
        if error.errno in _NO_SPACE:
            raise OutOfSpaceError(
                f"no space left in {path.parent} for {path.name}",
                needed=0,
                free=0,
                hint="free some space there and run the same command again: what is on disk is kept",
            ) from error
        if isinstance(error, PermissionError) or error.errno == 30:  # EROFS
            raise NotWritableError(
                f"{path.parent} cannot be written: {error.strerror}", hint="choose another folder with --pkgs-dir"
            ) from error
        raise StoreError(f"{path}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Unfinished:
    """One unfinished download as ``status`` shows it; sizes in bytes, ``done`` as the journal says."""

    key: str
    path: Path
    size: int | None
    done: int


class PartStore:
    """The folder of part files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, artifact: Artifact, *, journaled: bool) -> JournaledPart:
        """Lock and open an artifact's part file, made on first use.

        Raises LockedError, NotWritableError, OutOfSpaceError or StoreError.
        """
        with _mapped(self.folder / artifact.key):
            self.folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.folder / f"{artifact.key}.lock")
        with _mapped(self.folder / artifact.key):
            lock.acquire()
        try:
            if artifact.sha256 and artifact.md5:
                self._adopt_alias(artifact.key, str(Digest("md5", artifact.md5)))
            return JournaledPart(self.folder, artifact, lock, journaled=journaled)
        except BaseException:
            lock.release()
            raise

    def unfinished(self) -> list[Unfinished]:
        """Every part file in the folder, whether or not somebody works on it."""
        found = []
        with suppress(OSError):
            for path in sorted(self.folder.glob("*.part")):
                size, done = None, 0
                with suppress(OSError, ValueError, StoreError):
                    contents = jn.read(path.with_suffix(".journal").read_bytes())
                    size = contents.size
                    done = sum(w.end - w.start for w in [*contents.durable, *contents.written])
                found.append(Unfinished(path.stem, path, size, done))
        return found

    def remove(self, key: str) -> int:
        """Remove an unfinished download; returns the bytes its journal had. Raises LockedError where it is at work."""
        lock = FileLock(self.folder / f"{key}.lock")
        with _mapped(lock.path):
            lock.acquire()
            try:
                done = sum(part.done for part in self.unfinished() if part.key == key)
                for suffix in (".part", ".journal", _NEW):
                    (self.folder / f"{key}{suffix}").unlink(missing_ok=True)
            finally:
                lock.release(remove=True)
        return done

    def _adopt_alias(self, key: str, alias: str) -> None:
        """Bytes begun when only the md5 was known continue under the sha256 (invariant 6)."""
        old, new = self.folder / f"{alias}.part", self.folder / f"{key}.part"
        if new.exists() or not old.exists():
            return
        lock = FileLock(self.folder / f"{alias}.lock")
        with suppress(StoreError):  # somebody works on it under the old key: then we begin our own
            lock.acquire()
            with suppress(OSError):
                # the journal first: killed in between, the next run finds it moved and moves the bytes too
                with suppress(FileNotFoundError):
                    replace(old.with_suffix(".journal"), new.with_suffix(".journal"))
                replace(old, new)
            lock.release(remove=True)


class JournaledPart:
    """Implements ``ports.PartFile``. Writes come from several threads; the rest from one at a time."""

    def __init__(self, folder: Path, artifact: Artifact, lock: FileLock, *, journaled: bool) -> None:
        self._folder = folder
        self._artifact = artifact
        self._lock = lock
        self._journaled = journaled
        self.path = folder / f"{artifact.key}.part"
        self._journal_path = folder / f"{artifact.key}.journal"
        self._mutex = threading.Lock()
        self._sources: dict[str, int] = {}
        self._nonce = 0
        self._journal_fd = -1
        self._journal_length = 0
        self._size: int | None = None
        self._restart_digest()
        with _mapped(self.path):
            self._file = PositionedFile(self.path, create=True)

    def resume(self) -> Resumed:
        """Read the journal, re-hash what was written and not durable, cut off a torn tail."""
        with _mapped(self.path):
            contents = self._read_journal()
            if not self._journaled:
                self._file.reserve(0)
                return self._begin_size()
            length = self._file.size
            if contents is None or length < (contents.size or 0):
                self._file.reserve(0)  # bytes without a whole journal are not trusted
                self._rewrite_journal(None, [], [])
                return self._begin_size()
            durable = [w for w in contents.durable if w.end <= length]
            written = [w for w in contents.written if self._still_there(w)]
            disbelieved = len(durable) + len(written) < len(contents.durable) + len(contents.written)
            if disbelieved or self._journal_path.stat().st_size != contents.good_length:
                # A later durable record would make believable what was just disbelieved; and a new nonce sees to it
                # that nothing of a torn tail, should a power cut bring it back, is taken for a record.
                self._rewrite_journal(contents, durable, written)
            else:
                self._open_journal(contents)
            self._size = contents.size
            if self._artifact.size is not None and contents.size is None:
                self._begin_size()
            believed = tuple((w.start, w.end) for w in [*durable, *written])
            owners: dict[str, list[tuple[int, int]]] = {}
            for each in [*durable, *written]:
                owners.setdefault(contents.sources.get(each.source, ""), []).append((each.start, each.end))
            of = tuple((name, tuple(ranges)) for name, ranges in owners.items())
            return Resumed(believed, contents.size, contents.validator, contents.bound_source, of)

    def _begin_size(self) -> Resumed:
        if self._artifact.size is not None:
            self.fix_size(self._artifact.size)
        return Resumed(size=self._artifact.size)

    def fix_size(self, size: int, validator: str | None = None, source: str | None = None) -> None:
        """Record the size (and, without a digest, the validator and its source), and reserve the file."""
        with _mapped(self.path), self._mutex:
            self._size = size
            self._file.reserve(size)  # first: a part file that is shorter than its journal says is not believed
            if self._journaled:
                self._append(jn.encode_size(self._nonce, size))
                if validator is not None and source is not None:
                    self._append(jn.encode_validator(self._nonce, self._source_id(source), validator))

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``; raises OutOfSpaceError or StoreError."""
        try:
            self._file.write_at(offset, data)
        except OSError:
            with _mapped(self.path):
                raise

    def record_written(self, start: int, end: int, crc32: int, source: str) -> None:
        """Append a *written* record; no sync."""
        if not self._journaled:
            return
        with self._mutex, _mapped(self.path):
            written = jn.Written(start, end, self._source_id(source), crc32)
            self._append(jn.encode_written(self._nonce, written))

    def sync_data(self) -> int:
        """Sync the data; returns a mark for ``record_durable``."""
        with self._mutex:
            mark = self._journal_length
        with _mapped(self.path):
            self._file.sync()
        return mark

    def record_durable(self, mark: int) -> None:
        """All records before ``mark`` are durable; appended and synced."""
        if not self._journaled:
            return
        with _mapped(self.path):
            with self._mutex:
                self._append(jn.encode_durable(self._nonce, mark))
            sync_fd(self._journal_fd)

    def discard(self) -> None:
        """Forget all bytes."""
        with _mapped(self.path), self._mutex:
            if self._journaled:
                self._append(jn.encode_discard(self._nonce))
                sync_fd(self._journal_fd)
            self._file.reserve(0)
        self._restart_digest()
        self._size = None
        self._begin_size()

    def forget(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Believe these ranges no more, also in later runs; the digest begins anew."""
        self._restart_digest()
        if not self._journaled:
            return
        with _mapped(self.path), self._mutex:
            for start, end in ranges:
                self._append(jn.encode_forget(self._nonce, start, end))
            sync_fd(self._journal_fd)

    def read(self, offset: int, count: int) -> bytes:
        """At most ``count`` bytes as they lie on disk."""
        with _mapped(self.path):
            return self._file.read_at(offset, count)

    def advance_digest(self, upto: int) -> DigestProgress:
        """Hash on to ``upto``; every byte below it is finished."""
        with _mapped(self.path):
            while self._hashed < upto and (block := self._file.read_at(self._hashed, min(_BLOCK, upto - self._hashed))):
                self._hasher.update(block)
                self._hashed += len(block)
        return DigestProgress(self._hashed)

    def locate_damage(self) -> tuple[tuple[int, int], ...] | None:
        """Where the format's own checksums find the file wrong; None where they cannot tell."""
        return None

    def digest(self) -> Mapping[str, str]:
        """The digest of what was hashed, by the strongest algorithm the artifact names."""
        expected = self._artifact.digest
        return {} if expected is None else {expected.algorithm: self._hasher.hexdigest()}

    def _restart_digest(self) -> None:
        expected = self._artifact.digest
        self._hasher = hashlib.new(expected.algorithm if expected else "sha256", usedforsecurity=False)
        self._hashed = 0

    def publish(self, destination: Path) -> None:
        """Close every handle, rename to ``destination``, sync the folders, remove the journal."""
        with _mapped(destination):
            self._file.sync()
            self._close_files()
            destination.parent.mkdir(parents=True, exist_ok=True)
            replace(self.path, destination)
            sync_directory(destination.parent)
            for path in (self._journal_path, self._journal_path.with_suffix(_NEW)):
                with suppress(OSError):
                    path.unlink()
            sync_directory(self._folder)
        self._lock.release(remove=True)

    def close(self) -> None:
        """Close the handles and release the lock; the bytes stay, an empty part file goes. Once only."""
        self._close_files()
        if not self._lock.held:
            return  # published, or closed before: what has these names now is another's
        empty = False
        with suppress(OSError, JournalError):  # a journal that we cannot read is not ours to remove
            contents = self._read_journal()
            empty = not self._journaled or contents is None or not (contents.durable or contents.written)
        if empty:
            for path in (self.path, self._journal_path, self._journal_path.with_suffix(_NEW)):
                with suppress(OSError):
                    path.unlink()
        self._lock.release(remove=empty)

    # ------------------------------------------------------------------ the journal's file

    def _read_journal(self) -> jn.Contents | None:
        try:
            return jn.read(self._journal_path.read_bytes())
        except (FileNotFoundError, ValueError):
            return None

    def _rewrite_journal(self, old: jn.Contents | None, durable: list[jn.Written], written: list[jn.Written]) -> None:
        """Put a new journal, made of what of the old one is believed, in its place by one rename."""
        self._nonce = nonce = secrets.randbits(32)
        self._sources = {}
        records = [jn.encode_header(nonce)]
        if old is not None:
            self._sources = {name: number for number, name in old.sources.items()}
            records += [jn.encode_source(nonce, number, name) for number, name in old.sources.items()]
            if old.size is not None:
                records.append(jn.encode_size(nonce, old.size))
            if old.validator is not None and old.bound_source is not None:
                records.append(jn.encode_validator(nonce, self._sources[old.bound_source], old.validator))
        records += [jn.encode_written(nonce, w) for w in durable]
        if durable:
            records.append(jn.encode_durable(nonce, sum(map(len, records))))
        records += [jn.encode_written(nonce, w) for w in written]
        new = self._journal_path.with_suffix(_NEW)
        with new.open("wb") as file:
            file.write(b"".join(records))
            file.flush()
            os.fsync(file.fileno())
        replace(new, self._journal_path)
        sync_directory(self._folder)
        self._open_at(sum(map(len, records)))

    def _open_journal(self, contents: jn.Contents) -> None:
        self._nonce = contents.nonce
        self._sources = {name: number for number, name in contents.sources.items()}
        self._open_at(contents.good_length)

    def _open_at(self, length: int) -> None:
        flags = os.O_RDWR | os.O_APPEND | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        self._journal_fd = os.open(self._journal_path, flags)
        self._journal_length = length

    def _append(self, record: bytes) -> None:
        """Append one record whole or not at all; the caller holds the mutex."""
        count = os.write(self._journal_fd, record)
        if count != len(record):
            os.ftruncate(self._journal_fd, self._journal_length)
            raise OSError(28, "no space left for the journal")
        self._journal_length += count

    def _source_id(self, name: str) -> int:
        number = self._sources.get(name)
        if number is None:
            number = self._sources[name] = 1 + max(self._sources.values(), default=-1)
            self._append(jn.encode_source(self._nonce, number, name))
        return number

    def _still_there(self, written: jn.Written) -> bool:
        """Whether the data on disk is what was written: its CRC32 says."""
        crc, at = 0, written.start
        while at < written.end:
            block = self._file.read_at(at, min(_BLOCK, written.end - at))
            if not block:
                return False
            crc = zlib.crc32(block, crc)
            at += len(block)
        return crc == written.crc32

    def _close_files(self) -> None:
        self._file.close()
        fd, self._journal_fd = self._journal_fd, -1
        if fd >= 0:
            os.close(fd)

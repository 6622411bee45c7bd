"""One part file: sparse data with its journal, running digest and lock (invariants 2 and 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from resume_dl.core.ranges import RangeSet
from resume_dl.errors import JournalError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import DigestProgress, Resumed
from resume_dl.store import journal as jn
from resume_dl.store.archive_damage import damaged_ranges
from resume_dl.store.disk_errors import as_store_errors
from resume_dl.store.journal_file import JournalFile, read_journal, remove_journal
from resume_dl.store.lock import FileLock
from resume_dl.store.platform import PositionedFile, make_folder, rename_durably
from resume_dl.store.running_digest import RunningDigest, crc32_of


class JournaledPart:
    """Implements ``ports.PartFile``. Several threads may write at once; all other calls come one at a time."""

    def __init__(self, folder: Path, artifact: Artifact, lock: FileLock, *, journaled: bool) -> None:
        self._artifact = artifact
        self._lock = lock
        self.path = folder / f"{artifact.key}.part"
        self._journal_path = folder / f"{artifact.key}.journal"
        self._journal = JournalFile(self._journal_path) if journaled else None
        self._digest = self._new_digest()
        with as_store_errors(self.path):
            self._file = PositionedFile(self.path, create=True)
            if self._file.links > 1:  # published, but a power cut kept the old name: the data belongs to the user
                self._file.close()
                self.path.unlink()
                self._file = PositionedFile(self.path, create=True)

    def resume(self) -> Resumed:
        """Read the journal, re-hash what was written but not durable, cut off a torn tail."""
        with as_store_errors(self.path):
            contents = read_journal(self._journal_path)
            if self._journal is None:
                if contents is not None:
                    remove_journal(self._journal_path)  # first: it must not describe the new data
                self._empty()
                return self._begin_size()
            length = self._file.size
            if contents is None or length < (contents.size or 0):
                self._empty()  # data without a readable journal is not trusted
                self._journal.rewrite(None)
                return self._begin_size()
            self._check_records(self._journal, contents, length)
            trusted = sorted([*contents.durable, *contents.written])  # by start; sorted once for all uses below
            self._digest.expect(trusted)
            by_source: dict[int, list[jn.Written]] = {}
            for each in trusted:
                by_source.setdefault(each[2], []).append(each)
            return Resumed(
                joined(trusted),
                contents.size,
                contents.validator,
                contents.bound_source,
                tuple((contents.sources.get(number, ""), joined(each)) for number, each in by_source.items()),
            )

    def _check_records(self, journal: JournalFile, contents: jn.Contents, length: int) -> None:
        """Drop untrusted records from ``contents``, and make the file (of ``length`` bytes) and its journal agree."""
        recorded = (contents.size, len(contents.durable) + len(contents.written))
        if self._artifact.size is not None:
            contents.size = self._artifact.size  # differs if the download was started with another index record
        size = contents.size
        limit = length if size is None else min(length, size)
        contents.durable = [w for w in contents.durable if w.start < w.end <= limit]
        contents.written = [w for w in contents.written if w.start < w.end <= limit and self._is_intact(w)]
        if size is not None and length < size:
            self._file.reserve(size)  # and synced, before a journal records the size
            self._file.sync()
        changed = recorded != (size, len(contents.durable) + len(contents.written))
        if changed or contents.version != jn.VERSION or self._journal_path.stat().st_size != contents.good_length:
            # A later durable record would make the dropped records trusted again. And with a new nonce no part of a
            # torn tail can be taken for a record, should a power cut bring it back.
            journal.rewrite(contents)
        else:
            journal.reopen(contents)
        if size is not None and length > size:
            self._file.reserve(size)

    def _empty(self) -> None:
        # An empty file must not be truncated: ext4 writes out a file that was ever truncated to 0 when it is closed
        # (auto_da_alloc, ext4(5)), and the end of a download would wait for that.
        if self._file.size:
            self._file.reserve(0)

    def _begin_size(self) -> Resumed:
        if self._artifact.size is not None:
            self.fix_size(self._artifact.size)
        return Resumed(size=self._artifact.size)

    def fix_size(self, size: int, validator: str | None = None, source: str | None = None) -> None:
        """Record the size (and, without a digest, the validator and its source), and extend the file to it."""
        with as_store_errors(self.path):
            self._file.reserve(size)  # first: a part file shorter than the size in its journal is not trusted
            if self._journal is not None:
                self._journal.record_size(size, validator, source)

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``; raises OutOfSpaceError or StoreError."""
        try:
            self._file.write_at(offset, data)
        except OSError:
            with as_store_errors(self.path):
                raise

    def record_written(self, start: int, end: int, crc32: int, source: str) -> None:
        """Append a *written* record; no sync."""
        if self._journal is not None:
            with as_store_errors(self.path):
                self._journal.record_written(start, end, crc32, source)

    def sync_data(self) -> int:
        """Sync the data; returns the mark for ``record_durable``."""
        mark = self._journal.length if self._journal is not None else 0
        with as_store_errors(self.path):
            self._file.sync()
        return mark

    def record_durable(self, mark: int) -> None:
        """Record that all records before ``mark`` are durable, and sync the journal."""
        if self._journal is not None:
            with as_store_errors(self.path):
                self._journal.record_durable(mark)

    def read(self, offset: int, count: int) -> bytes:
        """Read at most ``count`` bytes from the disk."""
        with as_store_errors(self.path):
            return self._file.read_at(offset, count)

    def discard(self) -> None:
        """Discard all bytes and restart the digest."""
        with as_store_errors(self.path):
            if self._journal is not None:
                self._journal.record_discard()
            self._file.reserve(0)
        self._digest = self._new_digest()
        self._begin_size()

    def forget(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Void these ranges, also for later runs; the digest goes back before the lowest of them.

        The remainder of a record that extends beyond them is read and, if it is intact, recorded again; if not,
        ``advance_digest`` reports it. No writer may have unrecorded bytes in these ranges.
        """
        gone = RangeSet(ranges)
        if not gone:
            return
        with as_store_errors(self.path):
            kept: list[jn.Written] = []
            damaged: list[tuple[int, int]] = []
            if self._journal is not None:
                contents = read_journal(self._journal_path) or jn.Contents(0)
                for each in [*contents.durable, *contents.written]:
                    if gone.overlaps(each.start, each.end):
                        rest = self._remainder(each, gone)
                        if rest is None:
                            damaged += _outside(each, gone)
                        else:
                            kept += rest
            self._digest.forget(gone, damaged)
            if self._journal is not None:
                self._journal.record_forget(gone, kept)

    def advance_digest(self, upto: int) -> DigestProgress:
        """Hash up to ``upto``, or to the first record of an earlier run that does not match the data."""
        with as_store_errors(self.path):
            return self._digest.advance(self._file, upto)

    def locate_damage(self) -> tuple[tuple[int, int], ...] | None:
        """Return the ranges that the archive's own checksums find wrong; None if they find nothing."""
        with as_store_errors(self.path):
            return damaged_ranges(self.path, self._artifact.filename)

    def digest(self) -> Mapping[str, str]:
        """Return the digest of what was hashed, by the strongest algorithm that the artifact has."""
        expected = self._artifact.digest
        return {} if expected is None else {expected.algorithm: self._digest.hexdigest()}

    def publish(self, destination: Path) -> None:
        """Close all handles, rename to ``destination``, sync its folder, remove the journal."""
        with as_store_errors(destination):
            self._file.sync()
            self._close_files()
            try:
                # Our own folder needs no sync: if a power cut restores its old names, a journal without its file is
                # ignored, and a part file with a second hard link is not written to.
                rename_durably(self.path, destination)
            except FileNotFoundError:
                make_folder(destination.parent)
                rename_durably(self.path, destination)
            if self._journal is not None:
                remove_journal(self._journal_path)
        self._lock.release(remove=True)

    def close(self) -> None:
        """Close the handles and release the lock. Useful bytes are kept; a file without any is removed."""
        self._close_files()
        if not self._lock.held:
            return  # published or closed before: another process may use these names by now
        empty = False
        with suppress(OSError, JournalError):  # a journal of another version must not be removed
            contents = read_journal(self._journal_path)
            empty = (
                self._journal is None
                or contents is None
                or not (contents.durable or contents.written)
                or not can_continue(self._artifact.key, contents)
            )
        if empty:
            with suppress(OSError):
                self.path.unlink()
            remove_journal(self._journal_path)
        self._lock.release(remove=empty)

    def _new_digest(self) -> RunningDigest:
        expected = self._artifact.digest
        return RunningDigest(expected.algorithm if expected else None)

    def _is_intact(self, written: jn.Written) -> bool:
        """Whether the data on disk has the CRC-32 of its record."""
        return crc32_of(self._file, written.start, written.end) == written.crc32

    def _remainder(self, written: jn.Written, gone: RangeSet) -> list[jn.Written] | None:
        """Return records for the bytes of ``written`` outside of ``gone``; None if its data is damaged."""
        whole: int | None = 0
        rest = []
        for start, end in sorted([*gone.within(written.start, written.end), *_outside(written, gone)]):
            if whole is None:
                return None
            whole = crc32_of(self._file, start, end, whole)
            if not gone.overlaps(start, end):
                rest.append(jn.Written(start, end, written.source, crc32_of(self._file, start, end) or 0))
        return rest if whole == written.crc32 else None

    def _close_files(self) -> None:
        self._file.close()
        if self._journal is not None:
            self._journal.close()


def can_continue(key: str, contents: jn.Contents) -> bool:
    """Whether a later run can resume the file: without a digest it needs a validator (RFC 9110 13.1.5)."""
    return contents.validator is not None or not key.startswith("url-")


def _outside(written: jn.Written, gone: RangeSet) -> list[tuple[int, int]]:
    return gone.gaps(written.start, written.end)


def joined(records: Iterable[jn.Written]) -> tuple[tuple[int, int], ...]:
    """Return the ranges of ``records``, which are sorted by start, with overlapping and adjacent ones merged."""
    joined: list[tuple[int, int]] = []
    low = high = -1
    for start, end, _, _ in records:
        if start > high:
            if high >= 0:
                joined.append((low, high))
            low, high = start, end
        elif end > high:
            high = end
    if high >= 0:
        joined.append((low, high))
    return tuple(joined)

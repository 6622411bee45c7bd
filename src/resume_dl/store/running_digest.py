"""The running digest of a part file, computed during the download; bytes of an earlier run are checked with it."""

from __future__ import annotations

import hashlib
import os
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from pathlib import Path

from resume_dl.core.ranges import RangeSet
from resume_dl.errors import Interrupted
from resume_dl.ports import DigestProgress
from resume_dl.store.journal import Written
from resume_dl.store.platform import PositionedFile

_BLOCK = 1 << 20
"""Bytes read and hashed at once: large enough to take the GIL rarely, small enough for many files."""
_CHECKPOINT_EVERY = 16 << 20
"""Bytes between checkpoints, the most that a repair hashes again; 5 GB have 300 checkpoints of about 100 bytes."""
_LOOK_AHEAD = 16 << 20
"""After a damaged record others are likely: the search for them ends after this many intact bytes in a row."""
_DAMAGED = -1
"""In place of a CRC-32: matches no bytes."""


def crc32_of(file: PositionedFile, start: int, end: int, crc: int = 0) -> int | None:
    """Return the CRC-32 of ``[start, end)``, continued from ``crc``; None if the file ends before. Raises OSError."""
    buffer = memoryview(bytearray(min(_BLOCK, max(0, end - start))))
    while start < end:
        count = file.read_into(buffer[: end - start], start)
        if not count:
            return None
        crc = zlib.crc32(buffer[:count], crc)
        start += count
    return crc


class RunningDigest:
    """Hashes a file from its start up to a given position; used by one thread at a time.

    If ``algorithm`` is None, records are checked and nothing is hashed.
    """

    def __init__(self, algorithm: str | None) -> None:
        self.position = 0
        """All bytes below it are hashed and checked."""
        self._hasher = hashlib.new(algorithm, usedforsecurity=False) if algorithm else None
        self._checkpoints = [(0, self._hasher and self._hasher.copy())]
        self._starts, self._ends, self._crcs = array("Q"), array("Q"), array("q")

    def expect(self, records: Iterable[Written]) -> None:
        """Set the records of an earlier run that the data must match: sorted, possibly overlapping."""
        self._set_records([(start, end, crc32) for start, end, _, crc32 in records])

    def hexdigest(self) -> str:
        """Return the hex digest of what was hashed; empty if there is no algorithm."""
        return self._hasher.hexdigest() if self._hasher else ""

    def advance(self, file: PositionedFile, upto: int) -> DigestProgress:
        """Hash up to ``upto``, or to the first record that does not match the bytes on disk. Raises OSError."""
        buffer = memoryview(bytearray(min(_BLOCK, max(0, upto - self.position))))
        record = bisect_left(self._starts, self.position)
        while self.position < upto:
            view = buffer[: upto - self.position]
            count = file.read_into(view, self.position)
            if not count:
                raise OSError("the file is shorter than what was written to it")
            record, count, damaged = self._check(file, view[:count], record)
            self._hash(view[:count])
            if damaged:
                return DigestProgress(self.position, self._damaged_from(file, record, upto))
        return DigestProgress(self.position)

    def forget(self, ranges: RangeSet, damaged: Iterable[tuple[int, int]] = ()) -> None:
        """Go back before ``ranges``; ``damaged``: other ranges known to be wrong, which ``advance`` will report."""
        kept = [each for each in self._records() if not ranges.overlaps(each[0], each[1])]
        bad = [(start, end, _DAMAGED) for start, end in damaged]
        self._set_records(sorted([*kept, *bad]))
        for start, _ in [*ranges, *damaged]:
            self._rewind(start)

    def _check(self, file: PositionedFile, block: memoryview, record: int) -> tuple[int, int, bool]:
        """Check the records that begin in ``block``; all earlier ones have been checked.

        Returns the next record, how many bytes of the block may be hashed, and whether that record is damaged. A record
        that extends beyond the block is left to the next block, which then begins with it. If it begins this block, it
        is longer than a block, or ends after ``upto``, and is read separately.
        """
        at, end = self.position, self.position + len(block)
        while record < len(self._starts) and (start := self._starts[record]) < end:
            stop, crc = self._ends[record], self._crcs[record]
            if stop <= end:
                found: int | None = zlib.crc32(block[start - at : stop - at])
            elif start > at:
                return record, start - at, False
            else:
                found = crc32_of(file, start, stop)
            if found != crc:
                return record, start - at, True
            record += 1
        return record, len(block), False

    def _hash(self, block: memoryview) -> None:
        self.position += len(block)
        if self._hasher is None:
            return
        self._hasher.update(block)
        if self.position - self._checkpoints[-1][0] >= _CHECKPOINT_EVERY:
            self._checkpoints.append((self.position, self._hasher.copy()))

    def _damaged_from(self, file: PositionedFile, record: int, upto: int) -> tuple[tuple[int, int], ...]:
        damaged, good = RangeSet([(self._starts[record], self._ends[record])]), 0
        for each in range(record + 1, len(self._starts)):
            start, end = self._starts[each], self._ends[each]
            if start >= upto or good >= _LOOK_AHEAD:
                break
            if crc32_of(file, start, end) == self._crcs[each]:
                good += end - start
            else:
                damaged.add(start, end)
                good = 0
        return tuple(damaged)

    def _rewind(self, position: int) -> None:
        if position >= self.position:
            return
        while self._checkpoints[-1][0] > position:
            self._checkpoints.pop()
        self.position, hasher = self._checkpoints[-1]
        self._hasher = hasher and hasher.copy()

    def _records(self) -> Iterable[tuple[int, int, int]]:
        return zip(self._starts, self._ends, self._crcs, strict=True)

    def _set_records(self, records: list[tuple[int, int, int]]) -> None:
        self._starts = array("Q", [start for start, _, _ in records])
        self._ends = array("Q", [end for _, end, _ in records])
        self._crcs = array("q", [crc for _, _, crc in records])


def hash_file(path: os.PathLike[str], algorithm: str, cancelled: Callable[[], bool] = lambda: False) -> str:
    """Return the hex digest of a whole file. Raises OSError, and Interrupted once ``cancelled`` returns true."""
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    view = memoryview(bytearray(_BLOCK))
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(view):
            hasher.update(view[:count])
            if cancelled():
                raise Interrupted("stopped", hint="run the same command again: what is on disk is kept")
    return hasher.hexdigest()

"""The digest of a part file, hashed behind the download; bytes of an earlier run are checked on the way."""

from __future__ import annotations

import hashlib
import os
import zlib
from array import array
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path

from resume_dl.core.ranges import RangeSet
from resume_dl.ports import DigestProgress
from resume_dl.store.journal import Written
from resume_dl.store.platform import PositionedFile

_BLOCK = 1 << 20
"""Read and hashed at once: large enough that the interpreter's lock is seldom needed, small enough for many files."""
_CHECKPOINT_EVERY = 16 << 20
"""A repair hashes again at most so much below it; 5 GB have 300 checkpoints of some hundred bytes each."""
_LOOK_AHEAD = 16 << 20
"""Behind a damaged record others are likely: this much that fits in a row ends the search, to be resumed later."""
_DAMAGED = -1
"""In place of a CRC-32: no bytes fit."""


def crc32_of(file: PositionedFile, start: int, end: int, crc: int = 0) -> int | None:
    """The CRC-32 of ``[start, end)``, continued from ``crc``; None where the file ends before. Raises OSError."""
    buffer = memoryview(bytearray(min(_BLOCK, max(0, end - start))))
    while start < end:
        count = file.read_into(buffer[: end - start], start)
        if not count:
            return None
        crc = zlib.crc32(buffer[:count], crc)
        start += count
    return crc


class RunningDigest:
    """Hashes a file from its start on, as far as it is told; used by one thread at a time.

    ``algorithm`` None: nothing is hashed, only checked.
    """

    def __init__(self, algorithm: str | None) -> None:
        self.position = 0
        """Every byte below it is hashed and checked."""
        self._hasher = hashlib.new(algorithm, usedforsecurity=False) if algorithm else None
        self._checkpoints = [(0, self._hasher and self._hasher.copy())]
        self._starts, self._ends, self._crcs = array("Q"), array("Q"), array("q")

    def expect(self, records: Iterable[Written]) -> None:
        """Records of an earlier run, sorted; they may overlap. In place of those expected before."""
        self._table([(start, end, crc32) for start, end, _, crc32 in records])

    def hexdigest(self) -> str:
        """The digest of what was hashed, in hex; empty where nothing is."""
        return self._hasher.hexdigest() if self._hasher else ""

    def advance(self, file: PositionedFile, upto: int) -> DigestProgress:
        """Hash on to ``upto``, or to the first record that does not fit the bytes on disk. Raises OSError."""
        buffer = memoryview(bytearray(min(_BLOCK, max(0, upto - self.position))))
        record = bisect_left(self._starts, self.position)
        while self.position < upto:
            view = buffer[: upto - self.position]
            count = file.read_into(view, self.position)
            if not count:
                raise OSError("it is shorter than what was written to it")
            record, count, damaged = self._check(file, view[:count], record)
            self._take(view[:count])
            if damaged:
                return DigestProgress(self.position, self._damaged_from(file, record, upto))
        return DigestProgress(self.position)

    def forget(self, ranges: RangeSet, damaged: Iterable[tuple[int, int]] = ()) -> None:
        """Go back before ``ranges``; ``damaged``: what else is known to be wrong, to be reported by ``advance``."""
        kept = [each for each in self._records() if not ranges.overlaps(each[0], each[1])]
        bad = [(start, end, _DAMAGED) for start, end in damaged]
        self._table(sorted([*kept, *bad]))
        for start, _ in [*ranges, *damaged]:
            self._go_back(start)

    def _check(self, file: PositionedFile, block: memoryview, record: int) -> tuple[int, int, bool]:
        """Check what begins in ``block``: the next record, how much of the block may be hashed, and is it damaged.

        Every record that began earlier has been checked. One that goes on beyond the block begins the next one; if
        it begins this one, it is longer than a block or than what is asked for, and is read for itself.
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

    def _take(self, block: memoryview) -> None:
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

    def _go_back(self, position: int) -> None:
        if position >= self.position:
            return
        while self._checkpoints[-1][0] > position:
            self._checkpoints.pop()
        self.position, hasher = self._checkpoints[-1]
        self._hasher = hasher and hasher.copy()

    def _records(self) -> Iterable[tuple[int, int, int]]:
        return zip(self._starts, self._ends, self._crcs, strict=True)

    def _table(self, records: list[tuple[int, int, int]]) -> None:
        self._starts = array("Q", [start for start, _, _ in records])
        self._ends = array("Q", [end for _, end, _ in records])
        self._crcs = array("q", [crc for _, _, crc in records])


def hash_file(path: os.PathLike[str], algorithm: str) -> str:
    """The hex digest of a whole file; raises OSError."""
    hasher = hashlib.new(algorithm, usedforsecurity=False)
    view = memoryview(bytearray(_BLOCK))
    with Path(path).open("rb", buffering=0) as file:
        while count := file.readinto(view):
            hasher.update(view[:count])
    return hasher.hexdigest()

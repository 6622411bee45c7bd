"""The worker of Mode.COMPARE: checks whether a source has the same bytes as the disk."""

from __future__ import annotations

from typing import Any

from resume_dl.core.actions import OpenRange
from resume_dl.core.events import RangeCompared
from resume_dl.engine.worker import Worker


class Comparer(Worker):
    """Compares what it receives with the part file; writes and records nothing.

    Reports differences as blocks that begin at multiples of ``block`` bytes.
    """

    def __init__(self, order: OpenRange, *, block: int, **more: Any) -> None:
        super().__init__(order, **more)
        self._block = block
        self._differing: list[tuple[int, int]] = []
        self._found = -1
        """Start of the last differing block; the rest of that block is not compared until the next report."""
        self._reported_to = order.start

    @property
    def _position(self) -> int:
        return self._at

    def _take(self, data: bytes | memoryview, start: int, end: int) -> None:
        there = self._part.read(start, end - start)
        if there == data:
            return
        data = bytes(data)
        size = self._block
        for at in range(start - start % size, end, size):
            part = slice(max(at, start) - start, min(at + size, end) - start)
            if at != self._found and there[part] != data[part]:
                self._found = at
                self._note(at)

    def _note(self, at: int) -> None:
        last = at + self._block if self._order.end is None else min(at + self._block, self._order.end)
        first = max(at, self._order.start)
        if self._differing and self._differing[-1][1] == first:
            first = self._differing.pop()[0]
        self._differing.append((first, last))

    def _report(self) -> RangeCompared:
        differing, self._differing = tuple(self._differing), []
        self._reported_to = self._at
        self._found = -1  # the report ends here, so the rest of the block must be compared for the next one
        return RangeCompared(self._id, self._at, self._received, differing)

    def _end_body(self) -> None:
        if self._at > self._reported_to or self._differing:
            self._post(self._report())

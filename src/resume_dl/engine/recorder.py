"""Writes received bytes to a part file, and records them in its journal."""

from __future__ import annotations

import zlib

from resume_dl.ports import PartFile

RECORD_EVERY = 128 * 1024
"""Bytes per record; a killed process loses at most this much per connection (invariant 2)."""


class Recorder:
    """Combines the pieces of one connection into *written* records; ``label`` names its source.

    Not thread-safe: the caller holds the connection's fence.
    """

    __slots__ = ("_crc", "_end", "_label", "_part", "_start")

    def __init__(self, part: PartFile, label: str) -> None:
        self._part = part
        self._label = label
        self._start = self._end = self._crc = 0

    def put(self, start: int, end: int, data: bytes | memoryview) -> None:
        """Write ``data``, the bytes ``[start, end)``. Raises StoreError."""
        self._part.write(start, data)
        if self._end != start:
            self.flush()
            self._start = start
        self._crc = zlib.crc32(data, self._crc)
        self._end = end
        if end - self._start >= RECORD_EVERY:
            self.flush()

    def flush(self) -> None:
        """Record what was written since the last record. Raises StoreError."""
        start, end, crc = self._start, self._end, self._crc
        self._start, self._crc = end, 0
        if end > start:
            self._part.record_written(start, end, crc, self._label)

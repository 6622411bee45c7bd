"""Response bodies in memory: counted, decompressed, and limited in size."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

MOST = 64 * 1024 * 1024
"""Limit in bytes for a page or metadata file; the largest known ones have a tenth of it."""


class ByteCount:
    """A counter of bytes."""

    def __init__(self) -> None:
        self.bytes = 0

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks and count their bytes."""
        for chunk in chunks:
            self.bytes += len(chunk)
            yield chunk


def joined(chunks: Iterable[bytes], *, packed: bool) -> bytes | None:
    """Return the decompressed body; None if it is damaged or longer than ``MOST``."""
    unpack = zlib.decompressobj(wbits=31)  # 31: gzip format
    parts: list[bytes] = []
    length = 0
    for chunk in chunks:
        try:
            part = unpack.decompress(chunk, MOST - length + 1) if packed else chunk
        except zlib.error:
            return None
        length += len(part)
        if length > MOST:
            return None
        parts.append(part)
    if packed and not unpack.eof:
        return None
    return b"".join(parts)

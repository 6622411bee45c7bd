"""Bodies that are held in memory: counted, unpacked, and never longer than such a file can be."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

MOST = 64 * 1024 * 1024
"""Bytes of one page or metadata file; the largest that are known have a tenth. What is longer is no such thing."""


class ByteCount:
    """How many bytes have passed."""

    def __init__(self) -> None:
        self.bytes = 0

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, counted."""
        for chunk in chunks:
            self.bytes += len(chunk)
            yield chunk


def joined(chunks: Iterable[bytes], *, packed: bool) -> bytes | None:
    """The body, unpacked; None for one that is damaged, or longer than ``MOST``."""
    unpack = zlib.decompressobj(wbits=31)  # 31: with gzip's header
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

"""Zstandard frames of raw (stored) blocks, after RFC 8878: valid for every decoder, and as quick to write as a copy."""

from __future__ import annotations

from typing import Protocol

MAGIC = 0xFD2FB528
BLOCK = 128 * 1024
"""Most bytes a block may hold (RFC 8878, 3.1.1.2.4), and the window that the frame declares."""
_WINDOW_128_KIB = 7 << 3
"""Window_Descriptor (3.1.1.1.2): exponent 7, mantissa 0, that is 2 ** (10 + 7) bytes."""
_CONTENT_SIZE_8_BYTES = 3 << 6
"""Frame_Header_Descriptor (3.1.1.1.1): an 8-byte content size, no single segment, no checksum, no dictionary."""


class Writable(Protocol):
    """Anything with a binary ``write``."""

    def write(self, data: bytes, /) -> object:
        """Take all of ``data``."""
        ...


class RawFrameWriter:
    """Writes one frame around what it is given; ``size`` (bytes) goes into the header where it is known before.

    The caller owns ``sink`` and closes this writer first: the last block is marked only then.
    """

    def __init__(self, sink: Writable, size: int | None = None) -> None:
        self._sink = sink
        self._pending = bytearray()
        header = MAGIC.to_bytes(4, "little")
        if size is None:
            header += bytes([0, _WINDOW_128_KIB])
        else:
            header += bytes([_CONTENT_SIZE_8_BYTES, _WINDOW_128_KIB]) + size.to_bytes(8, "little")
        sink.write(header)

    def write(self, data: bytes, /) -> int:
        """Take ``data``; whole blocks are written at once, the rest waits."""
        self._pending += data
        while len(self._pending) > BLOCK:
            self._block(bytes(self._pending[:BLOCK]), last=False)
            del self._pending[:BLOCK]
        return len(data)

    def close(self) -> None:
        """Write the last block (possibly empty)."""
        self._block(bytes(self._pending), last=True)
        self._pending.clear()

    def _block(self, data: bytes, *, last: bool) -> None:
        # Block_Header (3.1.1.2): bit 0 Last_Block, bits 1 and 2 the type (0 = raw), then the size.
        self._sink.write((len(data) << 3 | int(last)).to_bytes(3, "little"))
        self._sink.write(data)


def raw_frame(data: bytes) -> bytes:
    """``data`` as one frame of raw blocks."""
    out = bytearray()

    class _Collect:
        def write(self, part: bytes, /) -> None:
            out.extend(part)

    writer = RawFrameWriter(_Collect(), size=len(data))
    writer.write(data)
    writer.close()
    return bytes(out)

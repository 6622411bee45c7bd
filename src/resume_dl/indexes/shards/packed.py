"""Decoder of untrusted zstd-compressed MessagePack, with limits on size, number and nesting."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from resume_dl.errors import IntegrityError
from resume_dl.resolve.repodata import unpack_zst_bytes

T = TypeVar("T")

_LONGEST_TEXT = 200
"""The number of characters of a server's text that an error quotes."""

# First bytes of formats in the MessagePack specification.
_NIL = 0xC0
_FIXED = 0x80  # fixmap is 0x80 to 0x8f, fixarray 0x90 to 0x9f
_MAP_OR_ARRAY_16 = (0xDE, 0xDC)
_MAP_OR_ARRAY_32 = (0xDF, 0xDD)

NOTHING = msgspec.Raw(bytes([_NIL]))
"""The default for a missing member."""


PARTS: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
"""Decodes a map, but not its values."""


class BadShardsError(Exception):
    """An index or shard is refused; the message gives the reason, and the caller names the source."""


def unpacked(data: bytes, *, largest: int) -> bytes:
    """Decompress a ``.zst``; both sizes are limited to ``largest`` bytes. Raises BadShardsError."""
    if len(data) > largest:
        raise BadShardsError(f"its size exceeds the limit of {largest} bytes")
    try:
        return unpack_zst_bytes(data, largest=largest)
    except IntegrityError as error:
        raise BadShardsError(error.message) from error


def decoded(data: bytes | msgspec.Raw, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """Decode ``data`` with ``decoder``; the recursion limit bounds the nesting. Raises BadShardsError.

    Decoders must be created at import time, by one thread: msgspec prepares a Struct type on first use, and a second
    thread that uses it meanwhile crashes the process with a segmentation fault.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError, OverflowError) as error:
        raise BadShardsError(f"its content is invalid: {quoted(error)}") from error


def entries(raw: msgspec.Raw, most: int) -> int:
    """Return the number of entries that a map or array declares, before decoding any; 0 for nil.

    A byte of MessagePack may expand to a hundred bytes of memory. Raises BadShardsError.
    """
    data = bytes(memoryview(raw)[:5])
    first = data[0]
    if first in _MAP_OR_ARRAY_16:
        count = int.from_bytes(data[1:3], "big")
    elif first in _MAP_OR_ARRAY_32:
        count = int.from_bytes(data[1:5], "big")
    elif first & 0xE0 == _FIXED:
        count = first & 0x0F
    elif first == _NIL:
        count = 0
    else:
        raise BadShardsError("a map or a list is missing")
    if count > most:
        raise BadShardsError(f"it has {count} entries, more than the limit of {most}")
    return count


def quoted(what: object) -> str:
    """Return untrusted text, shortened for an error message."""
    text = str(what)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."

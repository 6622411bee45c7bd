"""MessagePack that others wrote, in zstd: unpacked and decoded within bounds of size, number and nesting."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from resume_dl.errors import IntegrityError
from resume_dl.resolve.repodata import unpack_zst_bytes

T = TypeVar("T")

_LONGEST_TEXT = 200
"""Characters of a server's text that an error quotes."""

# First bytes of the MessagePack specification's formats.
_NIL = 0xC0
_FIXED = 0x80  # fixmap is 0x80 to 0x8f, fixarray 0x90 to 0x9f
_MAP_OR_ARRAY_16 = (0xDE, 0xDC)
_MAP_OR_ARRAY_32 = (0xDF, 0xDD)

NOTHING = msgspec.Raw(bytes([_NIL]))
"""What stands for a member that is missing."""


PARTS: Final = msgspec.msgpack.Decoder(dict[str, msgspec.Raw])
"""Decodes a map and leaves its values for later."""


class BadShardsError(Exception):
    """Why an index or a shard is refused, in words without its source; the caller names that."""


def unpacked(data: bytes, *, largest: int) -> bytes:
    """What a ``.zst`` holds; at most ``largest`` bytes on either side. Raises BadShardsError."""
    if len(data) > largest:
        raise BadShardsError(f"it has more than the {largest} bytes that are allowed")
    try:
        return unpack_zst_bytes(data, largest=largest)
    except IntegrityError as error:
        raise BadShardsError(error.message) from error


def decoded(data: bytes | msgspec.Raw, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """What ``decoder`` makes of ``data``; nesting is bounded by the interpreter's recursion limit.

    Decoders are made while a module is imported, by one thread: msgspec prepares a Struct type when it first meets it,
    and a second thread that meets it half prepared ends the process with a segmentation fault. Raises BadShardsError.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError, TypeError, OverflowError) as error:
        raise BadShardsError(f"it is not such a file: {quoted(error)}") from error


def entries(raw: msgspec.Raw, most: int) -> int:
    """The number of entries that a map or an array declares, learnt before any is decoded; 0 for nil.

    A byte of MessagePack may become a hundred of memory. Raises BadShardsError.
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
        raise BadShardsError(f"it names {count} entries, and {most} are allowed")
    return count


def quoted(what: object) -> str:
    """Text that others wrote, shortened for an error."""
    text = str(what)
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}..."

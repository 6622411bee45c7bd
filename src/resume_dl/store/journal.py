"""The format of a part file's journal (docs/journal.md): what was written, and what of it is durable.

No I/O: ``encode_*`` make records, ``read`` parses a whole journal and returns what can be trusted.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

from resume_dl.core.ranges import RangeSet
from resume_dl.errors import JournalError

MAGIC = b"RDLJ"
VERSION = 2
"""The version written. Version 1 has no *forget*: its readers take one for a torn tail and trust what it voids."""
READABLE = (1, 2)
_HEADER = struct.Struct("<4sHHII")  # magic, version, flags (0), nonce, CRC32 of the 12 bytes before
_HEAD = struct.Struct("<BH")  # kind, length of the payload
_CRC = struct.Struct("<I")
_SIZE = struct.Struct("<Q")
_WRITTEN = struct.Struct("<QQHI")  # start, end, source, CRC32 of the data
_DURABLE = struct.Struct("<Q")  # journal offset
_FORGET = struct.Struct("<QQ")  # start, end
_SOURCE = struct.Struct("<H")  # id; the name follows in UTF-8
_WHOLE_WRITTEN = struct.Struct("<3sQQHII")  # a written record: kind and length, payload, its own CRC32

KIND_SOURCE, KIND_SIZE, KIND_VALIDATOR, KIND_WRITTEN, KIND_DURABLE, KIND_DISCARD, KIND_FORGET = range(1, 8)
HEADER_SIZE = _HEADER.size
MOST_TEXT = 0xFFFF - _SOURCE.size
"""The most bytes of UTF-8 in a record: a payload's length has 16 bits, less the source's id."""


class Written(NamedTuple):
    """Bytes ``[start, end)`` of the part file: their source, and their CRC-32 when they were written."""

    start: int
    end: int
    source: int
    crc32: int


@dataclass(slots=True)
class Contents:
    """The content of a journal. ``good_length`` in bytes: everything after it is a torn tail, to be cut off."""

    nonce: int
    version: int = VERSION
    size: int | None = None
    validator: str | None = None
    bound_source: str | None = None
    sources: dict[int, str] = field(default_factory=dict)
    durable: list[Written] = field(default_factory=list)
    """Synced before it was recorded: trusted without re-reading."""
    written: list[Written] = field(default_factory=list)
    """Possibly not on the disk after a power cut: trusted only after it was re-hashed."""
    good_length: int = HEADER_SIZE


def encode_header(nonce: int) -> bytes:
    """Return the first bytes of a journal; ``nonce`` (32 bits, random) seeds every record's CRC."""
    head = _HEADER.pack(MAGIC, VERSION, 0, nonce, 0)[:-4]
    return head + _CRC.pack(zlib.crc32(head))


def fits(text: str) -> bool:
    """Whether a record can hold a source's name or a validator. Both are identities, so they are never truncated."""
    return len(text.encode()) <= MOST_TEXT


def encode_source(nonce: int, source: int, name: str) -> bytes:
    """Name ``source``, without secrets, for the records that follow; by its sha256 if the name does not fit."""
    if not fits(name):
        name = f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
    return _record(nonce, KIND_SOURCE, _SOURCE.pack(source) + name.encode())


def encode_size(nonce: int, size: int) -> bytes:
    """Record the file's size in bytes."""
    return _record(nonce, KIND_SIZE, _SIZE.pack(size))


def encode_validator(nonce: int, source: int, validator: str) -> bytes:
    """Record the strong validator (RFC 9110 8.8) that binds a file without a digest to one source; it must ``fits``."""
    return _record(nonce, KIND_VALIDATOR, _SOURCE.pack(source) + validator.encode())


def encode_written(nonce: int, written: Written) -> bytes:
    """Make a *written* record, to be appended after its data was written, without a sync."""
    return _record(nonce, KIND_WRITTEN, _WRITTEN.pack(written.start, written.end, written.source, written.crc32))


def encode_durable(nonce: int, mark: int) -> bytes:
    """Make a *durable* record: the data of all records before journal offset ``mark`` was synced before it."""
    return _record(nonce, KIND_DURABLE, _DURABLE.pack(mark))


def encode_discard(nonce: int) -> bytes:
    """Make a *discard* record: it voids every range, the size and the validator before it."""
    return _record(nonce, KIND_DISCARD, b"")


def encode_forget(nonce: int, start: int, end: int) -> bytes:
    """Make a *forget* record: it voids every earlier *written* record that overlaps ``[start, end)``."""
    return _record(nonce, KIND_FORGET, _FORGET.pack(start, end))


def read(data: bytes) -> Contents:
    """Parse a journal up to the first record that is truncated or has a wrong CRC.

    Raises JournalError for a journal of another version, which must not be destroyed, and ValueError for a truncated or
    damaged header, after which the file begins anew.
    """
    if len(data) < HEADER_SIZE:
        raise ValueError("the journal's header is truncated")
    magic, version, _, nonce, crc = _HEADER.unpack_from(data)
    if magic != MAGIC or crc != zlib.crc32(data[: HEADER_SIZE - 4]):
        raise ValueError("the journal's header is damaged")
    if version not in READABLE:
        raise JournalError(
            f"an unfinished download has a journal of version {version}, but this program reads {VERSION}",
            hint="finish it with the version that started it, or remove it with: resume-dl clean",
        )
    contents = Contents(nonce, version=version)
    records: list[Written] = []
    offsets: list[int] = []
    forgotten: list[tuple[int, int, int]] = []
    mark = 0
    at = HEADER_SIZE
    while True:
        at = _read_written(data, at, nonce, records, offsets)
        parsed = _parse(data, at, nonce)
        if parsed is None:
            break
        kind, payload, at = parsed
        if kind == KIND_DURABLE:
            mark = max(mark, *_DURABLE.unpack(payload))
        elif kind == KIND_FORGET:
            forgotten.append((len(records), *_FORGET.unpack(payload)))
        elif kind == KIND_DISCARD:
            records, offsets, forgotten, mark = [], [], [], 0
            contents.size = contents.validator = contents.bound_source = None
        else:
            _apply_fact(contents, kind, payload)
    contents.good_length = at
    synced = bisect_left(offsets, mark)
    if forgotten:
        kept = _not_forgotten(records, forgotten)
        contents.durable = [records[number] for number in kept if number < synced]
        contents.written = [records[number] for number in kept if number >= synced]
    else:
        contents.durable, contents.written = records[:synced], records[synced:]
    return contents


def _read_written(data: bytes, at: int, nonce: int, records: list[Written], offsets: list[int]) -> int:
    """Append the *written* records from ``at`` on to both lists; returns the offset of the first other record.

    Nearly all records of a large file are of this kind; 40,000 in a row must take a few hundredths of a second.
    """
    unpack, make, crc = _WHOLE_WRITTEN.unpack_from, Written._make, zlib.crc32
    length, checked = _WHOLE_WRITTEN.size, _WHOLE_WRITTEN.size - _CRC.size
    head = _HEAD.pack(KIND_WRITTEN, _WRITTEN.size)
    last = len(data) - length
    while at <= last:
        found, start, end, source, crc32, check = unpack(data, at)
        if found != head or check != crc(data[at : at + checked], nonce):
            break
        records.append(make((start, end, source, crc32)))
        offsets.append(at)
        at += length
    return at


def _not_forgotten(records: list[Written], forgotten: list[tuple[int, int, int]]) -> list[int]:
    """Return the indexes of records that no later *forget* overlaps.

    ``forgotten``: for each *forget*, the number of records before it, and its range.
    """
    void, kept, at = RangeSet(), [], len(records)
    for before, start, end in [*reversed(forgotten), (0, 0, 0)]:
        kept += [number for number in range(at - 1, before - 1, -1) if not void.overlaps(*records[number][:2])]
        at = before
        void.add(start, end)
    return kept[::-1]


def _apply_fact(contents: Contents, kind: int, payload: bytes) -> None:
    if kind == KIND_SOURCE:
        contents.sources[_SOURCE.unpack_from(payload)[0]] = payload[_SOURCE.size :].decode(errors="replace")
    elif kind == KIND_SIZE:
        contents.size = _SIZE.unpack(payload)[0]
    elif kind == KIND_VALIDATOR:
        contents.bound_source = contents.sources.get(_SOURCE.unpack_from(payload)[0])
        contents.validator = payload[_SOURCE.size :].decode(errors="replace")


_LENGTHS = {
    KIND_SIZE: _SIZE.size,
    KIND_DURABLE: _DURABLE.size,
    KIND_DISCARD: 0,
    KIND_FORGET: _FORGET.size,
}


def _parse(data: bytes, at: int, nonce: int) -> tuple[int, bytes, int] | None:
    """Parse the record at ``at``: kind, payload and offset of the next; None if it is damaged or a *written* record."""
    if at + _HEAD.size + _CRC.size > len(data):
        return None
    kind, length = _HEAD.unpack_from(data, at)
    end = at + _HEAD.size + length
    if end + _CRC.size > len(data):
        return None
    if _CRC.unpack_from(data, end)[0] != zlib.crc32(data[at:end], nonce):
        return None
    if length != _LENGTHS.get(kind, length) or not KIND_SOURCE <= kind <= KIND_FORGET or kind == KIND_WRITTEN:
        return None
    if kind in {KIND_SOURCE, KIND_VALIDATOR} and length < _SOURCE.size:
        return None
    return kind, data[at + _HEAD.size : end], end + _CRC.size


def _record(nonce: int, kind: int, payload: bytes) -> bytes:
    body = _HEAD.pack(kind, len(payload)) + payload
    return body + _CRC.pack(zlib.crc32(body, nonce))

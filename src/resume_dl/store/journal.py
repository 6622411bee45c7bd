"""The journal of one part file, bit by bit as in docs/journal.md: what was written, and what of it is durable.

Pure bytes: ``encode_*`` make records, ``read`` takes a whole journal and says what may be believed.
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
"""What is written. Version 1 had no *forget*: its programs would take one for a torn tail and believe what it voids."""
READABLE = (1, 2)
_HEADER = struct.Struct("<4sHHII")  # magic, version, flags (0), nonce, CRC32 of the 12 bytes before
_HEAD = struct.Struct("<BH")  # kind, length of the payload
_CRC = struct.Struct("<I")
_SIZE = struct.Struct("<Q")
_WRITTEN = struct.Struct("<QQHI")  # start, end, source, CRC32 of the data
_DURABLE = struct.Struct("<Q")  # journal offset
_FORGET = struct.Struct("<QQ")  # start, end
_SOURCE = struct.Struct("<H")  # id; the name follows in UTF-8
_WHOLE_WRITTEN = struct.Struct("<3sQQHII")  # a written record: kind and length, what it says, its own CRC32

KIND_SOURCE, KIND_SIZE, KIND_VALIDATOR, KIND_WRITTEN, KIND_DURABLE, KIND_DISCARD, KIND_FORGET = range(1, 8)
HEADER_SIZE = _HEADER.size
MOST_TEXT = 0xFFFF - _SOURCE.size
"""Bytes of UTF-8: what the length of a payload, 16 bits, leaves beside the source's id."""


class Written(NamedTuple):
    """Bytes ``[start, end)`` of the part file came from ``source`` and had this CRC32 when they were written."""

    start: int
    end: int
    source: int
    crc32: int


@dataclass(slots=True)
class Contents:
    """What a journal says. ``good_length`` in bytes: all behind it is a torn tail, to be cut off."""

    nonce: int
    version: int = VERSION
    size: int | None = None
    validator: str | None = None
    bound_source: str | None = None
    sources: dict[int, str] = field(default_factory=dict)
    durable: list[Written] = field(default_factory=list)
    """Synced before it was said: believed without re-reading."""
    written: list[Written] = field(default_factory=list)
    """Perhaps only in the page cache when the machine stopped: re-hashed before it is believed."""
    good_length: int = HEADER_SIZE


def encode_header(nonce: int) -> bytes:
    """The first bytes of a journal; ``nonce`` (32 bits, random) seeds every record's CRC."""
    head = _HEADER.pack(MAGIC, VERSION, 0, nonce, 0)[:-4]
    return head + _CRC.pack(zlib.crc32(head))


def fits(text: str) -> bool:
    """Whether a record can hold a source's name or a validator: both are identities, and never cut."""
    return len(text.encode()) <= MOST_TEXT


def encode_source(nonce: int, source: int, name: str) -> bytes:
    """Names ``source`` for the records that follow, without secrets; a name that does not fit by its sha256."""
    if not fits(name):
        name = f"sha256:{hashlib.sha256(name.encode()).hexdigest()}"
    return _record(nonce, KIND_SOURCE, _SOURCE.pack(source) + name.encode())


def encode_size(nonce: int, size: int) -> bytes:
    """The whole file's size in bytes."""
    return _record(nonce, KIND_SIZE, _SIZE.pack(size))


def encode_validator(nonce: int, source: int, validator: str) -> bytes:
    """The strong validator (RFC 9110 8.8) that binds a file without a digest to one source; it ``fits``."""
    return _record(nonce, KIND_VALIDATOR, _SOURCE.pack(source) + validator.encode())


def encode_written(nonce: int, written: Written) -> bytes:
    """A *written* record: appended after its data was written, without a sync."""
    return _record(nonce, KIND_WRITTEN, _WRITTEN.pack(written.start, written.end, written.source, written.crc32))


def encode_durable(nonce: int, mark: int) -> bytes:
    """A *durable* record: the data of all records before journal offset ``mark`` was synced before this was written."""
    return _record(nonce, KIND_DURABLE, _DURABLE.pack(mark))


def encode_discard(nonce: int) -> bytes:
    """Forget every range, the size and the validator said so far."""
    return _record(nonce, KIND_DISCARD, b"")


def encode_forget(nonce: int, start: int, end: int) -> bytes:
    """Every written record before this one that touches ``[start, end)`` is void."""
    return _record(nonce, KIND_FORGET, _FORGET.pack(start, end))


def read(data: bytes) -> Contents:
    """Believe a journal as far as it is whole.

    Stops at the first record that is short or whose CRC is wrong. Raises JournalError for a journal of another
    version (which must not be destroyed); a header that is short or damaged raises ValueError (start anew).
    """
    if len(data) < HEADER_SIZE:
        raise ValueError("the journal's header is short")
    magic, version, _, nonce, crc = _HEADER.unpack_from(data)
    if magic != MAGIC or crc != zlib.crc32(data[: HEADER_SIZE - 4]):
        raise ValueError("the journal's header is damaged")
    if version not in READABLE:
        raise JournalError(
            f"an unfinished download has a journal of version {version}, this program reads {VERSION}",
            hint="finish it with the version that began it, or remove it with: resume-dl clean",
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
            _take_fact(contents, kind, payload)
    contents.good_length = at
    synced = bisect_left(offsets, mark)
    if forgotten:
        kept = _remembered(records, forgotten)
        contents.durable = [records[number] for number in kept if number < synced]
        contents.written = [records[number] for number in kept if number >= synced]
    else:
        contents.durable, contents.written = records[:synced], records[synced:]
    return contents


def _read_written(data: bytes, at: int, nonce: int, records: list[Written], offsets: list[int]) -> int:
    """Read *written* records from ``at`` on into two lists; returns where the first record that is none begins.

    Nearly all records of a large file are of this kind, so 40,000 in a row must cost a few hundredths of a second.
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


def _remembered(records: list[Written], forgotten: list[tuple[int, int, int]]) -> list[int]:
    """Which records no later *forget* touches; ``forgotten``: how many records came before it, and its range."""
    void, kept, at = RangeSet(), [], len(records)
    for before, start, end in [*reversed(forgotten), (0, 0, 0)]:
        kept += [number for number in range(at - 1, before - 1, -1) if not void.overlaps(*records[number][:2])]
        at = before
        void.add(start, end)
    return kept[::-1]


def _take_fact(contents: Contents, kind: int, payload: bytes) -> None:
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
    """The record at ``at``, none of *written*: kind, payload and where the next begins; None where it is not whole."""
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

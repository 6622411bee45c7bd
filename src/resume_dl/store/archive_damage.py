"""Location of damage in a complete archive with a wrong digest, by the checksums of its format.

A ZIP (``.conda``, ``.whl``) has a CRC-32 of each member, and most fields of a member's header twice: before its data
and in the central directory (APPNOTE.TXT 4.3.7, 4.3.12). Bytes that pass these checks are good; every other byte is
suspect, including the central directory, which has no checksum. If every member is good, the file is another build
rather than a damaged one, and no byte is more suspect than the others. A ``.tar.bz2`` is not checked: its blocks have
CRCs, but begin at any bit, and the standard library does not report where.

The archive may be hostile: memory and work are bounded.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO

from resume_dl.core.ranges import RangeSet

_SUFFIXES = (".conda", ".whl", ".zip")
_CHUNK = 256 << 10
_DIRECTORY_MOST = 4 << 20
"""The most bytes of a central directory: 30,000 members of a wheel; it takes about ten times that in memory."""
_WORK_FACTOR, _WORK_MORE = 4, 1 << 30
"""Limit of unpacked bytes: a multiple of the archive's size, plus a constant; packages do not compress further."""
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_STREAMED = 0x08
_ENCRYPTED = 0x01
_UTF8 = 0x800
_MAX32 = 0xFFFFFFFF


class _ExcessiveError(Exception):
    """Checking the archive takes more memory or work than any real package needs."""


class _Bounded(io.FileIO):
    """A file that limits each read of zipfile, so that a larger central directory appears truncated."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(_DIRECTORY_MOST if size is None or size < 0 else min(_DIRECTORY_MOST, size)) or b""


def damaged_ranges(path: Path, filename: str) -> tuple[tuple[int, int], ...] | None:
    """Return the suspect ranges of a complete archive, in order; None if its format finds none. Raises OSError.

    All other bytes are right as far as CRC-32 can prove (a deflated member has up to seven unused bits).
    """
    if not filename.endswith(_SUFFIXES):
        return None
    with _Bounded(path, "r") as file:
        size = file.seek(0, io.SEEK_END)
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
            check = _Check(file, size)
            good = check.good_ranges(members)
        except (
            _ExcessiveError,
            zipfile.BadZipFile,
            ValueError,
            NotImplementedError,
            struct.error,
            OverflowError,
            EOFError,
        ):
            return None  # the central directory is unreadable, or unlike that of any packager
    return tuple(good.gaps(0, size)) if good and check.found_wrong else None


class _Check:
    """Checks the members of an archive of ``size`` bytes. Raises _ExcessiveError and OSError."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file = file
        self._size = size
        self._work = _WORK_FACTOR * size + _WORK_MORE
        self.found_wrong = False
        """Whether a member's data, header or descriptor is wrong or cannot be checked."""

    def good_ranges(self, members: list[zipfile.ZipInfo]) -> RangeSet:
        """Return every byte that the members' checksums confirm."""
        good = RangeSet()
        for member in members:
            ranges, is_right = self._good_of(member)
            self.found_wrong |= not is_right
            for start, end in ranges:
                if good.overlaps(start, end):
                    raise _ExcessiveError  # no packager writes overlapping members
                good.add(start, end)
        return good

    def _good_of(self, member: zipfile.ZipInfo) -> tuple[list[tuple[int, int]], bool]:
        """Return the good ranges of a member (header, extra field, data, descriptor), and whether nothing is wrong.

        An extra field that only the local header has is neither confirmed nor wrong.
        """
        at = member.header_offset
        header = self._read(at, _LOCAL.size)
        if len(header) < _LOCAL.size:
            return [], False
        name_length, extra_length = _LOCAL.unpack(header)[9:]
        named = at + _LOCAL.size + name_length
        data = named + extra_length
        end = data + member.compress_size
        if end > self._size or member.flag_bits & _ENCRYPTED or not self._fits(data, member):
            return [], False
        good = [(data, end)]
        described = self._descriptor(end, member) if member.flag_bits & _STREAMED else 0
        if described:
            good.append((end, end + described))
        name = _raw_name(member)
        known_extra = extra_length == len(member.extra) and self._read(named, extra_length) == member.extra
        header_is_right = (
            _header_matches(header, member)
            and name_length == len(name)
            and self._read(at + _LOCAL.size, name_length) == name
            and (known_extra or data < end)  # the data proves where the extra field ends
        )
        if header_is_right:
            good.append((at, data if known_extra else named))
        return good, header_is_right and bool(described or not member.flag_bits & _STREAMED)

    def _fits(self, at: int, member: zipfile.ZipInfo) -> bool:
        """Whether a member's data unpacks to its size and CRC-32, without unused bytes."""
        if member.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            return False
        unpack = zlib.decompressobj(-zlib.MAX_WBITS) if member.compress_type == zipfile.ZIP_DEFLATED else None
        crc, size, left = 0, 0, member.compress_size
        while left:
            packed = self._read(at, min(_CHUNK, left))
            if not packed:
                return False
            at += len(packed)
            left -= len(packed)
            while True:
                try:
                    chunk = unpack.decompress(packed, _CHUNK) if unpack else packed
                except zlib.error:
                    return False
                crc, size = zlib.crc32(chunk, crc), size + len(chunk)
                self._work -= len(chunk)
                if self._work < 0:
                    raise _ExcessiveError
                if size > member.file_size or (unpack and (unpack.unused_data or (unpack.eof and left))):
                    return False
                packed = unpack.unconsumed_tail if unpack else b""
                if not packed and (unpack is None or len(chunk) < _CHUNK):
                    break
        return size == member.file_size and crc == member.CRC and (unpack is None or unpack.eof)

    def _descriptor(self, at: int, member: zipfile.ZipInfo) -> int:
        """Return the length of the data descriptor at ``at``, 0 if it is wrong (APPNOTE.TXT 4.3.9)."""
        found = self._read(at, 24)
        for layout in ("<4sIQQ", "<4sIII"):
            if max(member.file_size, member.compress_size) <= _MAX32 or layout == "<4sIQQ":
                right = struct.pack(layout, b"PK\x07\x08", member.CRC, member.compress_size, member.file_size)
                for each in (right, right[4:]):
                    if found.startswith(each):
                        return len(each)
        return 0

    def _read(self, at: int, count: int) -> bytes:
        self._file.seek(at)
        return self._file.read(count)


def _header_matches(header: bytes, member: zipfile.ZipInfo) -> bool:
    """Whether a local header agrees with the central directory; CRC and sizes may be in a descriptor or extra field."""
    magic, version, flags, method, time, date, crc, packed, size, _, extra = _LOCAL.unpack(header)
    year, month, day, hour, minute, second = member.date_time
    streamed = bool(flags & _STREAMED)

    def is_size(found: int, expected: int) -> bool:
        return found == expected or (streamed and found == 0) or (extra > 0 and found == _MAX32)

    return bool(
        magic == b"PK\x03\x04"
        and version == member.extract_version
        and flags == member.flag_bits
        and method == member.compress_type
        and time == hour << 11 | minute << 5 | second // 2
        and date == (year - 1980) << 9 | month << 5 | day
        and (crc == member.CRC or (streamed and crc == 0))
        and is_size(packed, member.compress_size)
        and is_size(size, member.file_size)
    )


def _raw_name(member: zipfile.ZipInfo) -> bytes:
    return member.orig_filename.encode("utf-8" if member.flag_bits & _UTF8 else "cp437")

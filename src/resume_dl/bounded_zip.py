"""Untrusted ZIP archives, read with bounded memory: their directory, number of members, a member's size.

``zipfile`` reads a directory of any length at once and makes an object of each entry, lets entries share their bytes
(David Fifield, "A better zip bomb"), and unpacks all of a member's packed bytes in one step, regardless of the
length in the directory. A wheel has none of this (PEP 427).
"""

from __future__ import annotations

import zipfile
from itertools import pairwise
from typing import IO, Any, cast

MOST_MEMBERS = 100_000
"""Twice the number in the largest wheels."""
_LONGEST_READ = 16 << 20
"""Bytes of a directory: 150 of each member."""
_ENTRY = b"PK\x01\x02"
_LOCAL_HEADER = 30
"""Bytes at least (APPNOTE.TXT 4.3.7)."""
_DEFLATED_MORE = 64 << 10
"""Overhead in bytes of incompressible data: 5 of each 16 KiB, with room (RFC 1951 3.2.4)."""
_METHODS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})


def open_zip(file: Any) -> zipfile.ZipFile:
    """Open the archive in a binary file; the caller closes the file. Raises BadZipFile, and what zipfile raises."""
    archive = zipfile.ZipFile(cast("IO[bytes]", _Bounded(file)))
    members = sorted(archive.infolist(), key=lambda member: member.header_offset)
    if len(members) > MOST_MEMBERS:
        raise zipfile.BadZipFile(f"it has more than {MOST_MEMBERS:,} members")
    for one, other in pairwise(members):
        if one.header_offset + _LOCAL_HEADER + one.compress_size > other.header_offset:
            raise zipfile.BadZipFile("its members overlap")
    return archive


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> IO[bytes]:
    """Open a member as a stream, to be read in pieces. Raises BadZipFile, and what zipfile raises.

    Stored and deflated only: zipfile unpacks the other methods without a bound, and no wheel uses them.
    """
    if member.compress_type not in _METHODS:
        raise zipfile.BadZipFile("its compression method is not used in wheels")
    return archive.open(member)


def read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """Read a member. Raises BadZipFile also if it is longer than ``most`` or than the directory says."""
    if member.file_size > most or member.compress_size > most + _DEFLATED_MORE:
        raise zipfile.BadZipFile(f"a member of it has more than {most} bytes")
    with open_member(archive, member) as stream:  # one read of a number, as without one it unpacks all at once
        data = stream.read(member.file_size)
        stream.read(1)  # compares the checksum
    return data


class _Bounded:
    """A file that refuses single reads larger than any real archive needs."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size > _LONGEST_READ:
            raise zipfile.BadZipFile(f"it needs {size} bytes at once")
        data = self._file.read(_LONGEST_READ if size < 0 else size)
        if data.count(_ENTRY) > MOST_MEMBERS:
            raise zipfile.BadZipFile(f"it has more than {MOST_MEMBERS:,} members")
        return data

    def close(self) -> None:
        """Do nothing: the caller closes the file."""

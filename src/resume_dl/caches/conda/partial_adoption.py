"""Adoption of conda's unfinished downloads: the bytes of a ``<fn>.partial`` become the start of our part file.

conda writes that file from its start and holds a lock on it meanwhile (``cache_partial``). Its content may be wrong (an
error page, bytes appended at a wrong place, zeros after a power cut), so it is treated as one more source: its records
carry ``LABEL``, and the digest of the whole file decides. Bytes that the archive's format proves wrong are not copied.
We never write to the file, and remove it only when it has no more use.
"""

from __future__ import annotations

import os
import stat
import struct
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.partial import SUFFIX, conda_lock, open_locked
from resume_dl.core.ranges import RangeSet
from resume_dl.core.responses import check_magic
from resume_dl.errors import LockedError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import PartFile
from resume_dl.store.archive_damage import damaged_ranges
from resume_dl.store.journal_file import read_journal
from resume_dl.store.part import FOLDER, PartStore

LABEL = "conda's .partial"
"""The name of this source in the journal."""
DAMAGED = "the damaged archive"
"""The same, of an archive in the cache that is not what its record says."""
_PIECE = 128 * 1024
"""Bytes that one record covers, as for bytes from the network."""
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MAGIC, _OTHER_MAGICS = b"PK\x03\x04", (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06")
_STREAMED, _ENCRYPTED, _STORED, _MAX32 = 0x08, 0x01, 0, 0xFFFFFFFF
_ZIP = (".conda", ".whl", ".zip")


@dataclass(frozen=True, slots=True)
class Adopted:
    """A ``.partial`` whose bytes were copied: ``count`` of them now, 0 if an earlier run copied them."""

    path: Path
    count: int
    state: tuple[int, int, int]
    """Inode, size and mtime in nanoseconds at that time."""


def adopt_partial(
    pkgs_dir: Path, artifact: Artifact, *, cancelled: Callable[[], bool] = lambda: False
) -> Adopted | None:
    """Copy conda's unfinished file of ``artifact`` into the gaps of our part file.

    None if there is no such file, if it has no use, if our part file has more bytes, or if another process uses either.
    Errors are ignored: the package is downloaded then as if the file were missing.
    """
    path = pkgs_dir / f"{artifact.filename}{SUFFIX}"
    try:
        if artifact.digest is None or not stat.S_ISREG(path.lstat().st_mode):
            return None
        with open_locked(path) as fd:
            return _adopt(path, fd, pkgs_dir / FOLDER, artifact, cancelled)
    except (OSError, StoreError):
        return None


def adopt_damaged(
    pkgs_dir: Path, artifact: Artifact, *, cancelled: Callable[[], bool] = lambda: False
) -> Adopted | None:
    """Copy what is right in a damaged archive of the cache into our part file; the archive is not changed.

    Of a complete one that is what its checksums prove, of one that was cut off all of it. None as for
    ``adopt_partial``, and without such a proof: to compare all of it with a mirror costs as much as to download it.
    """
    path = pkgs_dir / artifact.filename
    try:
        if artifact.digest is None or not stat.S_ISREG(path.lstat().st_mode):
            return None
        fd = fs.open_regular(path, os.O_RDONLY)
        try:
            size = os.fstat(fd).st_size
            if artifact.size is None or size > artifact.size:
                return None
            if size < artifact.size:
                return _adopt(path, fd, pkgs_dir / FOLDER, artifact, cancelled, label=DAMAGED)
            suspects = damaged_ranges(path, artifact.filename)
            if not suspects:
                return None
            good = RangeSet(suspects).gaps(0, size)
            return _adopt(path, fd, pkgs_dir / FOLDER, artifact, cancelled, label=DAMAGED, good=good)
        finally:
            os.close(fd)
    except (OSError, StoreError):
        return None


def remove_adopted(adopted: Adopted) -> None:
    """Remove the ``.partial``, unless it was changed or replaced since, or a conda process uses it.

    Call this after the package is published. Never raises OSError.
    """
    try:
        with conda_lock(adopted.path):
            if _state(adopted.path.lstat()) == adopted.state:
                adopted.path.unlink()
    except (OSError, LockedError):
        pass


def _adopt(
    path: Path,
    fd: int,
    folder: Path,
    artifact: Artifact,
    cancelled: Callable[[], bool],
    *,
    label: str = LABEL,
    good: Iterable[tuple[int, int]] | None = None,
) -> Adopted | None:
    """Copy ``good``, by default the plausible start of the file, into the gaps of our part file."""
    found = os.fstat(fd)
    ranges = [*good] if good is not None else [(0, believable(fd, found.st_size, artifact))]
    total = sum(end - start for start, end in ranges)
    if not total:
        return None
    contents = read_journal(folder / f"{artifact.key}.journal")
    if contents is not None and label in contents.sources.values():
        return Adopted(path, 0, _state(found))  # copied before: bytes found to be wrong must not be copied again
    part = PartStore(folder).open(artifact, journaled=True)
    try:
        ours = RangeSet(part.resume().ranges)
        if ours.total >= total:
            return None
        gaps = [gap for start, end in ranges for gap in ours.gaps(start, end)]
        count = sum(copy_into(fd, part, start, end, cancelled, label=label) for start, end in gaps)
        part.record_durable(part.sync_data())
    finally:
        part.close()
    return Adopted(path, count, _state(found))


def copy_into(fd: int, part: PartFile, start: int, end: int, cancelled: Callable[[], bool], *, label: str) -> int:
    """Copy ``[start, end)`` and record it; returns the bytes copied. Stops at a piece of zeros, the gap of a crash.

    Copied and not linked, because conda may go on writing to its file.
    """
    at = start
    while at < end and not cancelled():
        data = _read(fd, at, min(_PIECE, end - at))
        if not data or not any(data):
            break
        part.write(at, data)
        part.record_written(at, at + len(data), zlib.crc32(data), label)
        at += len(data)
    return at - start


def believable(fd: int, size: int, artifact: Artifact) -> int:
    """Return how many of the first bytes are plausible by size, magic and, in a ZIP, the CRC-32 of whole members."""
    if artifact.size is not None and size > artifact.size:
        return 0  # longer than the whole package
    first = _read(fd, 0, 64)
    if len(first) < _LOCAL.size or check_magic(artifact.filename, first) is not None:
        return 0
    return _good_members(fd, size) if artifact.filename.endswith(_ZIP) else size


def _good_members(fd: int, size: int) -> int:
    """Return the offset of the first member that is wrong or not a member; ``size`` if none is found.

    The search ends at a member that is cut off, or whose header does not give its length.
    """
    at = 0
    while at + _LOCAL.size <= size:
        magic, _, flags, method, _, _, crc, packed, _, name, extra = _LOCAL.unpack(_read(fd, at, _LOCAL.size))
        if magic[:4] in _OTHER_MAGICS:
            return size
        if magic != _LOCAL_MAGIC:
            return at
        data = at + _LOCAL.size + name + extra
        if flags & (_STREAMED | _ENCRYPTED) or packed == _MAX32 or data + packed > size:
            return size
        if method == _STORED and _crc32(fd, data, data + packed) != crc:
            return at
        at = data + packed
    return size


def _crc32(fd: int, start: int, end: int) -> int | None:
    crc = 0
    while start < end:
        data = _read(fd, start, min(1 << 20, end - start))
        if not data:
            return None
        crc = zlib.crc32(data, crc)
        start += len(data)
    return crc


def _read(fd: int, offset: int, count: int) -> bytes:
    os.lseek(fd, offset, os.SEEK_SET)
    return os.read(fd, count)


def _state(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns

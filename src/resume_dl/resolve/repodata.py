"""A repodata file on disk: how new it is, one record of it, and unpacking ``repodata.json.zst``."""

from __future__ import annotations

import json
import mmap
import re
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from resume_dl.errors import IntegrityError, NotWritableError

if TYPE_CHECKING:
    import zstandard

_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*(\d{1,15})')
_MILLISECONDS = 253402300799
"""Larger values are in milliseconds (as in conda-build#1988), smaller ones in seconds."""
_CHUNK = 1 << 20
_LARGEST_RECORD = 1 << 20
"""Bytes; records with thousands of dependencies are below a tenth of it."""
_LARGEST = 4 << 30
"""Bytes; the largest real repodata is below 0.5 GB."""


def newest_timestamp(path: Path) -> float:
    """When the newest record of a repodata.json was built, in seconds since 1970; 0.0 where none says.

    Of two copies of one channel, the one whose newest record is later is the fresher. Takes 0.1 s for 75 MB. Raises
    IntegrityError where the file cannot be read.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            newest = max((int(found[1]) for found in _TIMESTAMP.finditer(data)), default=0)
    except (OSError, ValueError) as error:
        raise IntegrityError(f"the repodata {path.name} cannot be read: {error}", hint="run it again") from error
    return newest / 1000 if newest > _MILLISECONDS else float(newest)


def find_record(path: Path, filename: str) -> dict[str, Any] | None:
    """The record of one package file in a repodata.json, None where there is none with a digest.

    The file is searched for the name as a key and only its values are parsed (a signature goes by that key too): 0.2 s
    for 75 MB, where reading the whole takes some seconds and a gigabyte. Raises IntegrityError where the file cannot
    be read.
    """
    key = re.compile(re.escape(json.dumps(filename).encode()) + rb"\s*:\s*(?=\{)")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for found in key.finditer(data):
                text = data[found.end() : found.end() + _LARGEST_RECORD].decode(errors="replace")
                record: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
                if record.get("sha256") or record.get("md5"):
                    return record
    except (OSError, ValueError, RecursionError) as error:
        raise IntegrityError(f"the repodata {path.name} cannot be read: {error}", hint="run it again") from error
    return None


def unpack_zst(source: Path, target: Path) -> int:
    """Unpack a ``.zst`` file to ``target`` (written over); the unpacked size in bytes.

    Raises IntegrityError (not zstd, cut off, or larger than 4 GiB) or NotWritableError.
    """
    import zstandard  # noqa: PLC0415 - needed only where an index has come

    try:
        file = target.open("wb")
    except OSError as error:
        raise NotWritableError(f"cannot write {target}: {error.strerror}", hint="check who owns the folder") from error
    with file, source.open("rb") as data:
        try:
            return _unpack(data, file, zstandard.ZstdDecompressor())
        except (OSError, zstandard.ZstdError) as error:
            raise IntegrityError(f"{source.name} cannot be unpacked: {error}", hint="run it again") from error


def _unpack(data: IO[bytes], file: IO[bytes], decompressor: zstandard.ZstdDecompressor) -> int:
    """Frame by frame: the library's own stream reader takes a file that is cut off for a whole one."""
    size, frame = 0, None
    chunk = data.read(_CHUNK)
    while chunk:
        frame = frame or decompressor.decompressobj()
        unpacked = frame.decompress(chunk)
        size += len(unpacked)
        if size > _LARGEST:
            raise OSError(f"more than {_LARGEST} bytes come out of it")
        file.write(unpacked)
        chunk = b""
        if frame.eof:
            chunk, frame = frame.unused_data, None
        chunk = chunk or data.read(_CHUNK)
    if frame is not None or size == 0:
        raise OSError("it is cut off")
    return size

"""Operations on a repodata file on disk: its newest record, one record, a check, unpacking ``repodata.json.zst``."""

from __future__ import annotations

import errno
import io
import json
import mmap
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from resume_dl.errors import IntegrityError, NotWritableError, OutOfSpaceError
from resume_dl.model.repodata_forms import read_newer_forms
from resume_dl.zstd_frames import Frame, frames

_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*(\d{1,15})')
_SECTIONS = ("info", "packages", "packages.conda")
_OBJECT = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*["}]')
_BLANKS = b" \t\r\n"
_ENDING = 4096
"""Bytes at the end of an index that may be blank."""
_INFO = re.compile(rb'\s*\{\s*"info"\s*:\s*(?=\{)')
_MILLISECONDS = 253402300799
"""Larger timestamps are in milliseconds (see conda-build#1988), smaller ones in seconds."""
_LARGEST_RECORD = 1 << 20
"""Bytes; records with thousands of dependencies have less than a tenth of it."""
_MOST_HITS = 100
"""Upper limit for occurrences of one file name as a key; a record and its signatures make two or three."""
_ENDINGS = (".conda", ".tar.bz2", ".whl")
LARGEST = 1 << 30
"""Default limit for an index in bytes, packed and unpacked; the largest real one has less than 0.5 GB."""
_PIECE = 1 << 10
"""Bytes passed to the decompressor at once: 4 may expand to 128 KiB (RFC 8878 3.1.1.2), so these to 32 MiB."""
_WINDOW_LOG = 27
"""Binary logarithm of the largest window in bytes: the most that `zstd --ultra` uses, and zstd's own limit."""


def newest_timestamp(path: Path) -> float:
    """Return the timestamp of a repodata.json's newest record, in seconds since 1970; 0.0 if no record has one.

    Takes 0.1 s for 75 MB. Raises IntegrityError if the file cannot be read.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            newest = max((int(found[1]) for found in _TIMESTAMP.finditer(data)), default=0)
    except (OSError, ValueError) as error:
        raise IntegrityError(f"the repodata {path.name} cannot be read: {error}", hint="run it again") from error
    return newest / 1000 if newest > _MILLISECONDS else float(newest)


def find_record(path: Path, filename: str) -> dict[str, Any] | None:
    """Return the record of one package file in a repodata.json; None if no record with a digest is found.

    The file is searched for the name as a key, and only the values of these keys are parsed (signatures share the key):
    0.2 s for 75 MB, while parsing the whole takes seconds and a gigabyte. Raises IntegrityError if the file cannot be
    read.
    """
    key = re.compile(re.escape(json.dumps(filename).encode()) + rb"\s*:\s*(?=\{)")
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            for number, found in enumerate(key.finditer(data)):
                if number >= _MOST_HITS:
                    break  # no real index repeats a key so often: refuse the record
                text = data[found.end() : found.end() + _LARGEST_RECORD].decode(errors="replace")
                record: dict[str, Any] = json.JSONDecoder().raw_decode(text)[0]
                if record.get("sha256") or record.get("md5"):
                    return record
            if data.find(_stem_key(filename)) != -1:
                for record in read_newer_forms(data).find(filename):
                    if record.get("sha256") or record.get("md5"):
                        return record
    except (OSError, ValueError, RecursionError) as error:
        raise IntegrityError(f"the repodata {path.name} cannot be read: {error}", hint="run it again") from error
    return None


def _stem_key(filename: str) -> bytes:
    """The key of a file in a section of a revision (CEP 48), which has no extension; names have no JSON escapes."""
    stem = next((filename.removesuffix(each) for each in _ENDINGS if filename.endswith(each)), filename)
    return json.dumps(stem).encode()


def base_url(path: Path) -> str | None:
    """Return the ``info.base_url`` of a repodata.json (CEP 15), which writers put first; None if it has none.

    Raises IntegrityError if the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            found = _INFO.match(start := file.read(_LARGEST_RECORD))
        info = {} if found is None else json.JSONDecoder().raw_decode(start[found.end() :].decode(errors="replace"))[0]
    except (OSError, ValueError, RecursionError) as error:
        raise IntegrityError(f"the repodata {path.name} cannot be read: {error}", hint="run it again") from error
    base = info.get("base_url")
    return base if isinstance(base, str) else None


def check_index(path: Path) -> None:
    """Check that a file is JSON and that its sections are objects. Raises IntegrityError.

    Values are skipped without creating Python objects: 0.2 s and no extra memory for 80 MB.
    """
    sections = _sections if find_spec("msgspec") is not None else _sections_by_searching
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            firsts = sections(data)
    except (OSError, ValueError, RecursionError) as error:
        raise IntegrityError(f"it is not a channel index: {error}", hint="run it again") from error
    if wrong := [name for name, first in firsts.items() if first != b"{"]:
        raise IntegrityError(f"it is not a channel index: {wrong[0]} is not an object", hint="run it again")


def _sections(data: mmap.mmap) -> dict[str, bytes]:
    """Return the first byte of each section's value; an absent one counts as empty. Raises ValueError."""
    import msgspec

    names = {"info": "info", "packages": "packages", "conda": "packages.conda"}
    missing = msgspec.Raw(b"{}")
    form = msgspec.defstruct("Index", [(name, msgspec.Raw, missing) for name in names], rename=names)
    try:
        index = msgspec.json.decode(data, type=form)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None
    return {shown: bytes(memoryview(getattr(index, name))[:1]) for name, shown in names.items()}


def _sections_by_searching(data: mmap.mmap) -> dict[str, bytes]:
    """Return what ``_sections`` does, in resume-dl.pyz, which lacks msgspec. Raises ValueError.

    Python's own parser would need gigabytes for a large index. So only its two ends and the beginnings of the sections
    are looked at: a web page, and nearly every truncated file, is refused. A record is parsed when it is used.
    """
    if not _OBJECT.match(data) or data[-_ENDING:].rstrip(_BLANKS)[-1:] != b"}":
        raise ValueError("it is not one JSON object")
    found = {name: re.search(rb'"%s"\s*:\s*(.)' % re.escape(name.encode()), data, re.DOTALL) for name in _SECTIONS}
    return {name: b"{" if first is None else first[1] for name, first in found.items()}


def unpack_zst(source: Path, target: Path, *, largest: int = LARGEST) -> int:
    """Unpack a ``.zst`` file to ``target``, which is overwritten; return the unpacked size in bytes.

    Memory use is bounded. On failure ``target`` is removed. Raises IntegrityError (not zstd, truncated, or larger than
    ``largest``), OutOfSpaceError or NotWritableError.
    """
    frame, zstd_error = frames(_WINDOW_LOG)
    try:
        with source.open("rb") as data, target.open("wb") as file:
            try:
                return _unpack(data, file, frame, largest)
            except (_NotUnpackedError, zstd_error, MemoryError) as error:
                why = str(error) or type(error).__name__
                raise IntegrityError(f"cannot be unpacked: {why}", hint="run it again") from error
    except OSError as error:
        target.unlink(missing_ok=True)
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            hint = "free some space there, or set RESUME_DL_CACHE_DIR to another folder"
            raise OutOfSpaceError(f"no space left for {target}", needed=0, free=0, hint=hint) from error
        raise NotWritableError(f"cannot write {target}: {error.strerror}", hint="check who owns the folder") from error
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def unpack_zst_bytes(data: bytes, *, largest: int) -> bytes:
    """Unpack ``.zst`` data in memory. Raises IntegrityError (not zstd, truncated, or larger than ``largest`` bytes)."""
    frame, zstd_error = frames(_WINDOW_LOG)
    unpacked = io.BytesIO()
    try:
        _unpack(io.BytesIO(data), unpacked, frame, largest)
    except (_NotUnpackedError, zstd_error, MemoryError) as error:
        why = str(error) or type(error).__name__
        raise IntegrityError(f"cannot be unpacked: {why}", hint="run it again") from error
    return unpacked.getvalue()


class _NotUnpackedError(Exception):
    """Data cannot be unpacked; the message gives the reason."""


def _unpack(data: IO[bytes], file: IO[bytes], new_frame: Callable[[], Frame], largest: int) -> int:
    """Unpack frame by frame: the library's stream reader accepts a truncated file."""
    size = 0
    frame: Frame | None = None
    piece = data.read(_PIECE)
    while piece:
        frame = frame or new_frame()
        unpacked = frame.decompress(piece)
        size += len(unpacked)
        if size > largest:
            raise _NotUnpackedError(f"its unpacked size exceeds the limit of {largest} bytes")
        file.write(unpacked)
        piece = b""
        if frame.eof:
            piece, frame = frame.unused_data, None
        piece = piece or data.read(_PIECE)
    if frame is not None or size == 0:
        raise _NotUnpackedError("it is truncated")
    return size

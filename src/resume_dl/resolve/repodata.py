"""A repodata file on disk: how new it is, and unpacking ``repodata.json.zst``."""

from __future__ import annotations

import importlib
import mmap
import re
from pathlib import Path
from typing import IO, Any

from resume_dl.errors import ConfigurationError, IntegrityError, NotWritableError

_TIMESTAMP = re.compile(rb'"timestamp"\s*:\s*(\d{1,15})')
_MILLISECONDS = 253402300799
"""Larger values are in milliseconds (as in conda-build#1988), smaller ones in seconds."""
_ZSTD_MODULES = ("compression.zstd", "backports.zstd")
_CHUNK = 1 << 20
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


def unpack_zst(source: Path, target: Path) -> int:
    """Unpack a ``.zst`` file to ``target`` (written over); the unpacked size in bytes.

    Raises IntegrityError (not zstd, cut off, or larger than 4 GiB), NotWritableError, or ConfigurationError where this
    Python has no zstd: then ``repodata.json`` must be fetched instead (see ``can_unpack_zst``).
    """
    zstd = _zstd()
    if zstd is None:
        raise ConfigurationError(
            "this Python cannot unpack zstd", hint="install it: pip install backports.zstd, or use Python 3.14"
        )
    try:
        file = target.open("wb")
    except OSError as error:
        raise NotWritableError(f"cannot write {target}: {error.strerror}", hint="check who owns the folder") from error
    with file:
        try:
            with zstd.open(source, "rb") as data:
                return _copy(data, file)
        except (OSError, EOFError, zstd.ZstdError) as error:
            raise IntegrityError(f"{source.name} cannot be unpacked: {error}", hint="run it again") from error


def can_unpack_zst() -> bool:
    """Whether ``repodata.json.zst`` is of use here; an eighth of the bytes of ``repodata.json``."""
    return _zstd() is not None


def _copy(data: IO[bytes], file: IO[bytes]) -> int:
    size = 0
    while chunk := data.read(_CHUNK):
        size += len(chunk)
        if size > _LARGEST:
            raise OSError(f"more than {_LARGEST} bytes come out of it")
        file.write(chunk)
    return size


def _zstd() -> Any:
    """The standard library's zstd (3.14), or the same from the package index."""
    for name in _ZSTD_MODULES:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None

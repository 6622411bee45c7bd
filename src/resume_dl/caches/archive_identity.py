"""What an archive says it is: the file name of a conda package, or the project of a wheel.

A ``.conda`` names itself in its first members (``info-NAME-VERSION-BUILD.tar.zst``), so that an unfinished one can be
recognised as well; a ``.tar.bz2`` in its ``info/index.json``, which conda-build writes near the start; a wheel in the
name of its ``.dist-info``, which stands at the end (PEP 427). An archive may claim anything: what it says is only the
name to look up, and the digest of the whole file decides. The archive may be hostile: memory and work are bounded.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import tarfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.bounded_zip import open_zip
from resume_dl.file_names import unsafe_name

_HEAD = 1 << 20
"""Bytes at the start of a ``.tar.bz2`` that are unpacked."""
_UNPACKED = 16 << 20
"""Most bytes that they may unpack to."""
_LONGEST_INDEX = 1 << 20
_MOST_MEMBERS = 4
"""Members of a ``.conda`` that are looked at: format 2 has three."""
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_ZIP, _BZIP2 = b"PK\x03\x04", b"BZh"
_LONGEST_NAME = 1024
_INNER = re.compile(r"(?:info|pkg)-(.+)\.tar\.(?:zst|bz2)")
_DIST_INFO = re.compile(r"([A-Za-z0-9][A-Za-z0-9._]*)-[^-/]+\.dist-info/")


@dataclass(frozen=True, slots=True)
class Identity:
    """``filename`` of a conda package, or ``project`` of a wheel; the other is empty."""

    filename: str = ""
    project: str = ""


def looks_like_package(path: Path) -> bool:
    """Whether the first bytes of a regular file are those of a package that says what it is."""
    try:
        fd = fs.open_regular(path)
    except OSError:
        return False
    try:
        return identity(fd) is not None
    finally:
        os.close(fd)


def identity(fd: int) -> Identity | None:
    """Return what the open archive says it is; None if it says nothing, or is no package."""
    with suppress(OSError):
        os.lseek(fd, 0, os.SEEK_SET)
        first = os.read(fd, 4)
        if first == _ZIP:
            return _of_conda(fd) or _of_wheel(fd)
        if first.startswith(_BZIP2):
            return _of_tar(fd)
    return None


def _of_conda(fd: int) -> Identity | None:
    """Read the names of the first members from their local headers (APPNOTE.TXT 4.3.7)."""
    at = 0
    for _ in range(_MOST_MEMBERS):
        os.lseek(fd, at, os.SEEK_SET)
        header = os.read(fd, _LOCAL.size)
        if len(header) < _LOCAL.size:
            return None
        magic, _, _, _, _, _, _, packed, _, length, extra = _LOCAL.unpack(header)
        if magic != _ZIP or length > _LONGEST_NAME:
            return None
        name = os.read(fd, length).decode(errors="replace")
        if (found := _INNER.fullmatch(name)) is not None:
            filename = f"{found[1]}.conda"
            return None if unsafe_name(filename) else Identity(filename=filename)
        at += _LOCAL.size + length + extra + packed
    return None


def _of_wheel(fd: int) -> Identity | None:
    # what zipfile raises for damaged or hostile archives: such a file is no wheel to us, whatever its name says
    with suppress(zipfile.BadZipFile, ValueError, NotImplementedError, struct.error, OverflowError, EOFError):
        with os.fdopen(os.dup(fd), "rb") as file, open_zip(file) as archive:
            names = [found[1] for each in archive.namelist() if (found := _DIST_INFO.match(each)) is not None]
        if names:
            return Identity(project=names[-1])
    return None


def _of_tar(fd: int) -> Identity | None:
    import bz2

    os.lseek(fd, 0, os.SEEK_SET)
    packed, unpack = os.read(fd, _HEAD), bz2.BZ2Decompressor()
    try:
        plain = unpack.decompress(packed, _UNPACKED)
    except (OSError, ValueError):
        return None
    # what tarfile and json raise for hostile archives; OverflowError: a member's length of 40 digits
    hostile = (tarfile.TarError, OSError, ValueError, EOFError, RecursionError, LookupError, TypeError, OverflowError)
    with suppress(*hostile):
        return _index_in(plain)
    return None


def _index_in(plain: bytes) -> Identity | None:
    """Find ``info/index.json`` in the start of a tar. Raises what tarfile raises at the end of the data."""
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as archive:
        for member in archive:
            if member.size < 0:  # an older tarfile reads the same header forever (CVE-2025-8194)
                return None
            if member.name == "info/index.json" and member.isreg() and member.size <= _LONGEST_INDEX:
                file = archive.extractfile(member)
                return None if file is None else _of_index(file.read())
    return None


def _of_index(data: bytes) -> Identity | None:
    index = json.loads(data)
    parts = [index["name"], index["version"], index["build"]]
    if not all(isinstance(part, str) and part for part in parts):
        return None
    filename = "-".join(parts) + ".tar.bz2"
    return None if unsafe_name(filename) else Identity(filename=filename)

"""Verification of a wheel by its own RECORD, which has the hash of every member.

The rules are those of the binary distribution format (packaging.python.org, PEP 427) and of RECORD ("Recording
installed projects", PEP 376): CSV rows of path, ``<algorithm>=<urlsafe base64 without padding>``, size; sha256 or
better; RECORD and its signatures have no hash. This proves that the file is complete and undamaged, not its origin. So
does the CRC-32 at the end of an sdist, which is gzip (RFC 1952, PEP 625).
"""

from __future__ import annotations

import base64
import csv
import gzip
import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO

from resume_dl.bounded_zip import open_member, open_zip, read_member
from resume_dl.errors import IntegrityError, Interrupted

_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_SIGNATURES = (".jws", ".p7s")
_ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})
_CHUNK = 1 << 20
_WORK_FACTOR, _WORK_MORE = 64, 1 << 30
"""Limit of unpacked bytes: a multiple of the archive's size, plus a constant."""
_LONGEST_RECORD = 32 << 20
_UNREADABLE = (zlib.error, struct.error, EOFError, ValueError, NotImplementedError, RuntimeError, OverflowError)
"""What zipfile and gzip raise for malformed files, besides their own exceptions."""


def check_archive(path: Path, name: str, *, cancelled: Callable[[], bool] = lambda: False) -> None:
    """Compare each member of a wheel with its RECORD, or a whole sdist with its checksum.

    ``name`` is the file's published name, ``path`` where it is now. Raises IntegrityError for a file that is damaged,
    has no RECORD or does not match it; Interrupted once ``cancelled`` returns true; OSError.
    """
    trouble = ""
    try:
        if name.endswith(".whl"):
            with path.open("rb") as file, open_zip(file) as archive:
                trouble = _trouble(archive, _work(path), cancelled)
        elif name.endswith(".tar.gz"):
            with gzip.open(path) as packed:
                _read(packed, lambda _: None, cancelled, _work(path))
        else:
            trouble = "it is neither a wheel nor a .tar.gz"
    except (zipfile.BadZipFile, gzip.BadGzipFile, *_UNREADABLE) as error:
        trouble = f"it is incomplete or not an archive ({error})"
    if trouble:
        raise IntegrityError(
            f"{name} cannot be trusted: {trouble}",
            hint="its index gives no hash to verify it with; if you know its sha256, add --hash=sha256:… in a "
            "requirements file",
        )


def _work(path: Path) -> int:
    """Return how many bytes the file may unpack to; no real archive is compressed that far."""
    return _WORK_FACTOR * path.stat().st_size + _WORK_MORE


def _trouble(archive: zipfile.ZipFile, work: int, cancelled: Callable[[], bool]) -> str:
    """Say what is wrong with the wheel; empty if nothing is."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if sum(member.file_size for member in members) > work:
        return f"it would unpack to more than {work} bytes"
    names = [member.filename for member in members]
    present = set(names)
    if len(present) != len(names):
        return "it has two members with the same name"
    records = [name for name in names if _RECORD.fullmatch(name)]
    if len(records) != 1:
        return "it has no RECORD" if not records else "it has more than one RECORD"
    record = records[0]
    listed = _listed(read_member(archive, archive.getinfo(record), _LONGEST_RECORD).decode())
    unhashed = {record, *(record + suffix for suffix in _SIGNATURES)}
    for name in listed:
        if name not in unhashed and name not in present:
            return f"its RECORD lists {name}, which is not in it"
    for member in members:
        if member.filename in unhashed:
            continue
        algorithm, _, wanted = listed.get(member.filename, "").partition("=")
        if algorithm not in _ALGORITHMS:
            return f"its RECORD gives no hash for {member.filename}"
        digest = _digest(archive, member, algorithm, cancelled)
        actual = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if wanted.rstrip("=") != actual and wanted.lower() != digest.hex():  # hex is not allowed, but exists
            return f"its RECORD gives {algorithm}={wanted} for {member.filename}, which has {algorithm}={actual}"
    return ""


def _listed(text: str) -> dict[str, str]:
    """Parse a RECORD to a map of paths to ``<algorithm>=<hash>``. Raises ValueError."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise ValueError(f"its RECORD: {error}") from error
    return {row[0]: row[1] if len(row) > 1 else "" for row in rows}


def _digest(archive: zipfile.ZipFile, member: zipfile.ZipInfo, algorithm: str, cancelled: Callable[[], bool]) -> bytes:
    digest = hashlib.new(algorithm)
    with open_member(archive, member) as stream:
        _read(stream, digest.update, cancelled)
    return digest.digest()


def _read(
    stream: IO[bytes] | gzip.GzipFile,
    take: Callable[[bytes], None],
    cancelled: Callable[[], bool],
    most: int | None = None,
) -> None:
    """Read all of ``stream``, which checks its own checksum. Raises ValueError for more than ``most`` bytes."""
    size = 0
    while chunk := stream.read(_CHUNK):
        take(chunk)
        size += len(chunk)
        if most is not None and size > most:
            raise ValueError(f"it unpacks to more than {most} bytes")
        if cancelled():
            raise Interrupted("stopped", hint="run the same command again: what is on disk is kept")

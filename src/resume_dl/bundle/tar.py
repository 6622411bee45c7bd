"""A reproducible tar of a bundle, written as a stream.

The headers are made here and not by ``tarfile``, whose bytes have differed between versions of Python. The format is
POSIX.1-2001's (pax): a ustar header, preceded by a record for values that do not fit (a name that is long or not
ASCII, a file of 8 GiB or more). GNU tar, bsdtar (macOS, Windows 10 and newer) and ``tarfile`` read it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.bundle.unfinished import Unfinished, check_room, writing
from resume_dl.errors import ConfigurationError, DigestMismatchError, Interrupted, SizeMismatchError, StoreError
from resume_dl.model.bundle import MANIFEST, SIGNATURE, SUMS

MTIME = 315532800
"""1980-01-01 in seconds since 1970: the earliest time that ZIP and FAT can store."""
_FIRST = (MANIFEST, SIGNATURE, SUMS)
_BLOCK = 512
_CHUNK = 1024 * 1024
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s6s2s32s32s8s8s155s12x")
_LONGEST_NAME = 100
_LARGEST = 8**11
"""The first number with more than eleven octal digits."""
_END = bytes(2 * _BLOCK)
_PAX_NAME = b"././@PaxHeader"
_AGAIN = "nothing was written; run bundle create again, which fetches damaged files again"

Cancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Member:
    """One file of the tar: its path in the tar (relative, with ``/``), its source, size and sha256."""

    path: str
    source: Path
    size: int
    sha256: str


def in_order(members: Iterable[Member]) -> list[Member]:
    """Sort as in a bundle's tar: manifest, signature and sums first, by which the rest is verified, then by path."""
    return sorted(
        members, key=lambda each: (_FIRST.index(each.path) if each.path in _FIRST else len(_FIRST), each.path)
    )


def bundle_members(folder: Path) -> list[Member]:
    """The files of a finished bundle in their order, as its SHA256SUMS lists them; verify the folder before.

    Raises StoreError.
    """
    sums = folder / SUMS
    text, size, digest = bytearray(), 0, hashlib.sha256()
    for chunk in read_chunks(sums):
        text += chunk
        size += len(chunk)
        digest.update(chunk)
    members = [Member(SUMS, sums, size, digest.hexdigest())]
    for line in text.decode().splitlines():
        sha256, _, path = line.partition("  ")
        source = folder / path
        members.append(Member(path, source, source.stat().st_size, sha256))
    return in_order(members)


def mtime_of(env: Mapping[str, str]) -> int:
    """The time that every file of a tar gets: SOURCE_DATE_EPOCH (reproducible-builds.org), else ``MTIME``.

    Raises ConfigurationError.
    """
    text = env.get("SOURCE_DATE_EPOCH", "")
    if not text:
        return MTIME
    if not (text.isascii() and text.isdigit() and int(text) < _LARGEST):
        raise ConfigurationError("SOURCE_DATE_EPOCH is not a number of seconds since 1970", hint="correct or unset it")
    return int(text)


def tar_size(members: Iterable[Member]) -> int:
    """The size of the tar in bytes; no file is read."""
    return sum(len(_headers(each, MTIME)) + each.size + _padding(each.size) for each in members) + len(_END)


def tar_blocks(
    members: Iterable[Member], *, mtime: int = MTIME, cancelled: Cancelled = lambda: False
) -> Iterator[bytes | memoryview]:
    """Yield the tar in pieces; use each before requesting the next.

    Each file is hashed while it is read. Raises DigestMismatchError or SizeMismatchError if it differs from the
    member, StoreError if it cannot be read, Interrupted once ``cancelled``.
    """
    for member in members:
        yield _headers(member, mtime)
        yield from _contents(member, cancelled)
        yield bytes(_padding(member.size))
    yield _END


def write_tar(
    members: Sequence[Member],
    path: Path,
    *,
    mtime: int = MTIME,
    progress: Callable[[int], object] = lambda _: None,
    cancelled: Cancelled = lambda: False,
) -> int:
    """Write the tar to ``path`` and return its bytes; a file of that name is replaced, at the end.

    ``progress`` gets the number of bytes of each piece. Raises as ``tar_blocks``, and OutOfSpaceError,
    NotWritableError or StoreError; ``path`` is then unchanged.
    """
    total = tar_size(members)
    with writing(path.parent):
        file = Unfinished(path)
        try:
            check_room(path.parent, total)
            for block in tar_blocks(members, mtime=mtime, cancelled=cancelled):
                file.write(block)
                progress(len(block))
            file.finish()
            file.publish()
        finally:
            file.discard()
    return total


def _contents(member: Member, cancelled: Cancelled) -> Iterator[memoryview]:
    digest, left = hashlib.sha256(), member.size
    for chunk in read_chunks(member.source):
        left -= len(chunk)
        if left < 0:
            break
        if cancelled():
            raise Interrupted("stopped", hint="run the same command again")
        digest.update(chunk)
        yield chunk
    if left:
        raise SizeMismatchError(
            f"{member.source} no longer has {member.size} bytes",
            expected=member.size,
            actual=member.source.stat().st_size,
            hint=_AGAIN,
        )
    if digest.hexdigest() != member.sha256:
        raise DigestMismatchError(
            f"{member.source} has changed since it was verified",
            expected=member.sha256,
            actual=digest.hexdigest(),
            hint=_AGAIN,
        )


def read_chunks(path: Path) -> Iterator[memoryview]:
    """Yield a file, a MiB at a time; use each piece before requesting the next. Raises StoreError."""
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(buffer):
                yield view[:count]
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from error


def _padding(size: int) -> int:
    return -size % _BLOCK


def _headers(member: Member, mtime: int) -> bytes:
    """The ustar header, preceded by a pax header if values do not fit."""
    name, size, records = member.path.encode(), member.size, b""
    if len(name) > _LONGEST_NAME or not name.isascii():
        records += _record("path", name)
        name = member.path.encode("ascii", "replace")[:_LONGEST_NAME]
    if size >= _LARGEST:
        records += _record("size", str(size).encode())
        size = 0
    header = _header(name, b"0", size, mtime)
    if not records:
        return header
    return _header(_PAX_NAME, b"x", len(records), mtime) + records + bytes(_padding(len(records))) + header


def _record(key: str, value: bytes) -> bytes:
    """``<length> <key>=<value>`` and a newline, the length counting its own digits too (POSIX.1-2001, pax)."""
    rest = b" " + key.encode() + b"=" + value + b"\n"
    length = len(rest)
    while length != len(rest) + len(str(length)):
        length = len(rest) + len(str(length))
    return str(length).encode() + rest


def _header(name: bytes, kind: bytes, size: int, mtime: int) -> bytes:
    """One ustar header: a plain file of mode 0644 without an owner."""
    number = b"%07o\0"

    def pack(checksum: bytes) -> bytes:
        return _HEADER.pack(
            name,
            number % 0o644,
            number % 0,
            number % 0,
            b"%011o\0" % size,
            b"%011o\0" % mtime,
            checksum,
            kind,
            b"",
            b"ustar\0",
            b"00",
            b"",
            b"",
            number % 0,
            number % 0,
            b"",
        )

    return pack(b"%06o\0 " % sum(pack(b" " * 8)))

"""Headers of a tar, parsed so that GNU tar, bsdtar and ``tarfile`` unpack exactly what is verified."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from resume_dl.offline_tools.console import shown

TAR_BLOCK = 512
_USTAR, _GNU = b"ustar\x0000", b"ustar  \0"
_OCTAL = re.compile(rb"([0-7]+)[ \0]+")
_BLANK = re.compile(rb"[ \0]*")
_UNREAD_FIELDS = ((100, 108), (108, 116), (116, 124), (136, 148), (329, 337), (337, 345))
"""Mode, owner, group, time and device numbers: unused here, but other programs fail if one is malformed."""
_PAX_RECORDS = re.compile(
    rb"path|size|[amc]time|[ug]id|[ug]name|comment|LIBARCHIVE\.(creationtime|xattr\..+)|RHT\.security\.selinux"
    rb"|SCHILY\.(dev|ino|nlink|fflags|(acl|xattr)\..+)"
)
"""pax keys that tar programs write for plain files. ``SCHILY.realsize``, for one, is a size only to bsdtar."""


class BrokenTarError(Exception):
    """A tar that cannot be read further; the message says why."""


def parse_header(header: bytes) -> tuple[str, int, bytes]:
    """Name, size and type. Raises BrokenTarError."""
    if sum(header) - sum(header[148:156]) + 8 * 32 != _number(header[148:156]):
        raise BrokenTarError("is damaged, or not a tar,")
    magic, kind = header[257:265], header[156:157]
    if magic not in (_USTAR, _GNU):
        raise BrokenTarError("is not a tar of a kind that bundles use,")
    if kind in _REFUSED_EXTENSIONS:
        raise BrokenTarError(f"has {_REFUSED_EXTENSIONS[kind]}, which no bundle's tar has,")
    for start, end in _UNREAD_FIELDS:
        field = header[start:end]
        if field[:1] not in (b"\x80", b"\xff") and not (_OCTAL.fullmatch(field) or _BLANK.fullmatch(field)):
            raise BrokenTarError("has a damaged header")
    # old GNU headers have times and sparse maps where POSIX has the prefix, and tarfile takes either for a prefix
    if any(header[345:] if magic == _GNU else header[500:]):
        raise BrokenTarError("has a header that programs read in different ways,")
    name, prefix = _field(header[:100]), _field(header[345:500])
    return _text(prefix + b"/" + name if prefix else name), _number(header[124:136]), kind


def _field(field: bytes) -> bytes:
    """A text up to its NUL, after which only NULs may follow. Raises BrokenTarError."""
    text, _, rest = field.partition(b"\0")
    if any(rest):
        raise BrokenTarError("has a damaged header")
    return text


def _number(field: bytes) -> int:
    """Octal digits and what ends them, nothing else: programs differ in signs, blanks before it, and base 256.

    A file of 8 GiB or more has its size in a pax record. Raises BrokenTarError.
    """
    found = _OCTAL.fullmatch(field)
    if found is None:
        raise BrokenTarError("has a damaged header")
    return int(found.group(1), 8)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


class Extension(NamedTuple):
    """Values of an extended header for the next member; None if absent."""

    name: str | None
    size: int | None


def _parse_long_name(content: bytes) -> Extension:
    """A GNU long name: the name and a NUL. Raises BrokenTarError."""
    return Extension(_text(_field(content)), None)


def _parse_pax(content: bytes) -> Extension:
    """Records ``<length> <key>=<value>`` and a newline, without duplicates. Raises BrokenTarError."""
    found: dict[bytes, bytes] = {}
    if b"hdrcharset=" in content:  # tarfile searches values for it too
        raise BrokenTarError("has names in another encoding than UTF-8,")
    while content:
        length = content.partition(b" ")[0]
        if not re.fullmatch(rb"[1-9][0-9]{0,5}", length) or not len(length) < int(length) <= len(content):
            raise BrokenTarError("has a damaged header")
        key, mark, value = content[len(length) + 1 : int(length) - 1].partition(b"=")
        if not mark or content[int(length) - 1 : int(length)] != b"\n":
            raise BrokenTarError("has a damaged header")
        if key.startswith(b"GNU.sparse"):
            raise BrokenTarError("holds a sparse file, which no bundle does,")
        if key in found or not _PAX_RECORDS.fullmatch(key):
            raise BrokenTarError(f"has a header that programs read in different ways ({shown(_text(key))}),")
        found[key] = value
        content = content[int(length) :]
    name, size = found.get(b"path"), found.get(b"size")
    if name == b"" or (name is not None and b"\0" in name):
        raise BrokenTarError("has a damaged header")
    if size is not None and not re.fullmatch(rb"0|[1-9][0-9]{0,17}", size):
        raise BrokenTarError("has a damaged header")
    return Extension(None if name is None else _text(name), None if size is None else int(size))


EXTENSIONS: dict[bytes, Callable[[bytes], Extension]] = {b"x": _parse_pax, b"L": _parse_long_name}
_REFUSED_EXTENSIONS = {b"g": "a global header", b"K": "a long link", b"X": "a header of Solaris's tar"}

"""A verified copy of an unpacked package in a cache that another user may own.

Its list, ``info/paths.json``, says what is copied, and its digests verify the copy; of ``info`` itself, which the list
leaves out, all regular files are copied. So the list is believed as far as the cache is: nothing in it may be writable
by every user. No link is followed while the original is read. Links are made last, so that nothing is written through
one, and all must stay inside the copy.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.caches.conda.content import altered_files
from resume_dl.caches.conda.lookup import is_whole
from resume_dl.caches.conda.record import PATHS, RECORD, read_info
from resume_dl.errors import IntegrityError, Interrupted

_INFO = "info"
_DIGEST = re.compile("[0-9a-fA-F]{64}")
_MOST_INFO = 256 << 20
"""Bytes of all files of ``info``; recipes and tests are in it."""
_DEEPEST = 100
"""Folders below ``info``; with deeper ones Python's walk ends in a RecursionError."""
_PIECE = 1 << 20
_READ = 0o444
_KINDS = frozenset({"hardlink", "softlink", "directory"})

_Parts = tuple[str, ...]


def is_unaltered(extracted: Path, cancelled: Callable[[], bool]) -> bool:
    """Whether an unpacked package has all its files, and each has its digest. Raises Interrupted and OSError."""
    wrong = next(altered_files(extracted, cancelled), None)
    if cancelled():
        raise _stopped()
    return wrong is None and is_whole(extracted)


def copy_package(source: Path, target: Path, cancelled: Callable[[], bool]) -> None:
    """Copy the unpacked package ``source`` to the new folder ``target`` without its record, and verify the copy.

    Raises IntegrityError for one that cannot be verified or is damaged, Interrupted, and OSError; the caller removes
    what is at ``target`` then.
    """
    rows = _rows(source)
    _check_modes(source, {_path(source, parts[:end]) for parts in rows for end in range(len(parts))})
    target.mkdir()
    links: list[_Parts] = []
    for parts, row in rows.items():
        if row["path_type"] == "softlink":
            links.append(parts)
        elif row["path_type"] == "directory":
            _path(target, parts).mkdir(parents=True, exist_ok=True)
        else:
            _copy_file(source, target, parts, row["size_in_bytes"], cancelled)
    left = _MOST_INFO
    for parts in _info_files(source):
        if cancelled():
            raise _stopped()
        if parts not in rows and Path(*parts) != RECORD:
            left -= _copy_info(source, target, parts, left)
    for parts in links:
        _path(target, parts[:-1]).mkdir(parents=True, exist_ok=True)
        _path(target, parts).symlink_to(_path(source, parts).readlink())
    base = target.resolve()
    if not all(Path(os.path.realpath(_path(target, parts))).is_relative_to(base) for parts in links):
        raise _refused(source, "a link in it leads out of it")
    if not is_unaltered(target, cancelled):
        raise _refused(source, "it is damaged")


def _rows(source: Path) -> dict[_Parts, Mapping[str, Any]]:
    """The rows of its list by path; each file must have a digest. Raises IntegrityError."""
    listing = read_info(source, PATHS)
    listed = listing.get("paths") if listing is not None else None
    if not isinstance(listed, list):
        raise _refused(source, "it has no list of its files")
    rows: dict[_Parts, Mapping[str, Any]] = {}
    for row in listed:
        kind = row.get("path_type") if isinstance(row, dict) else None
        name = row.get("_path") if isinstance(row, dict) else None
        if kind not in _KINDS or not isinstance(name, str) or not _is_inside(name):
            raise _refused(source, f"its list has a path {name!r}, which is not used")
        if kind == "hardlink" and not (
            _DIGEST.fullmatch(str(row.get("sha256"))) and type(row.get("size_in_bytes")) is int
        ):
            raise _refused(source, f"its list has no digest or no size of {name!r}")
        rows[tuple(name.split("/"))] = row
    links = {parts for parts, row in rows.items() if row["path_type"] == "softlink"}
    if any(parts[:end] in links for parts in rows for end in range(len(parts))):
        raise _refused(source, "its list has a path below a link")  # the link is made only after the modes were checked
    return rows


def _is_inside(name: str) -> bool:
    """Whether a path of a list stays in its folder, on this system."""
    odd = "\0\\:" if fs.WINDOWS else "\0"
    try:
        os.fsencode(name)
    except UnicodeEncodeError:  # half a character, which JSON can state
        return False
    return all(part not in {"", ".", ".."} for part in name.split("/")) and not any(each in name for each in odd)


def _check_modes(source: Path, folders: set[Path]) -> None:
    """Raise IntegrityError if every user can write to a folder, or to the note of the digest, or a folder is a link."""
    note = source.with_name(f"{source.name}.lock")
    for path in (source.parent, note, source / _INFO, *folders):
        found = path.stat() if path == source.parent else path.lstat()
        if path in folders and (fs.is_link(found) or not stat.S_ISDIR(found.st_mode)):
            raise _refused(source, f"{path} is not a folder")
        if not fs.WINDOWS and found.st_mode & stat.S_IWOTH:
            raise _refused(source, f"{path} can be written to by every user")


def _info_files(source: Path) -> Iterator[_Parts]:
    """The regular files of ``info``; their folders are not entered by links. Raises IntegrityError."""
    deepest = len(source.parts) + _DEEPEST
    for folder, _, names in os.walk(source / _INFO):
        if len(Path(folder).parts) > deepest:
            raise _refused(source, "the folders of its info are too deep")
        for name in names:
            path = Path(folder, name)
            if fs.is_regular(path):
                yield path.relative_to(source).parts


def _copy_info(source: Path, target: Path, parts: _Parts, most: int) -> int:
    """Copy one file of at most ``most`` bytes and return its bytes."""
    path, found = _path(target, parts), _path(source, parts).lstat()
    if not fs.WINDOWS and found.st_mode & stat.S_IWOTH:
        raise _refused(source, f"{'/'.join(parts)} can be written to by every user")
    path.parent.mkdir(parents=True, exist_ok=True)
    data = fs.read_below(source, *parts, limit=most)
    fs.write_file(path, data)
    return len(data)


def _copy_file(source: Path, target: Path, parts: _Parts, size: int, cancelled: Callable[[], bool]) -> None:
    """Copy one file of the list, with its permissions less the umask, and its time, by which Python knows bytecode.

    One of another size than the list's is not copied: it may be a sparse file that no disk holds.

    If its folder is replaced by a link meanwhile, the digest of the copy tells.
    """
    path = _path(target, parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = fs.open_regular(_path(source, parts))
    try:
        found = os.fstat(fd)
        if not fs.WINDOWS and found.st_mode & stat.S_IWOTH:
            raise _refused(source, f"{'/'.join(parts)} can be written to by every user")
        if found.st_size != size:
            raise _refused(source, f"{'/'.join(parts)} has not the size of its list")
        with os.fdopen(fs.create_file(path), "wb") as file:
            left = size  # no more, however fast it grows
            while left and (data := os.read(fd, min(left, _PIECE))):
                file.write(data)
                left -= len(data)
                if cancelled():
                    raise _stopped()
            usual = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        path.chmod((usual | (usual & _READ) >> 2) & found.st_mode)
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    finally:
        os.close(fd)


def _stopped() -> Interrupted:
    return Interrupted("stopped", hint="run the same command again: what is on disk is kept")


def size_of(source: Path) -> int:
    """The bytes that its list states; 0 if it states none."""
    listing = read_info(source, PATHS) or {}
    listed = listing.get("paths")
    sizes = [row.get("size_in_bytes") for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    return sum(size for size in sizes if isinstance(size, int) and size > 0)


def has_room(folder: Path, source: Path) -> bool:
    """Whether the disk of ``folder`` has room for the copy. Raises OSError."""
    return shutil.disk_usage(folder).free > size_of(source)


def _path(base: Path, parts: _Parts) -> Path:
    return base.joinpath(*parts)


def _refused(source: Path, why: str) -> IntegrityError:
    return IntegrityError(f"{source} is not used: {why}", hint="its archive is downloaded instead")

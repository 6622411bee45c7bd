"""The join of the parts of a file."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Callable, Iterator, Mapping, NamedTuple

from resume_dl import fs
from resume_dl.offline_tools.parts.find_parts import exists, find_list
from resume_dl.offline_tools.parts.joining_file import check_room, open_locked
from resume_dl.offline_tools.parts.parts_list import (
    DAMAGED,
    JOINING,
    LIST,
    MACHINE,
    MISSING,
    JoinError,
    Part,
    Parts,
    describe_error,
    read_list,
)

_CHUNK = 1024 * 1024


class Report(NamedTuple):
    """The result of ``join``: the path of the whole file, or the missing and damaged parts (name: why)."""

    path: Path
    whole: Parts
    joined: bool
    missing: tuple[str, ...] = ()
    damaged: Mapping[str, str] = MappingProxyType({})
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 joined, 1 parts missing, 4 parts damaged."""
        return 0 if self.joined else DAMAGED if self.damaged else MISSING


def join(
    what: Path,
    out: Path | None = None,
    *,
    remove_parts: bool = False,
    log: Callable[[str], object] = lambda _: None,
) -> Report:
    """Join the parts that ``what`` names into ``out`` (a file or a folder; else beside the list).

    ``log`` gets a line for each part. Raises JoinError for errors that concern no single part.
    """
    target = what
    try:
        path = find_list(what)
        whole = read_list(path)
        target = out or path.with_name(whole.name)
        if target.is_dir():
            target = target / whole.name
        report = _join(whole, path.parent, target, log)
    except OSError as error:
        raise _of_this_machine(error, target) from error
    if report.joined and remove_parts:
        return report._replace(warnings=_remove(whole, path.parent))
    return report


def _join(whole: Parts, folder: Path, target: Path, log: Callable[[str], object]) -> Report:
    if exists(target):
        if not _is_whole(whole, target):
            hint = "move it away, or choose another name with -o"
            raise JoinError(f"{target} exists already, and is another file", hint, MACHINE)
        return Report(target, whole, joined=True)
    joining = target.with_name(target.name + JOINING)
    begun = exists(joining)
    if not begun and not any(exists(folder / part.name) for part in whole.parts):
        return Report(target, whole, joined=False, missing=tuple(part.name for part in whole.parts))
    check_room(whole, joining)
    with open_locked(joining) as file:
        missing: list[str] = []
        damaged: dict[str, str] = {}
        for part in whole.parts:
            if begun and _digest(file, part.offset, part.size) == part.sha256:
                log(f"{part.name}  joined by an earlier run")
                continue
            why = _take(whole, part, folder / part.name, file)
            if why is None:
                missing.append(part.name)
            elif why:
                damaged[part.name] = why
            log(f"{part.name}  {'MISSING' if why is None else 'DAMAGED: ' + why if why else 'good'}")
        file.flush()
        os.fsync(file.fileno())
        if missing or damaged:
            return Report(target, whole, joined=False, missing=tuple(missing), damaged=damaged)
        file.truncate(whole.size)
        _compare_whole(whole, file, joining)
    if exists(target):
        raise JoinError(f"{target} was made meanwhile by another process", "look at it, and try again", MACHINE)
    fs.replace(joining, target)
    return Report(target, whole, joined=True)


def _take(whole: Parts, part: Part, path: Path, file: BinaryIO) -> str | None:
    """Copy a part to its place: "" if it is good, None if it is missing, else what is wrong with it.

    Bytes of a damaged part are never accepted: their digest is not the part's.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if not stat.S_ISREG(found.st_mode):
        return "it is not a file"
    if found.st_size != part.size:
        return f"it has {found.st_size:,} bytes instead of {part.size:,}"
    digest = hashlib.sha256()
    file.seek(part.offset)
    source = _read(path, part.size)
    while True:
        try:
            chunk = next(source, b"")
        except OSError as error:  # a bad sector
            return f"it cannot be read: {error.strerror}"
        if not chunk:
            break
        digest.update(chunk)
        file.write(chunk)
    if digest.hexdigest() == part.sha256:
        return ""
    other = [each.name for each in whole.parts if each.sha256 == digest.hexdigest()]
    if other:
        return f"it has the content of {other[0]}"
    return "its digest is wrong"


def _read(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while size:
            chunk = file.read(min(_CHUNK, size))
            if not chunk:
                return
            size -= len(chunk)
            yield chunk


def _digest(file: BinaryIO, offset: int, size: int) -> str:
    """The sha256 of ``size`` bytes from ``offset``, or of fewer at the file's end."""
    digest = hashlib.sha256()
    file.seek(offset)
    while size:
        chunk = file.read(min(_CHUNK, size))
        if not chunk:
            break
        digest.update(chunk)
        size -= len(chunk)
    return digest.hexdigest()


def _is_whole(whole: Parts, path: Path) -> bool:
    if not path.is_file() or path.stat().st_size != whole.size:
        return False
    with path.open("rb") as file:
        return _digest(file, 0, whole.size) == whole.sha256


def _compare_whole(whole: Parts, file: BinaryIO, joining: Path) -> None:
    if _digest(file, 0, whole.size) == whole.sha256:
        return
    for part in whole.parts:
        if _digest(file, part.offset, part.size) != part.sha256:
            raise JoinError(
                f"{joining} does not return the bytes written for {part.name}",
                "this disk cannot be trusted: choose a folder on another one with -o",
                MACHINE,
            )
    raise JoinError(
        f"{whole.name}{LIST} is wrong: every part has the digest it states, the whole file has not",
        "copy it again together with the parts, all from one source",
        DAMAGED,
    )


def _remove(whole: Parts, folder: Path) -> tuple[str, ...]:
    warnings = []
    for part in whole.parts:
        try:
            (folder / part.name).unlink()
        except FileNotFoundError:
            pass  # a part of an earlier run
        except OSError as error:
            warnings.append(f"{part.name} could not be removed: {error.strerror}")
    return tuple(warnings)


def _of_this_machine(error: OSError, target: Path) -> JoinError:
    if error.errno == errno.EFBIG:
        hint = "FAT32 takes less than 4 GiB a file: choose a folder on another disk with -o"
        return JoinError(f"the disk of {target} takes no file of this size", hint, MACHINE)
    return JoinError(
        describe_error(error.filename or target, error), "look at this folder, or choose another with -o", MACHINE
    )

"""Files that a browser or a download manager has left: which of a folder may be packages, finished or not.

Only regular files are opened, and no link is followed: a folder for downloads may hold anything, and it may be shared.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.archive_identity import looks_like_package
from resume_dl.errors import ConfigurationError, ResumeDLError, StoreError
from resume_dl.model.download_name import NOTES, DownloadName, is_note, read_name

_BUNDLE = ".download"
"""Safari's unfinished download is a folder of this ending."""


@dataclass(frozen=True, slots=True)
class Download:
    """One file that may be a package, or may become one."""

    path: Path
    name: DownloadName
    is_unfinished: bool
    """Whether its name, or a note beside it, says that its program has not finished it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A named file that cannot be adopted."""

    path: Path
    error: ResumeDLError


def find_downloads(paths: Iterable[Path]) -> Iterator[Download | Refused]:
    """Return the files among ``paths``, and those in the folders among them that may be packages, in order of name.

    Folders below a folder are left out, except Safari's. Each file is returned once.
    """
    seen: set[Path] = set()
    for path in paths:
        for each in _of(path.absolute()):
            if each.path not in seen:
                seen.add(each.path)
                yield each


def _of(path: Path) -> Iterator[Download | Refused]:
    try:
        found = path.lstat()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        yield Refused(path, StoreError(f"{path} cannot be read: {why}", hint="check its name and its permissions"))
        return
    if fs.is_link(found):
        hint = "name the file that it leads to"
        yield Refused(path, ConfigurationError(f"{path} is a link, which is not followed", hint=hint))
    elif stat.S_ISDIR(found.st_mode):
        yield from _in_folder(path, is_unfinished=path.name.lower().endswith(_BUNDLE))
    elif not stat.S_ISREG(found.st_mode):
        hint = "name a file, or a folder of files"
        yield Refused(path, ConfigurationError(f"{path} is not a regular file", hint=hint))
    else:
        yield _download(path, _names(path.parent))


def _in_folder(folder: Path, *, is_unfinished: bool) -> Iterator[Download | Refused]:
    try:
        names = fs.names_in(folder)
    except OSError as error:
        why = f"{folder} cannot be read: {error.strerror or error}"
        yield Refused(folder, StoreError(why, hint="check its permissions"))
        return
    beside = frozenset(names)
    for name in sorted(names):
        path = folder / name
        if is_note(name):
            continue
        if name.lower().endswith(_BUNDLE) and _is_folder(path):
            yield from _in_folder(path, is_unfinished=True)
        elif fs.is_regular(path):
            download = _download(path, beside, is_unfinished=is_unfinished)
            if _is_named_package(download) or looks_like_package(path):
                yield download


def _is_named_package(download: Download) -> bool:
    """Whether its name is that of a package; a finished ``.tar.bz2`` may be anything."""
    names = download.name.names
    return any(download.is_unfinished or not name.endswith(".tar.bz2") for name in names)


def _download(path: Path, beside: frozenset[str], *, is_unfinished: bool = False) -> Download:
    name = read_name(path.name)
    plain = path.name.removesuffix(".td").removesuffix(".xltd")
    has_note = any(f"{each}{note}" in beside for each in {path.name, plain} for note in NOTES)
    return Download(path, name, is_unfinished or has_note or name.is_unfinished)


def _names(folder: Path) -> frozenset[str]:
    try:
        return frozenset(fs.names_in(folder))
    except OSError:  # a folder that may be entered and not listed
        return frozenset()


def _is_folder(path: Path) -> bool:
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and not fs.is_link(found)

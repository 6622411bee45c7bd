"""The source of a bundle's files: a folder, or anything that opens them by path."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, NamedTuple

from resume_dl import fs
from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.file_pieces import blocks, native, piece
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import (
    COPY_AGAIN,
    LEFT_BY_SYSTEM,
    MANIFEST,
    REMAKE,
    REMOVE_IT,
    SUMS,
    UNFINISHED,
)
from resume_dl.offline_tools.verification.readers import LEFTOVER_FOLDERS


class Expected(NamedTuple):
    """A required file; ``size`` is None if only SHA256SUMS could be read."""

    path: str
    size: int | None
    sha256: str
    url: str


class Source:
    """The source of a bundle's files: a folder or a tar."""

    def __init__(self) -> None:
        self.entries: dict[str, int] = {}
        """Size of each plain file, by path."""
        self.odd: set[str] = set()
        """Paths already reported as refused, and so not as missing."""
        self.unfinished = False
        self.folders: set[str] = set()
        """Paths of a tar's folders."""
        self.unpacked_by_others = False
        """Whether other programs may unpack unlisted files too: a tar."""
        self.cut = ""
        """Whether a tar ends in an unreadable part; files in it are not reported as missing."""

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading, seekable. Raises OSError."""
        raise NotImplementedError

    def same(self, there: str, wanted: str) -> bool:
        """Whether the file found as ``there`` opens as ``wanted`` (a case-insensitive disk)."""
        del there, wanted
        return False


def read_whole(source: Source, path: str, longest: int, report: Report) -> bytes | None:
    """Read a small file; None, and a problem reported, if it is missing, empty or too large."""
    size = source.entries.get(path)
    if size is None:
        if path not in source.odd and not source.cut:
            report.add(path, "missing", "is missing", COPY_AGAIN)
    elif size == 0:
        report.add(path, "truncated", "is empty", COPY_AGAIN)
    elif size > longest:
        report.add(path, "unsafe", f"is larger than any bundle's, {show_bytes(size)}", REMAKE)
    else:
        try:
            with source.open(path) as file:
                return b"".join(bytes(block) for block in blocks(file))
        except OSError as error:
            report.add_unreadable(path, error)
    return None


class FolderSource(Source):
    """A bundle's folder. Links, junctions and devices in it are reported and never followed."""

    def __init__(self, folder: Path, report: Report) -> None:
        super().__init__()
        self._root = native(folder)
        waiting = [""]
        while waiting:
            below = waiting.pop()
            try:
                names = sorted(fs.names_in(self._path(below)))
            except OSError as error:
                report.add_unreadable(below or str(folder), error)
                self.odd.add(below)
                continue
            if not below and MANIFEST not in names and SUMS not in names:
                # this is not a bundle's folder: do not list everything in it
                names = [name for name in names if name == UNFINISHED]
            for name in names:
                path = f"{below}/{name}" if below else name
                try:
                    found = os.lstat(self._path(path))
                except OSError as error:
                    report.add_unreadable(path, error)
                    self.odd.add(path)
                    continue
                kind = odd_kind(found)
                if kind:
                    self.odd.add(path)
                    report.add(path, "unsafe", f"is {kind}; a bundle holds plain files", REMOVE_IT)
                elif not stat.S_ISDIR(found.st_mode):
                    self.entries[path] = found.st_size
                elif path == UNFINISHED:
                    self.unfinished = True
                elif LEFTOVER_FOLDERS.fullmatch(name.casefold()):
                    # not read: often accessible only to the system
                    report.warn(path, LEFT_BY_SYSTEM)
                else:
                    waiting.append(path)

    def _path(self, path: str) -> Path:
        return self._root / path

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading to its actual end. Raises OSError."""
        file = self._path(path).open("rb", buffering=0)
        # to its actual end: a file that has grown is damaged
        return piece(file, 0, os.fstat(file.fileno()).st_size, own=True)

    def same(self, there: str, wanted: str) -> bool:
        """Whether the disk opens one file by both names."""
        try:
            return os.path.samestat(os.lstat(self._path(there)), os.lstat(self._path(wanted)))
        except OSError:
            return False


_NAME_SURROGATE = 0x20000000
"""The name-surrogate bit of a reparse tag (ntifs.h, IsReparseTagNameSurrogate)."""


def odd_kind(found: os.stat_result) -> str:
    """The kind of a file that is neither plain nor a folder; else empty."""
    if stat.S_ISLNK(found.st_mode):
        return "a symbolic link"
    if getattr(found, "st_reparse_tag", 0) & _NAME_SURROGATE:
        return "a junction"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return "a device, pipe or socket"
    return ""

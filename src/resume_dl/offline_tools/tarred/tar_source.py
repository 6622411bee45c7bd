"""A bundle in an uncompressed tar."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, Iterator

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.file_pieces import blocks, piece
from resume_dl.offline_tools.tarred.header import EXTENSIONS, TAR_BLOCK, BrokenTarError, Extension, parse_header
from resume_dl.offline_tools.verification.bundle_source import Source
from resume_dl.offline_tools.verification.file_names import folded, unsafe_path
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import REMAKE, UNFINISHED

_LONGEST_EXTENSION = 1 << 16
_MOST_MEMBERS = 1 << 20
"""Twice the number of files in the longest manifest."""
_TAR_KINDS = {
    b"1": "a hard link",
    b"2": "a symbolic link",
    b"3": "a device",
    b"4": "a device",
    b"6": "a pipe",
    b"S": "a sparse file",
}
_WITHOUT_BYTES = (b"1", b"2", b"3", b"4", b"5", b"6")


class TarSource(Source):
    """A bundle in an uncompressed tar: plain files, and folders that other programs add.

    Headers are read first, files when needed. Bytes that belong to no file must be zero.
    """

    def __init__(self, path: Path, file: BinaryIO, report: Report) -> None:
        super().__init__()
        self.unpacked_by_others = True
        self._file = file
        self._starts: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._end = os.fstat(file.fileno()).st_size
        last = ""
        try:
            for name, size, start, kind in self._members():
                last = name
                self._enter(name, size, start, kind, report)
        except BrokenTarError as broken:
            self.cut = str(broken)
            after = f" after {shown(last)}" if last else ""
            hint = "copy the whole tar again, then verify it again: the rest could not be read"
            what = "truncated" if "ends" in self.cut else "damaged"
            report.add(path.name, what, f"{self.cut}{after}", hint)

    def open(self, path: str) -> BinaryIO:
        """Open a file inside the tar."""
        return piece(self._file, self._starts[path], self.entries[path])

    def _enter(self, name: str, size: int, start: int, kind: bytes, report: Report) -> None:
        path = name[2:] if name.startswith("./") else name
        if kind == b"5":
            if name in (".", "./"):
                return
            path = path.rstrip("/")
        complaint = unsafe_path(path)
        if complaint:
            self.odd.add(path)
            report.add(path, "unsafe", complaint, REMAKE)
        elif kind == b"5":
            self.unfinished = self.unfinished or path == UNFINISHED
            self.folders.add(path)
        elif kind not in (b"0", b"\0"):
            self.odd.add(path)
            odd = _TAR_KINDS.get(kind, "of an unknown kind")
            report.add(path, "unsafe", f"is {odd}; a bundle holds plain files", REMAKE)
        elif path.startswith(UNFINISHED + "/"):
            self.unfinished = True
        elif folded(path) in self._keys:
            other = self._keys[folded(path)]
            report.add(path, "unsafe", f"is in the tar twice, also as {shown(other)}", REMAKE)
        else:
            self._keys[folded(path)] = path
            self.entries[path] = size
            self._starts[path] = start

    def _members(self) -> Iterator[tuple[str, int, int, bytes]]:
        """Yield name, size, offset of the bytes and type of each member. Raises BrokenTarError."""
        at = count = 0
        extension: Extension | None = None
        while True:
            header = self._take(at, TAR_BLOCK)
            at += TAR_BLOCK
            if header == bytes(TAR_BLOCK):
                if extension is not None:
                    raise BrokenTarError("has a name without a file")
                self._check_end(at)
                return
            name, size, kind = parse_header(header)
            if kind in EXTENSIONS:
                if extension is not None:
                    raise BrokenTarError("has two extended headers for one file,")
                if size > _LONGEST_EXTENSION:
                    raise BrokenTarError(f"has a name of {show_bytes(size)}")
                extension = EXTENSIONS[kind](self._take(at, size))
                at = self._skip_padding(at, size)
                continue
            if extension is not None:
                name = name if extension.name is None else extension.name
                size = size if extension.size is None else extension.size
                extension = None
            held = 0 if kind in _WITHOUT_BYTES else size
            if held > self._end - at:
                raise BrokenTarError(f"ends in the middle of {shown(name)}")
            count += 1
            if count > _MOST_MEMBERS:
                raise BrokenTarError(f"has more than {_MOST_MEMBERS:,} members")
            yield name, size, at, kind
            at = self._skip_padding(at, held)

    def _take(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        found = self._file.read(size)
        if len(found) != size:
            raise BrokenTarError("ends too early")
        return found

    def _skip_padding(self, at: int, size: int) -> int:
        """The offset of the next header."""
        padding = -size % TAR_BLOCK
        if any(self._take(at + size, padding)):
            raise BrokenTarError("is damaged between its files")
        return at + size + padding

    def _check_end(self, at: int) -> None:
        """After the first block of zeros comes a second, and nothing else (pax(1), "ustar Interchange Format")."""
        self._take(at, TAR_BLOCK)
        self._file.seek(at)
        if any(any(block) for block in blocks(self._file)):
            raise BrokenTarError("has data after its end")

"""Comparison of files with their expected size and digest."""

from __future__ import annotations

import hashlib
import time
from typing import BinaryIO

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import Log, shown
from resume_dl.offline_tools.file_pieces import blocks
from resume_dl.offline_tools.verification.bundle_source import Expected, Source
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import COPY_AGAIN, SIGNATURE, SUMS
from resume_dl.offline_tools.verification.sums_list import is_damaged_copy

_SECONDS_BETWEEN_LINES = 5.0


class Judge:
    """Compares files with the expected ones. A file with another's size and digest counts as swapped."""

    def __init__(self, expected: list[Expected], source: Source, report: Report, log: Log | None) -> None:
        self._sizes = {each.size for each in expected}
        self._owner = {each.sha256: each.path for each in expected}
        self._report = report
        sizes = {each.path: source.entries[each.path] for each in expected if each.path in source.entries}
        self._progress = _Progress(sizes, log)

    def is_right(self, each: Expected, file: BinaryIO, size: int) -> bool:
        """Whether the bytes are right; a problem is reported. Raises OSError."""
        right_size = each.size is None or each.size == size
        digest = ""
        # a wrong size is conclusive: hash only if another file has that size
        if right_size or size in self._sizes:
            digest = self.hash(file, each.path)
        if right_size and digest == each.sha256:
            self.passed(each, size)
            return True
        self._progress.file(each.path)
        if each.path == SIGNATURE and is_damaged_copy(digest, each.sha256):
            self._report.add(SUMS, "damaged", f"its line for {SIGNATURE} is damaged", COPY_AGAIN)
            return False
        what, text = self._what_is_wrong(each, size, digest)
        hint = COPY_AGAIN
        if each.url:
            hint += f", or fetch it again: resume-dl get {each.url} --sha256 {each.sha256}"
        self._report.add(each.path, what, text, hint)
        return False

    def passed(self, each: Expected, size: int) -> None:
        """Record a verified file."""
        self._report.verified.add(each.path)
        self._report.bytes += size
        self._progress.file(each.path)

    def hash(self, file: BinaryIO, path: str) -> str:
        """The SHA-256 of the rest of the file at ``path``. Raises OSError."""
        digest = hashlib.sha256()
        self._progress.start(path)
        for block in blocks(file):
            digest.update(block)
            self._progress.bytes(len(block))
        return digest.hexdigest()

    def _what_is_wrong(self, each: Expected, size: int, digest: str) -> tuple[str, str]:
        owner = self._owner.get(digest, "")
        if owner and owner != each.path:
            return "swapped", f"has the content of {shown(owner)}"
        if size == 0:
            return "truncated", "is empty"
        if each.size is None or size == each.size:
            return "damaged", "has the wrong digest"
        if size < each.size:
            return "truncated", f"has {size:,} of {each.size:,} bytes"
        return "damaged", f"has {size:,} bytes instead of {each.size:,}"


class _Progress:
    """A progress line every few seconds.

    A file counts once, with its size in the total: it may be read twice, be in no total, or grow meanwhile.
    """

    def __init__(self, sizes: dict[str, int], log: Log | None) -> None:
        self._log = log
        self._last = time.monotonic()
        self._left = dict(sizes)
        self._all_files = len(sizes)
        self._all_bytes = sum(sizes.values())
        self._files = self._bytes = 0
        self._read = self._size = 0

    def start(self, path: str) -> None:
        """Begin to read a file."""
        self._read, self._size = 0, self._left.get(path, 0)

    def file(self, path: str) -> None:
        """Count a file."""
        if path in self._left:
            self._files += 1
            self._bytes += self._left.pop(path)
        self._read = self._size = 0

    def bytes(self, count: int) -> None:
        """Count bytes read of the file that was begun."""
        self._read += count
        now = time.monotonic()
        if self._log is not None and now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            read, size = show_bytes(self._bytes + min(self._read, self._size)), show_bytes(self._all_bytes)
            self._log(f"verified {read} of {size}, {self._files:,} of {self._all_files:,} files")

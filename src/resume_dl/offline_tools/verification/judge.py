"""Hold files against what they should be."""

from __future__ import annotations

import hashlib
import time
from typing import BinaryIO

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import Told, shown
from resume_dl.offline_tools.file_pieces import blocks
from resume_dl.offline_tools.verification.bundle_source import Expected, Source
from resume_dl.offline_tools.verification.findings import Report
from resume_dl.offline_tools.verification.layout import COPY_AGAIN, SIGNATURE, SUMS
from resume_dl.offline_tools.verification.sums_list import is_damaged_copy

_SECONDS_BETWEEN_LINES = 5.0


class Judge:
    """Holds files against what they should be. A file with another's size and digest was swapped with it."""

    def __init__(self, expected: list[Expected], source: Source, report: Report, told: Told | None) -> None:
        self._sizes = {each.size for each in expected}
        self._owner = {each.sha256: each.path for each in expected}
        self._report = report
        self._progress = _Progress(
            [source.entries[each.path] for each in expected if each.path in source.entries], told
        )

    def is_right(self, each: Expected, file: BinaryIO, size: int) -> bool:
        """Whether the bytes are right; what is wrong is reported. Raises OSError."""
        right_size = each.size is None or each.size == size
        digest = ""
        # another size is wrong already, and worth reading only where it may be another file's
        if right_size or size in self._sizes:
            digest = self.hash(file)
        if right_size and digest == each.sha256:
            self.passed(each, size)
            return True
        self._progress.file()
        if each.path == SIGNATURE and is_damaged_copy(digest, each.sha256):
            self._report.add(SUMS, "damaged", f"its line for {SIGNATURE} is not what it was made as", COPY_AGAIN)
            return False
        what, text = self._what_is_wrong(each, size, digest)
        hint = COPY_AGAIN
        if each.url:
            hint += f", or fetch it again: resume-dl get {each.url} --sha256 {each.sha256}"
        self._report.add(each.path, what, text, hint)
        return False

    def passed(self, each: Expected, size: int) -> None:
        """Enter a file that is right."""
        self._report.verified.add(each.path)
        self._report.bytes += size
        self._progress.file()

    def hash(self, file: BinaryIO) -> str:
        """The SHA-256 of what is left of it. Raises OSError."""
        digest = hashlib.sha256()
        for block in blocks(file):
            digest.update(block)
            self._progress.bytes(len(block))
        return digest.hexdigest()

    def _what_is_wrong(self, each: Expected, size: int, digest: str) -> tuple[str, str]:
        owner = self._owner.get(digest, "")
        if owner and owner != each.path:
            return "swapped", f"holds what belongs to {shown(owner)}"
        if size == 0:
            return "truncated", "is empty"
        if each.size is None or size == each.size:
            return "damaged", "its bytes are not those that the bundle was made with"
        if size < each.size:
            return "truncated", f"has {size:,} of {each.size:,} bytes"
        return "damaged", f"has {size:,} bytes instead of {each.size:,}"


class _Progress:
    """A line every few seconds."""

    def __init__(self, sizes: list[int], told: Told | None) -> None:
        self._told = told
        self._last = time.monotonic()
        self._all_files = len(sizes)
        self._all_bytes = sum(sizes)
        self._files = self._bytes = 0

    def file(self) -> None:
        """One more was looked at."""
        self._files += 1

    def bytes(self, count: int) -> None:
        """So many more were read."""
        self._bytes += count
        now = time.monotonic()
        if self._told is not None and now - self._last >= _SECONDS_BETWEEN_LINES:
            self._last = now
            read, size = show_bytes(self._bytes), show_bytes(self._all_bytes)
            self._told(f"verified {read} of {size}, {self._files:,} of {self._all_files:,} files")

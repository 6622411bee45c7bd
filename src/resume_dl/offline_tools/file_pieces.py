"""Blocks of a file, and a piece of a file as a file of its own."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, Iterator

from resume_dl import fs
from resume_dl.byte_units import show_bytes

_BLOCK = 1 << 20
_LONGEST_DIRECTORY = 64 << 20
"""Bytes of the longest archive directory read at once: half a million members."""


def piece(file: BinaryIO, start: int, size: int, *, own: bool = False) -> BinaryIO:
    """Present a piece of a file as a file; closing it closes the underlying file only if ``own``."""
    return _Window(file, start, size, own=own)  # type: ignore[return-value]  # RawIOBase reads as BinaryIO does


class _Window(io.RawIOBase):
    """The file returned by ``piece``."""

    def __init__(self, file: BinaryIO, start: int, size: int, *, own: bool) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        self._own = own
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        base = (0, self._at, self._size)[whence]
        if base + offset < 0:
            raise OSError("before the start of the file")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        self._file.seek(self._start + self._at)
        count = self._file.readinto(view[: max(0, min(len(view), self._size - self._at))])  # type: ignore[attr-defined]  # BinaryIO does not say so
        self._at += count
        return int(count)

    def read(self, size: int = -1) -> bytes:
        """Read as from any file; refuses sizes that only a hostile archive needs."""
        left = max(0, self._size - self._at)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted > _LONGEST_DIRECTORY:
            raise zipfile.BadZipFile(f"needs {show_bytes(wanted)} at once")
        return super().read(wanted) or b""

    def close(self) -> None:
        if self._own and not self.closed:
            self._file.close()
        super().close()


class LastRead(_Window):
    """A window that remembers the last bytes read."""

    last = b""

    def read(self, size: int = -1) -> bytes:
        """Read as ``_Window`` does."""
        self.last = super().read(size)
        return self.last


def blocks(file: BinaryIO) -> Iterator[memoryview]:
    """Yield the file in blocks; each is overwritten by the next."""
    buffer = memoryview(bytearray(_BLOCK))
    while True:
        count = file.readinto(buffer)  # type: ignore[attr-defined]  # BinaryIO does not say so
        if not count:
            return
        yield buffer[:count]


def native(path: Path) -> Path:
    """The path in the form that Windows accepts beyond 260 characters; unchanged elsewhere."""
    whole = str(fs.absolute(str(path)))
    if os.name == "nt" and not whole.startswith("\\\\?\\"):
        whole = "\\\\?\\UNC" + whole[1:] if whole.startswith("\\\\") else "\\\\?\\" + whole
    return Path(whole)

"""A disk that loses power: real files, and beside them what of their writes is sure to have reached the disk.

    with Disk(folder, random) as disk:
        disk.fail_after(17)          # the 17th write, truncation or sync from now on raises PowerCut instead
        ...                          # the store at work in ``folder``
    disk.cut()                       # ``folder`` now holds what the disk has: everything before each file's last sync,
                                     # and of the later writes some, in part, or none, in any order

It stands in for ``os`` calls of the store only; a rename counts as on the disk at once. ``crash.disk`` forgets names
too, and has fewer moments.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import final

from resume_dl.store import platform

_CALLS = ("open", "pwrite", "write", "ftruncate", "fdatasync")


class PowerCut(BaseException):
    """The power is gone: nothing may catch this and go on."""


@final
class Disk:
    def __init__(self, folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._real = {name: getattr(os, name) for name in _CALLS}
        self._real_replace = platform.replace
        self._fds: dict[int, Path] = {}
        self._sure: dict[Path, bytes] = {path: path.read_bytes() for path in self._mine()}
        self._later: dict[Path, list[tuple[int, bytes | None]]] = {}
        self._left = -1
        self.after_sync: Callable[[], object] = lambda: None
        """What other threads do before the sync of a part file returns."""

    def _mine(self) -> list[Path]:
        return [path for path in self._folder.iterdir() if path.suffix in {".part", ".journal"}]

    def fail_after(self, calls: int) -> None:
        self._left = calls

    def _tick(self) -> None:
        if self._left == 0:
            raise PowerCut
        self._left -= 1

    # --- the calls ---------------------------------------------------------------------------------------------------

    def _open(self, path: os.PathLike[str] | str, *args: int, **kwargs: object) -> int:
        fd: int = self._real["open"](path, *args, **kwargs)
        self._fds.pop(fd, None)
        if Path(path).suffix in {".part", ".journal"}:
            self._fds[fd] = Path(path)
            self._sure.setdefault(Path(path), b"")
        return fd

    def _note(self, fd: int, offset: int, data: bytes | None) -> None:
        if fd in self._fds:
            self._tick()
            self._later.setdefault(self._fds[fd], []).append((offset, data))

    def _pwrite(self, fd: int, data: memoryview, offset: int) -> int:
        self._note(fd, offset, bytes(data))
        return int(self._real["pwrite"](fd, data, offset))

    def _write(self, fd: int, data: bytes) -> int:
        if fd in self._fds:
            self._note(fd, os.fstat(fd).st_size, bytes(data))
        return int(self._real["write"](fd, data))

    def _ftruncate(self, fd: int, length: int) -> None:
        self._note(fd, length, None)
        self._real["ftruncate"](fd, length)

    def _fdatasync(self, fd: int) -> None:
        path = self._fds.get(fd)
        if path is not None:
            self._tick()
            self._later.pop(path, None)
            self._sure[path] = path.read_bytes()
            if path.suffix == ".part":
                self.after_sync()
        # the real sync would only cost time

    def _replace(self, source: Path, destination: Path) -> None:
        self._tick()
        self._real_replace(source, destination)
        if destination.suffix == ".journal":
            self._later.pop(destination, None)
            self._sure[destination] = destination.read_bytes()

    def __enter__(self) -> Disk:
        for name in _CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        platform.replace = self._replace
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, call in self._real.items():
            setattr(os, name, call)
        platform.replace = self._real_replace

    # --- the end -----------------------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Leave in the folder what the disk has."""
        for path, sure in self._sure.items():
            content = bytearray(sure)
            keep = self._chance.choice([0.0, 0.2, 0.5, 0.9, 1.0])
            for offset, data in self._later.get(path, []):
                if self._chance.random() >= keep:
                    if data and self._chance.random() < 0.3:  # the length reached the disk, the bytes did not
                        content.extend(bytes(max(0, offset + len(data) - len(content))))
                    continue
                if data is None:
                    content = content[:offset].ljust(offset, b"\0")
                    continue
                piece = (
                    data[: self._chance.randrange(1, len(data) + 1)]
                    if self._chance.random() < 0.3 * (keep < 1)
                    else data
                )
                content.extend(bytes(max(0, offset + len(piece) - len(content))))
                content[offset : offset + len(piece)] = piece
            path.write_bytes(content)

"""The power goes at any moment of a whole run: everything since the last sync is lost, and that is all."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import sys
import threading
from pathlib import Path
from typing import final

import pytest

from engine.running import KIB, MIB, NAME, Place, artifact
from faults.behaviours import Drop, Rate
from resume_dl.store import platform
from resume_dl.store.part import PartStore

SIZE = 12 * MIB
DATA = b"PK\x03\x04" + random.Random(11).randbytes(SIZE - 4)
SYNC_BYTES = 2 * MIB
CALLS = ("open", "pwrite", "write", "ftruncate", "fdatasync")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="stands in for the calls that Linux has")


@final
class Image:
    """What the disk is sure to have of a folder's part files and journals, while the real ones go on.

    A write counts once it was over before a sync of its file began. After every ``step`` bytes of data a copy of the
    image is kept: what a power cut at that moment would have left, in the worst case.
    """

    def __init__(self, folder: Path, image: Path, step: int) -> None:
        self.folder, self.image, self.step = folder, image, step
        self.cuts: list[tuple[int, Path]] = []
        """How many bytes had been written by then, and the folder that the cut left."""
        self.written = 0
        self._real = {name: getattr(os, name) for name in CALLS}
        self._replace = platform.replace
        self._lock = threading.RLock()
        self._fds: dict[int, Path] = {}
        self._pending: dict[Path, list[tuple[int, bytes | None]]] = {}
        image.mkdir()

    def __enter__(self) -> Image:
        for name in CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        platform.replace = self._renamed
        return self

    def __exit__(self, *_: object) -> None:
        for name, call in self._real.items():
            setattr(os, name, call)
        platform.replace = self._replace

    def _open(self, path, *args, **kwargs):
        fd = self._real["open"](path, *args, **kwargs)
        with self._lock:
            self._fds.pop(fd, None)
            if isinstance(path, str | os.PathLike) and Path(path).suffix in {".part", ".journal"}:
                self._fds[fd] = Path(path)
        return fd

    def _note(self, fd, offset, data):
        with self._lock:
            path = self._fds.get(fd)
            if path is None:
                return
            self._pending.setdefault(path, []).append((offset, data))
            if path.suffix == ".part" and data is not None:
                self.written += len(data)
                if self.written >= (len(self.cuts) + 1) * self.step:
                    cut = self.image.with_name(f"cut-{len(self.cuts)}")
                    shutil.copytree(self.image, cut)
                    self.cuts.append((self.written, cut))

    def _pwrite(self, fd, data, offset):
        count = self._real["pwrite"](fd, data, offset)
        self._note(fd, offset, bytes(data[:count]))
        return count

    def _write(self, fd, data):
        offset = os.fstat(fd).st_size if fd in self._fds else 0
        count = self._real["write"](fd, data)
        self._note(fd, offset, bytes(data[:count]))
        return count

    def _ftruncate(self, fd, length):
        self._real["ftruncate"](fd, length)
        self._note(fd, length, None)

    def _fdatasync(self, fd):
        with self._lock:
            path = self._fds.get(fd)
            before = self._pending.pop(path, []) if path else []
        if path is None:
            self._real["fdatasync"](fd)
        else:  # the image alone is what lasts: how busy the real disk is does not matter
            with (
                self._lock,
                (self.image / path.name).open("r+b" if (self.image / path.name).exists() else "w+b") as file,
            ):
                for offset, data in before:
                    if data is None:
                        file.truncate(offset)
                    else:
                        file.seek(offset)
                        file.write(data)

    def _renamed(self, source, destination):
        self._replace(source, destination)
        if destination.suffix != ".journal":
            return
        with self._lock:
            self._pending.pop(destination, None)
            shutil.copy(destination, self.image / destination.name)


@pytest.mark.parametrize("due", [{"sync_bytes": SYNC_BYTES, "sync_seconds": 60.0}, {"sync_seconds": 0.2}])
def test_a_cut_costs_what_came_since_the_last_sync(fault_server, tmp_path, due):
    """After every half MiB of a run with broken lines: what is left of it is right, and short of little.

    The bound is what the policy says, once more for what comes while a sync is under way, and what each connection has
    not recorded yet.
    """
    server = fault_server(ports=3)
    server.put(f"/{NAME}", DATA)
    server.always(None, Rate(1.5 * MIB))
    server.always(1, Rate(1.5 * MIB), Drop(after=700 * KIB))
    what = artifact(*(server.base(i) for i in range(3)), data=DATA)
    place = Place(tmp_path)
    (tmp_path / ".resume-dl").mkdir()
    policy = {"stall_seconds": 5.0, "first_byte_seconds": 5.0, "sync_bytes": SIZE, **due}
    with Image(tmp_path / ".resume-dl", tmp_path / "image", 512 * KIB) as disk:
        (outcome,) = place.run(what, **policy)
    assert (outcome.status, place.content()) == ("downloaded", DATA)
    assert len(disk.cuts) >= SIZE // (512 * KIB)
    for written, folder in disk.cuts:
        part = PartStore(folder).open(what, journaled=True)
        ranges = part.resume().ranges
        on_disk = part.path.read_bytes()
        assert all(on_disk[start:end] == DATA[start:end] for start, end in ranges)
        assert written - sum(end - start for start, end in ranges) <= 2 * SYNC_BYTES + 6 * 128 * KIB
        part.close()


def test_the_image_has_only_what_was_synced(tmp_path):
    """Otherwise the test above would prove nothing: without a sync nothing is left."""
    folder = tmp_path / "parts"
    folder.mkdir()
    what = artifact("http://127.0.0.1:1", data=DATA)
    with Image(folder, tmp_path / "image", SIZE // 4) as disk:
        part = PartStore(folder).open(what, journaled=True)
        part.resume()
        part.write(0, DATA[: SIZE // 2])
        part.record_written(0, SIZE // 2, 0, "one")
        mark = part.sync_data()
        part.write(SIZE // 2, DATA[SIZE // 2 :])
        part.record_durable(mark)
        part.close()
    (_, first), (_, second) = disk.cuts
    assert not any(path.suffix == ".part" and path.stat().st_size for path in first.iterdir())
    (image,) = (path for path in second.iterdir() if path.suffix == ".part")
    content = image.read_bytes()
    assert hashlib.sha256(content[: SIZE // 2]).digest() == hashlib.sha256(DATA[: SIZE // 2]).digest()
    assert not any(content[SIZE // 2 :])

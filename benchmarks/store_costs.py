"""What the store itself costs: hashing behind a download, the start with a large part file, small files.

    python benchmarks/store_costs.py [rounds]

All in one process on the disk of the current folder, medians of ``rounds`` (5). Hashing is shown beside bare hashlib,
small files beside the system calls that nothing can spare (write, sync, rename, sync of the folder).
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store import journal as jn
from resume_dl.store.part import PartStore

MB = 1_000_000
HASHED = 512 << 20
RECORD = 128 << 10
LARGE_RECORDS = 40_000
SMALL_FILES = 300
THREADS = 4

File = tuple[Artifact, bytes]


def artifact(name: str, size: int, sha256: str = "0" * 64) -> Artifact:
    return Artifact(
        kind="conda", filename=name, url=RedactedUrl(f"https://example.org/{name}"), size=size, sha256=sha256
    )


def seconds(work: Callable[..., object], *arguments: object) -> float:
    begun = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - begun


def lay(folder: Path, what: Artifact, records: Sequence[jn.Written]) -> None:
    """A journal that calls all these records durable, beside a part file of the artifact's size."""
    data = [jn.encode_header(1), jn.encode_source(1, 0, "one"), jn.encode_size(1, what.size or 0)]
    data += [jn.encode_written(1, each) for each in records]
    data.append(jn.encode_durable(1, sum(map(len, data))))
    (folder / f"{what.key}.journal").write_bytes(b"".join(data))
    part = folder / f"{what.key}.part"
    if not part.exists():
        part.touch()
        os.truncate(part, what.size or 0)


def hashing(folder: Path, rounds: int) -> None:
    block = random.Random(1).randbytes(1 << 20)
    what = artifact("hashed.conda", HASHED)
    with (folder / f"{what.key}.part").open("wb") as file:
        for _ in range(HASHED >> 20):
            file.write(block)
    lay(
        folder,
        what,
        [
            jn.Written(at, at + RECORD, 0, zlib.crc32(block[at % (1 << 20) :][:RECORD]))
            for at in range(0, HASHED, RECORD)
        ],
    )
    bare, fresh, checked = [], [], []

    def alone() -> None:
        hasher = hashlib.sha256()
        for _ in range(HASHED >> 20):
            hasher.update(block)

    for _ in range(rounds):
        bare.append(HASHED / MB / seconds(alone))
        part = PartStore(folder).open(what, journaled=True)
        part.resume()
        checked.append(HASHED / MB / seconds(part.advance_digest, HASHED))
        part._digest = part._new_digest()  # as if all bytes were of this run
        fresh.append(HASHED / MB / seconds(part.advance_digest, HASHED))
        part.close()
    print(
        f"hashing, MB/s: bare hashlib {statistics.median(bare):.0f}, "
        f"this run's bytes {statistics.median(fresh):.0f}, an earlier run's {statistics.median(checked):.0f}"
    )
    PartStore(folder).remove(what.key)


def start(folder: Path, rounds: int) -> None:
    size = LARGE_RECORDS * RECORD
    what = artifact("large.conda", size)
    lay(folder, what, [jn.Written(at, at + RECORD, 0, 7) for at in range(0, size, RECORD)])
    taken = []
    for _ in range(rounds):
        begun = time.perf_counter()
        part = PartStore(folder).open(what, journaled=True)
        part.resume()
        taken.append(time.perf_counter() - begun)
        part.close()
    print(f"start with {size / MB:.0f} MB and {LARGE_RECORDS} records: {statistics.median(taken) * 1000:.0f} ms")
    PartStore(folder).remove(what.key)


def small(folder: Path, rounds: int) -> None:
    chance = random.Random(2)
    blobs = [chance.randbytes(chance.randrange(20_000, 200_000)) for _ in range(SMALL_FILES)]
    files = [
        (artifact(f"{number}.conda", len(blob), hashlib.sha256(blob).hexdigest()), blob)
        for number, blob in enumerate(blobs)
    ]
    store = PartStore(folder / "parts")

    def ours(file: File) -> None:
        what, blob = file
        part = store.open(what, journaled=False)
        part.resume()
        for at in range(0, len(blob), 1 << 16):
            part.write(at, memoryview(blob)[at : at + (1 << 16)])
        part.advance_digest(len(blob))
        if part.digest()["sha256"] != what.sha256:
            raise AssertionError
        part.publish(folder / what.filename)

    def least(file: File) -> None:
        what, blob = file
        path = folder / f"{what.filename}.tmp"
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        os.pwrite(fd, blob, 0)
        os.fdatasync(fd)
        os.close(fd)
        path.replace(folder / what.filename)
        fd = os.open(folder, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)

    def each_of(files: Sequence[File], work: Callable[[File], None], pool: ThreadPoolExecutor) -> None:
        list(pool.map(work, files))

    for name, work in (("the store", ours), ("write, sync, rename, sync", least)):
        wall, cpu = [], []
        for _ in range(rounds):
            cpu_begun = time.process_time()
            with ThreadPoolExecutor(THREADS) as pool:
                wall.append(seconds(each_of, files, work, pool))
            cpu.append(time.process_time() - cpu_begun)
            for what, _ in files:
                (folder / what.filename).unlink()
        each = 1000 / SMALL_FILES
        print(
            f"{SMALL_FILES} files of 20 to 200 KB, {THREADS} threads, {name}: {statistics.median(wall) * each:.2f} ms "
            f"a file, CPU {statistics.median(cpu) * each:.2f} ms"
        )


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        for measure in (start, hashing, small):
            folder = Path(name) / measure.__name__
            folder.mkdir()
            measure(folder, rounds)
    print(f"RSS at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MB")


if __name__ == "__main__":
    main()

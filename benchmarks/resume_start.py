"""How soon the first new byte comes where 5 GB lie in a part file, and how long hashing what was there takes beside it.

    python benchmarks/resume_start.py [--rounds N]

A sparse part file with its journal, made by the project's own store as a run would leave it: a record for each 128 KiB,
from three sources in turn, durable to the last 16 MiB, which are only written, two holes and the end missing (108 MB).
From the start of the process to the first body byte that a source sends; then on to the end, which must be verified.
Bound: 0.5 s.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path

from kit.line import Line
from kit.runs import (
    MB,
    MIB,
    Bounds,
    Machine,
    arguments,
    conclude,
    get,
    machine,
    median,
    remove,
    say_where,
    sha256_of,
    spread,
)

from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER, PartStore

SIZE = 5000 * MB
RECORD = 128 * 1024
LEASE = 16 * MIB
"""So many bytes in a row came from one source."""
HOLES = ((4800 * MIB // 2, 4 * MIB), (4600 * MIB, 4 * MIB))
MISSING_END = 100 * MB
NOT_DURABLE = 16 * MIB
RATE = 20 * MB
BOUND = 0.5


def leave(folder: Path, digest: str) -> int:
    """Make what an interrupted run leaves; returns the bytes that it has."""
    url = RedactedUrl("http://bench.invalid/file.bin")
    artifact = Artifact(kind="file", filename="file.bin", url=url, sha256=digest, name="file.bin", sources=())
    part = PartStore(folder).open(artifact, journaled=True)
    part.resume()
    part.fix_size(SIZE)
    starts = [
        start
        for start in range(0, SIZE - MISSING_END - RECORD, RECORD)
        if not any(hole - RECORD < start < hole + length for hole, length in HOLES)
    ]
    crc = zlib.crc32(bytes(RECORD))
    for number, start in enumerate(starts):
        if start >= starts[-1] - NOT_DURABLE and starts[number - 1] < starts[-1] - NOT_DURABLE:
            part.record_durable(part.sync_data())
        part.record_written(start, start + RECORD, crc, f"mirror{start // LEASE % 3}")
    part.close()
    return len(starts) * RECORD


def once(here: Machine, line: Line, digest: str) -> tuple[float, float, float]:
    """Seconds to the first new byte, and to the end; how much more than the missing bytes was sent."""
    place = here.place()
    there = leave(place / FOLDER, digest)
    line.forget()
    run = here.run(get(line.urls("file.bin"), digest), place)
    first = min(each.first_byte_at for each in line.asked if each.first_byte_at is not None)
    if (place / "file.bin").stat().st_size != SIZE:
        raise SystemExit("the file is not whole")
    remove(place)
    return first - run.started, run.wall, line.sent / (SIZE - there)


def main() -> int:
    asked = arguments(__doc__).parse_args()
    bounds = Bounds()
    say_where(
        f"resume_start: {SIZE / MB:g} MB, all but {(MISSING_END + sum(n for _, n in HOLES)) / MB:.0f} MB of it there"
    )
    with machine() as here:
        root = here.folder / "root"
        root.mkdir()
        with (root / "file.bin").open("wb") as file:
            file.truncate(SIZE)
        digest = sha256_of(root / "file.bin")
        with Line(root, [RATE, RATE, RATE]) as line:
            rows = [once(here, line, digest) for _ in range(asked.rounds)]
    first, walls, sent = zip(*rows, strict=True)
    print(
        f"  to the first new byte {spread(first, 3)} s, to the end {spread(walls)} s, "
        f"sent {spread(sent, 3)} x what was missing"
    )
    bounds.check("start to first new byte", median(first), BOUND, " s")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

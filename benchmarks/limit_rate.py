"""--limit-rate 5M over three files, each from two hosts of its own: within 5 % of it.

    python benchmarks/limit_rate.py [--rounds N]

The hosts have no limits. Two figures, each from the servers' first request on: over the whole run (file bytes until the
process has ended), and over the middle (what the client had on disk at a third and at two thirds of the time), where a
burst at the start shows as a whole that is above the middle. Bound: both within 5 % of 5 MB/s.
"""

from __future__ import annotations

import sys
import time
from contextlib import suppress
from pathlib import Path

from kit.line import Line
from kit.runs import (
    MB,
    Bounds,
    Machine,
    arguments,
    conclude,
    machine,
    make_file,
    median,
    remove,
    resume_dl,
    say_where,
    spread,
)

SIZES = (30 * MB, 20 * MB, 10 * MB)
LIMIT = 5 * MB
TOLERANCE = 0.05
CHANNEL = "bench"


def once(here: Machine, line: Line, options: list[str]) -> tuple[float, float]:
    """Bytes a second over the whole run and in its middle."""
    place = here.place()
    line.forget()
    started = here.start(resume_dl("fetch", *options, "--dest", place / "files", "--limit-rate", "5M"), place)
    samples: list[tuple[float, int]] = []
    while started.running(0.02):
        samples.append((time.monotonic(), on_disk(place / "files")))
    run = started.wait()
    if run.code != 0:
        raise SystemExit(run.err + run.out)
    first = min(each.at for each in line.asked)
    ended = run.started + run.wall
    third = (ended - first) / 3
    a = next(each for each in samples if each[0] >= first + third)
    b = next(each for each in samples if each[0] >= first + 2 * third)
    remove(place)
    return sum(SIZES) / (ended - first), (b[1] - a[1]) / (b[0] - a[0])


def on_disk(folder: Path) -> int:
    """Bytes of the files and part files; blocks, because part files have holes."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.is_file() and path.suffix not in {".journal", ".lock"}:
                total += path.stat().st_blocks * 512
    return total


def main() -> int:
    asked = arguments(__doc__, rounds=3).parse_args()
    bounds = Bounds()
    say_where(f"limit_rate: {LIMIT / MB:g} MB/s over {len(SIZES)} files from two hosts")
    with machine() as here:
        root = here.folder / "root"
        lines = ["@EXPLICIT"]
        with Line(root, [None, None]) as line:
            for number, size in enumerate(SIZES):
                path = root / "noarch" / f"file{number}-1-0.conda"
                digest = make_file(path, size, seed=number, magic=b"PK\x03\x04")
                lines.append(f"http://{CHANNEL}.invalid/noarch/{path.name}#sha256:{digest}")
            (here.folder / "list.txt").write_text("\n".join(lines) + "\n")
            mirrors = here.mirrors({f"m{i}": line.base(i) for i in range(2)}, f"http://{CHANNEL}.invalid")
            options = ["--file", str(here.folder / "list.txt"), "--no-deps", "--mirrors", str(mirrors), "--no-upstream"]
            options += ["--json", "--progress", "none"]
            rows = [once(here, line, options) for _ in range(asked.rounds)]
    whole, middle = zip(*[(a / LIMIT, b / LIMIT) for a, b in rows], strict=True)
    print(f"  speed / limit: whole run {spread(whole, 3)}, in the middle {spread(middle, 3)}")
    bounds.check("whole run: how far from the limit", abs(median(whole) - 1), TOLERANCE)
    bounds.check("middle: how far from the limit", abs(median(middle) - 1), TOLERANCE)
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

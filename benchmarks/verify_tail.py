"""From the last byte of 1 GiB to 'verified': hashing goes on beside the download.

    python benchmarks/verify_tail.py [--rounds N]

Two hosts in one nginx, two connections each at 64 MiB/s, so that it takes some seconds. The last byte is when nginx
ended its last answer; *verified* is when the core heard that the digest is right (from --debug-trace), *published* when
the file got its name (its inode's change time). Publishing syncs what the disk has not taken yet, and so depends on the
disk; with RESUME_DL_BENCH_DIR on a memory disk that costs nothing. Bound: 150 ms until verified.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from kit.nginx import NginxMirrors, nginx_hosts
from kit.runs import (
    MIB,
    Bounds,
    Machine,
    arguments,
    conclude,
    get,
    machine,
    make_zeros,
    median,
    remove,
    say_where,
    spread,
)

SIZE = 1024 * MIB
HOSTS = 2
RATE = 64 * MIB
BOUND_MS = 150.0


def once(here: Machine, nginx: NginxMirrors, urls: list[str], digest: str) -> tuple[float, float, float]:
    """Milliseconds from the last byte to the right digest and to the file's name, and seconds in all."""
    place = here.place()
    nginx.reset_log()
    run = here.run(get(urls, digest, "--debug-trace", "trace.jsonl"), place)
    published = (place / "file.bin").stat().st_ctime
    last = max(request.ended for request in nginx.requests())
    verified = checked_at(place / "trace.jsonl")
    remove(place)
    return (verified - last) * 1000, (published - last) * 1000, run.wall


def checked_at(trace: Path) -> float:
    """When the core heard that the digest is right, as ``time.time()`` says it (docs/trace.md)."""
    with trace.open(encoding="ascii") as lines:
        started = datetime.fromisoformat(json.loads(next(lines))["started"]).timestamp()
        checks = [json.loads(line) for line in lines if '"digest_checked"' in line]
    return started + float(next(each["t"] for each in checks if each["matches"]))


def main() -> int:
    asked = arguments(__doc__).parse_args()
    bounds = Bounds()
    say_where(f"verify_tail: {SIZE // MIB} MiB, {HOSTS} hosts x 2 connections x {RATE // MIB} MiB/s")
    with machine() as here:
        digest = make_zeros(here.folder / "root" / "file.bin", SIZE)
        with nginx_hosts(here, HOSTS, rate=RATE) as (nginx, urls):
            rows = [once(here, nginx, urls, digest) for _ in range(asked.rounds)]
    verified, published, walls = zip(*rows, strict=True)
    print(
        f"  wall {spread(walls)} s; from the last byte to verified {spread(verified, 0)} ms, "
        f"to published {spread(published, 0)} ms"
    )
    bounds.check("last byte to verified", median(verified), BOUND_MS, " ms")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

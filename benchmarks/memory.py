"""How much memory the transferring process takes: 2 GB over 16 connections.

    python benchmarks/memory.py [--rounds N]

Four hosts in one nginx, four connections each at 20 MB/s, a sparse file. The kernel's own high-water mark of the
process that transfers (VmHWM, read every 10 ms until it is gone; its children are not in it). Bound: 120 MB.
"""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from pathlib import Path

from kit.nginx import nginx_hosts
from kit.runs import (
    MB,
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

SIZE = 2000 * MB
HOSTS, PER_HOST = 4, 4
RATE = 20 * MB
BOUND = 120.0
_HIGH_WATER = re.compile(r"VmHWM:\s+(\d+) kB")


def once(here: Machine, urls: list[str], digest: str) -> tuple[float, float, int]:
    """Most memory in MB, seconds, and most sockets at one moment."""
    place = here.place()
    started = here.start(get(urls, digest, "--connections", str(HOSTS * PER_HOST), "--per-host", str(PER_HOST)), place)
    proc = Path(f"/proc/{started.process.pid}")
    most, connections = 0, 0
    while started.running(0.01):
        with suppress(OSError):
            if found := _HIGH_WATER.search((proc / "status").read_text()):
                most = max(most, int(found[1]))
            links = {fd.readlink().name for fd in (proc / "fd").iterdir()}  # two handles of one socket are one
            connections = max(connections, sum(link.startswith("socket") for link in links))
    run = started.wait()
    if run.code != 0:
        raise SystemExit(run.err + run.out)
    remove(place)
    return most * 1024 / MB, run.wall, connections


def main() -> int:
    asked = arguments(__doc__).parse_args()
    bounds = Bounds()
    say_where(f"memory: {SIZE / MB:g} MB over {HOSTS * PER_HOST} connections")
    with machine() as here:
        digest = make_zeros(here.folder / "root" / "file.bin", SIZE)
        with nginx_hosts(here, HOSTS, rate=RATE) as (_, urls):
            rows = [once(here, urls, digest) for _ in range(asked.rounds)]
    most, walls, connections = zip(*rows, strict=True)
    print(f"  most memory {spread(most, 1)} MB, wall {spread(walls)} s, most sockets at once {median(connections):g}")
    bounds.check("most memory", median(most), BOUND, " MB")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

"""A file without a digest, as an index is, from a server that limits each connection: over two of them, and over one.

    python benchmarks/bench_index_split.py [--rounds N]

20 MB from one nginx at 2 MB/s a connection, by ``get`` without a digest, with ``--per-host 2`` and ``--per-host 1``.
Bounds: 0.7 of the time, and 1.05 times the bytes.
"""

from __future__ import annotations

import json
import sys

from kit.nginx import nginx_hosts
from kit.runs import MB, Bounds, Machine, arguments, conclude, machine, make_file, median, remove, resume_dl, say_where

SIZE = 20 * MB
RATE = 2 * MB
TIME, BYTES = 0.7, 1.05


def once(here: Machine, url: str, per_host: int) -> tuple[float, int]:
    """Seconds, and body bytes that came."""
    place = here.place()
    options = ("-o", "file.bin", "--json", "--progress", "none", "--per-host", str(per_host))
    run = here.run(resume_dl("get", url, *options), place)
    totals = json.loads(run.out)["totals"]
    remove(place)
    return run.wall, totals["downloaded"] + totals["wasted"]


def main() -> int:
    asked = arguments(__doc__).parse_args()
    bounds = Bounds()
    say_where(f"one source, {RATE / MB:g} MB/s a connection, {SIZE / MB:g} MB without a digest")
    with machine() as here:
        make_file(here.folder / "root" / "file.bin", SIZE)
        with nginx_hosts(here, rate=RATE) as (_, urls):
            rows = [(once(here, urls[0], 2), once(here, urls[0], 1)) for _ in range(asked.rounds)]
    for (wall, came), (alone, _) in rows:
        print(f"    over two {wall:.2f} s, {came / MB:.2f} MB; over one {alone:.2f} s", flush=True)
    bounds.check("time over two, of that over one", median([two[0] / one[0] for two, one in rows]), TIME)
    bounds.check("bytes, of the file's", median([two[1] / SIZE for two, _ in rows]), BYTES)
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

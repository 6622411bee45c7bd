"""How much memory and time a whole channel index takes, in all processes of a run.

    python benchmarks/bench_index_memory.py [--records N] [--rounds N]

One channel of ``--records`` records (600,000 by default: three times the largest that there is), three quarters of them
in linux-64, as repodata.json.zst from nginx on this machine; ``fetch --dry-run`` of a package with some dependencies.
Memory is the proportional set size (PSS) of the process and its children together, read every 20 ms: pages of the index
that two mappings share count once. Bound: 400 MB for 600,000 records.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import sys
from contextlib import suppress
from pathlib import Path

import zstandard
from kit.nginx import nginx_hosts
from kit.runs import MB, Bounds, Machine, arguments, conclude, machine, median, remove, resume_dl, say_where, spread

RECORDS = 600_000
A_NAME = 30
"""Records of one package: versions and builds."""
CLUSTER = 120
"""A package needs others of so many neighbours."""
BOUND = 400.0
_PSS = re.compile(r"^Pss:\s+(\d+) kB", re.MULTILINE)


def write_index(folder: Path, subdir: str, first: int, count: int) -> None:
    """A repodata.json.zst of ``count`` records, in which a package depends on up to three of its neighbours."""
    chance = random.Random(subdir)
    (folder / subdir).mkdir(parents=True)
    compressor = zstandard.ZstdCompressor(level=3)
    with (folder / subdir / "repodata.json.zst").open("wb") as file, compressor.stream_writer(file) as out:
        out.write(f'{{"info":{{"subdir":"{subdir}"}},"packages":{{}},"packages.conda":{{'.encode())
        for number in range(count):
            package, build = divmod(number, A_NAME)
            mine = first + package
            name, low = f"pkg{mine:06}", mine - mine % CLUSTER
            depends = [f"pkg{chance.randint(low, mine - 1):06} >=1" for _ in range(3)] if mine > low else []
            hashed = hashlib.sha256(f"{subdir}{number}".encode()).hexdigest()
            record = {
                "build": f"h{hashed[:7]}_{build % 3}",
                "build_number": build % 3,
                "depends": sorted({*depends}),
                "license": "BSD-3-Clause",
                "license_family": "BSD",
                "md5": hashed[:32],
                "name": name,
                "sha256": hashed,
                "size": 1_000_000 + number,
                "subdir": subdir,
                "timestamp": 1_600_000_000_000 + number * 1000,
                "version": f"1.{build}.0",
            }
            filename = f"{name}-1.{build}.0-{record['build']}.conda"
            comma = "," if number else ""
            out.write(f"{comma}{json.dumps(filename)}:{json.dumps(record, separators=(',', ':'))}".encode())
        out.write(b'},"removed":[],"repodata_version":1}')


def tree(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for each in found:
        with suppress(OSError):
            for task in Path(f"/proc/{each}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    return found


def pss(pid: int) -> int:
    """Bytes."""
    with suppress(OSError):
        if matched := _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text()):
            return int(matched[1]) * 1024
    return 0


def once(here: Machine, base: str, spec: str) -> tuple[float, float]:
    """Most memory in MB, and seconds."""
    place = here.place()
    remove(here.folder / "cache")
    options = ("--override-channels", "--platform", "linux-64", "--dry-run", "--progress", "none", "--json")
    started = here.start(resume_dl("fetch", spec, "-c", base, *options, "--pkgs-dir", place / "pkgs"), place)
    most = 0
    while started.running(0.02):
        most = max(most, sum(map(pss, tree(started.process.pid))))
    run = started.wait()
    if run.code != 0:
        raise SystemExit(run.err + run.out)
    print(f"    {len(json.loads(run.out)['artifacts'])} packages, {most / MB:.0f} MB, {run.wall:.1f} s", flush=True)
    remove(place)
    return most / MB, run.wall


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--records", type=int, default=RECORDS)
    asked = parser.parse_args()
    bounds = Bounds()
    say_where(f"memory of a whole index: {asked.records} records")
    with machine() as here:
        channel = here.folder / "root" / "c"
        noarch = asked.records // 4
        write_index(channel, "noarch", 0, noarch)
        write_index(channel, "linux-64", noarch // A_NAME, asked.records - noarch)
        sizes = [(channel / subdir / "repodata.json.zst").stat().st_size / MB for subdir in ("linux-64", "noarch")]
        print(f"  {sizes[0]:.1f} and {sizes[1]:.1f} MB packed", flush=True)
        with nginx_hosts(here) as (nginx, _):
            last = asked.records // A_NAME // CLUSTER * CLUSTER - 1
            rows = [once(here, f"{nginx.base(0)}/c", f"pkg{last:06}") for _ in range(asked.rounds)]
    most, walls = zip(*rows, strict=True)
    print(f"  most memory {spread(most, 1)} MB, wall {spread(walls)} s")
    bounds.check("most memory of all processes", median(most), BOUND, " MB")
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

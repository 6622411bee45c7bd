"""300 packages of 20 to 200 KB with 50 ms of latency a request, beside 8 perfect keep-alive connections.

    python benchmarks/small_files.py [--rounds N] [--explicit]

The fault server (tests/faults) serves a channel; ``resume-dl fetch --no-deps`` is given the 300 names, so that sizes
and digests come from repodata, as they do for users; with --explicit it is given an @EXPLICIT list (digests, no sizes).
Cases: four hosts with 2 connections each (the defaults), and one host with ``--per-host 8``. The reference is
kit/reference.py, a process of its own in the same round. Ours is the time from the plan to the last file that is
verified and in its place; start-up and resolution, the rest of the process, are said apart. Bound: 1.3 x the reference,
by the median of the rounds' ratios.
"""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from kit.runs import Bounds, Machine, arguments, conclude, machine, median, remove, resume_dl, say_where, spread

from faults.behaviours import Latency
from faults.server import FaultServer

COUNT = 300
SMALLEST, LARGEST = 20_000, 200_000
LATENCY = 0.05
CONNECTIONS = 8
BOUND = 1.3
ORIGIN = "http://bench.invalid/channel"
OVER = {"downloaded", "resumed", "cached", "failed"}
REFERENCE = Path(__file__).parent / "kit" / "reference.py"


@dataclass(frozen=True)
class Channel:
    """What is served: each file's content by its name."""

    files: dict[str, bytes]

    @classmethod
    def made(cls) -> Channel:
        chance = random.Random(1)
        names = [f"p{number:03}-1-0.conda" for number in range(COUNT)]
        return cls({name: b"PK\x03\x04" + chance.randbytes(chance.randrange(SMALLEST, LARGEST) - 4) for name in names})

    def repodata(self) -> bytes:
        """The channel's index."""
        packages = {
            name: {
                "name": name.partition("-")[0],
                "version": "1",
                "build": "0",
                "build_number": 0,
                "depends": [],
                "subdir": "noarch",
                "noarch": "generic",
                "size": len(content),
                "sha256": hashlib.sha256(content).hexdigest(),
                "md5": hashlib.md5(content).hexdigest(),
            }
            for name, content in self.files.items()
        }
        return json.dumps({"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": packages}).encode()

    def explicit(self) -> str:
        """The same as a list."""
        lines = [f"{ORIGIN}/noarch/{name}#{hashlib.md5(content).hexdigest()}" for name, content in self.files.items()]
        return "\n".join(["@EXPLICIT", *lines]) + "\n"

    def serve(self, server: FaultServer) -> None:
        """At every port."""
        for name, content in self.files.items():
            server.put(f"/channel/noarch/{name}", content)
        server.put("/channel/noarch/repodata.json", self.repodata())
        empty = {"info": {"subdir": "linux-64"}, "packages": {}, "packages.conda": {}}
        server.put("/channel/linux-64/repodata.json", json.dumps(empty).encode())
        server.always(None, Latency(LATENCY))


def reference(server: FaultServer, ports: int, channel: Channel) -> float:
    """Seconds of 8 perfect connections."""
    asked = {
        "hosts": [f"127.0.0.1:{server.port(i)}" for i in range(ports)],
        "paths": [f"/channel/noarch/{name}" for name in channel.files],
    }
    command = [sys.executable, str(REFERENCE), str(CONNECTIONS)]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if found["bytes"] != sum(map(len, channel.files.values())):
        raise SystemExit("the reference did not get everything")
    return float(found["seconds"])


def ours(here: Machine, options: list[str], channel: Channel) -> tuple[float, float, float]:
    """Seconds from the plan to the last file, of the whole process, and its CPU seconds."""
    place = here.place()
    remove(here.folder / "cache")
    run = here.run(resume_dl("fetch", *options, "--dest", place / "files", "--json", "--progress", "json"), place)
    for name, content in channel.files.items():
        if (place / "files" / name).read_bytes() != content:
            raise SystemExit(f"{name} is wrong")
    remove(place)
    events = run.events()
    planned = next(each["elapsed"] for each in events if each["event"] == "plan")
    ends = [each["elapsed"] for each in events if each["event"] == "progress" and each["state"] in OVER]
    return max(ends) - planned, run.wall, run.cpu


def measure(
    here: Machine, title: str, ports: int, more: list[str], *, rounds: int, bounds: Bounds, explicit: bool
) -> None:
    """One case."""
    channel = Channel.made()
    server = FaultServer(ports, send_buffer=None)
    server.start()
    try:
        channel.serve(server)
        mirrors = here.mirrors({f"m{i}": f"{server.base(i)}/channel" for i in range(ports)}, ORIGIN)
        options = [*more, "--no-deps", "--mirrors", str(mirrors), "--no-upstream", "--platform", "linux-64"]
        if explicit:
            (here.folder / "list.txt").write_text(channel.explicit())
            options += ["--file", str(here.folder / "list.txt")]
        else:
            options += ["--index-from", "m0", "-c", ORIGIN, "--override-channels"]
            options += [name.partition("-")[0] for name in channel.files]
        rows = []
        for _ in range(rounds):
            least = reference(server, ports, channel)
            before = len(server.requests(path="*.conda"))
            fetching, wall, cpu = ours(here, options, channel)
            asked = len(server.requests(path="*.conda")) - before
            rows.append((fetching, least, wall - fetching, fetching / least, asked, cpu))
        used = len({each.connection for each in server.requests(path="*.conda")}) / rounds
    finally:
        server.stop()
    fetching, least, rest, ratio, requests, cpu = map(list, zip(*rows, strict=True))
    print(
        f"  {title}: ours {spread(fetching)} s, reference {spread(least)} s ({COUNT / CONNECTIONS * LATENCY:.2f} s is "
        f"latency), start-up, resolution and end {spread(rest)} s, CPU in all {median(cpu):.2f} s"
    )
    print(
        f"  {title}: requests a run {median(requests):.0f}, TCP connections a round {used:.0f}, "
        f"of them {CONNECTIONS} the reference's"
    )
    bounds.check(f"{title}: fetching / reference", median(ratio), BOUND)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--explicit", action="store_true", help="from an @EXPLICIT list, which tells no sizes")
    asked = parser.parse_args()
    bounds = Bounds()
    say_where(
        f"small_files: {COUNT} files of {SMALLEST // 1000} to {LARGEST // 1000} KB, {LATENCY * 1000:.0f} ms a request"
    )
    with machine() as here:
        measure(here, "four hosts", 4, [], rounds=asked.rounds, bounds=bounds, explicit=asked.explicit)
        measure(
            here,
            "one host",
            1,
            ["--per-host", str(CONNECTIONS)],
            rounds=asked.rounds,
            bounds=bounds,
            explicit=asked.explicit,
        )
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

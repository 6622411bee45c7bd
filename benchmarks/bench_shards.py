"""From nothing to a solve by shards: 60,000 records, 126 names, 50 ms a request, four mirrors that have no shards.

    python benchmarks/bench_shards.py [--rounds N]

The channel's own place has shards; the mirrors have nothing, and answer so after 50 ms. Each measurement is a process
of its own that has loaded its libraries, with the solver's process started, before its clock runs: then come settings,
indexes, shards and the solve. ``unchanged`` is the same again with what the first has kept. Beside it py-rattler's own
Gateway and solver, on the same server: with 8 requests at once, as ours, and with its default of 100, which a public
server would be asked by one user. The whole command, start-up included, is shown too. Bounds: 2.3 MB and 1.6 s from
nothing, 0.6 s and 3 requests unchanged; 1.1 x the bytes and 1.2 x the time of the Gateway with 8 requests at once, by
the median of the rounds' ratios.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from kit.line import Line
from kit.runs import MB, Bounds, Machine, arguments, conclude, machine, median, remove, resume_dl, say_where, spread

from support.real_channel import Archives, closure_of, real_channel, write_channel

LATENCY = 0.05
CONNECTIONS = 8
NAMES = 5000
WANTED = 126
MIRRORS = 4

OURS = """
import os, sys, time, json
from pathlib import Path
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolution.conda_resolution import Resolver
from resume_dl.transfer.setup import TransferOptions, engine_for, load_setup
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.resolve.worker import RattlerWorker
import resume_dl.transport.client, msgspec, zstandard

reporter = NoneReporter(Console(sys.stderr))
worker = RattlerWorker()
worker.request("virtual_packages", {})
began = time.monotonic()
setup = load_setup(TransferOptions(mirrors_file=Path(sys.argv[1])), os.environ)
request = FetchRequest(specs=("everything",), channels=("bench",), override_channels=True, platforms=("linux-64",))
with engine_for(setup, reporter, lambda: False) as engine:
    resolver = Resolver(request, setup, reporter, engine, worker)
    ((_, solution),), _ = resolver.resolve(fresh=False)
    took = time.monotonic() - began
    resolver.close()
print(json.dumps({"seconds": took, "packages": sorted(artifact.filename for artifact in solution.artifacts)}))
"""

GATEWAY = """
import asyncio, json, sys, time
from rattler import Channel, ChannelPriority, Gateway, SourceConfig, VirtualPackage, solve

async def main():
    began = time.monotonic()
    gateway = Gateway(cache_dir=sys.argv[2], max_concurrent_requests=int(sys.argv[3]))
    virtual = [package.into_generic() for package in VirtualPackage.detect()]
    records = await solve(
        [Channel(sys.argv[1])], ["everything"], gateway=gateway, platforms=["linux-64", "noarch"],
        virtual_packages=virtual, channel_priority=ChannelPriority.Strict, add_pip_as_python_dependency=True,
    )
    took = time.monotonic() - began
    print(json.dumps({"seconds": took, "packages": sorted(record.file_name for record in records)}))

asyncio.run(main())
"""


def channel() -> dict[str, Archives]:
    """About 60,000 records; the package ``everything`` leads to WANTED names."""
    found = real_channel(1, NAMES, core=WANTED, builds=160, easy=True)
    wanted: list[str] = []
    for number in range(200, NAMES, 7):
        more = closure_of(found, [*wanted, f"p{number}"])
        if len(more) < WANTED:
            wanted.append(f"p{number}")
        if len(more) == WANTED - 1:
            break
    record = next(iter(found["linux-64"].values()))
    everything = {**record, "name": "everything", "version": "1.0", "build": "0", "depends": wanted}
    found["linux-64"]["everything-1.0-0.conda"] = everything
    return found


class Server:
    """The channel's own place and the mirrors, and processes that ask them."""

    def __init__(self, here: Machine, own: Line, mirrors: Line) -> None:
        self._here = here
        self._own = own
        self._mirrors = mirrors
        bases = {f"mirror{number}": f"{mirrors.base(number)}/bench" for number in range(MIRRORS)}
        self._table = here.mirrors(bases, f"{own.base(0)}/bench")

    def _run(self, *command: str | Path) -> tuple[dict[str, Any], int, int]:
        """What the process says, body bytes, and requests to the channel's own place."""
        self._own.forget()
        self._mirrors.forget()
        run = self._here.run(command, self._here.place())
        self._own.quiet()
        return json.loads(run.out), self._own.sent + self._mirrors.sent, len(self._own.asked)

    def forget(self) -> None:
        """Nothing is kept any more."""
        for kept in ("cache", "state", "gateway"):
            remove(self._here.folder / kept)

    def ours(self) -> tuple[dict[str, Any], int, int]:
        return self._run(sys.executable, "-c", OURS, self._table)

    def command(self) -> float:
        words = ("fetch", "everything", "-c", "bench", "--override-channels", "--platform", "linux-64", "--dry-run")
        return self._here.run(resume_dl(*words, "--dest", "d", "--mirrors", self._table), self._here.place()).wall

    def gateway(self, at_once: int = CONNECTIONS) -> tuple[dict[str, Any], int, int]:
        place = self._own.base(0) + "/bench"
        return self._run(sys.executable, "-c", GATEWAY, place, self._here.folder / "gateway", str(at_once))


def main() -> int:
    rounds = arguments(__doc__).parse_args().rounds
    bounds = Bounds()
    with machine() as here:
        content = channel()
        write_channel(here.folder / "served" / "bench", content)
        (here.folder / "nothing").mkdir()
        records, names = sum(map(len, content.values())), len(closure_of(content, ["everything"]))
        say_where(f"bench_shards: {records} records, {names} names, {LATENCY * 1000:.0f} ms a request")
        figures: defaultdict[str, list[float]] = defaultdict(list)
        solutions = set()
        own = Line(here.folder / "served", [None], latency=LATENCY)
        mirrors = Line(here.folder / "nothing", [None] * MIRRORS, latency=LATENCY)
        with own, mirrors:
            server = Server(here, own, mirrors)
            for _ in range(rounds):
                server.forget()
                said, sent, _ = server.ours()
                again, _, requests = server.ours()
                other, other_sent, _ = server.gateway()
                figures["from nothing"].append(said["seconds"])
                figures["bytes"].append(sent)
                figures["unchanged"].append(again["seconds"])
                figures["requests"].append(requests)
                figures["Gateway"].append(other["seconds"])
                figures["Gateway, unchanged"].append(server.gateway()[0]["seconds"])
                remove(here.folder / "gateway")
                figures["Gateway, 100 requests at once"].append(server.gateway(100)[0]["seconds"])
                figures["whole command, unchanged"].append(server.command())
                figures["time ratio"].append(said["seconds"] / other["seconds"])
                figures["byte ratio"].append(sent / other_sent)
                solutions |= {tuple(each["packages"]) for each in (said, again, other)}
    for name in ("Gateway", "Gateway, unchanged", "Gateway, 100 requests at once", "whole command, unchanged"):
        print(f"  {name}: {spread(figures[name])} s")
    bounds.check("from nothing", median(figures["from nothing"]), 1.6, " s")
    bounds.check("bytes", median(figures["bytes"]) / MB, 2.3, " MB")
    bounds.check("unchanged", median(figures["unchanged"]), 0.6, " s")
    bounds.check("requests, unchanged", median(figures["requests"]), 3)
    bounds.check("bytes / Gateway", median(figures["byte ratio"]), 1.1)
    bounds.check("time / Gateway", median(figures["time ratio"]), 1.2)
    bounds.require("all of them choose the same packages", holds=len(solutions) == 1)
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

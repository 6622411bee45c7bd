"""Sources of 8, 2 and 0.5 MB/s; and sources of which half way one dies, one stalls and one turns to 50 KB/s.

    python benchmarks/unequal.py [--rounds N] [--case NAME]... [--each]

Lines without burst (kit/line.py), rates for each connection. Cases:

- ``one``: 8, 2 and 0.5 MB/s with one connection each (--per-host 1), 105 MB: ideal 10 s, bound 1.08 x;
- ``two``: the same rates with two connections each, 210 MB: ideal 10 s, bound 1.08 x;
- ``fail``: five sources with one connection each, of 4, 2, 4, 2 and 4 MB/s, 128 MB. When half of the bytes have been
  sent, the third dies (connections reset, then refused), the fourth stalls, the fifth turns to 50 KB/s, in the middle
  of their answers. Bound 1.25 x the ideal of what remained: half / 16 MB/s + half / (4 + 2 + 0.05) MB/s;
- ``dies``, ``stalls``, ``crawls``: that alone, of the fastest of 8, 2 and 0.5 MB/s, 60 MB (with --each or --case).

Whole processes. Also printed: how much of the file the servers sent (1 = nothing twice), and the crawl at the end: for
how long before the last byte all sources together sent below half of what they had.
"""

from __future__ import annotations

import bisect
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kit.line import Line
from kit.runs import (
    MB,
    Bounds,
    Machine,
    arguments,
    conclude,
    get,
    machine,
    make_file,
    median,
    remove,
    say_where,
    sha256_of,
    spread,
)

DIES, STALLS, CRAWLS = None, 0.0, 50_000.0
SAMPLE = 0.02
WINDOW = 0.5
"""Seconds over which a speed is taken."""


@dataclass(frozen=True)
class Case:
    """Rates in bytes a second for each connection; ``later`` what a source turns to when half has been sent."""

    size: int
    rates: tuple[float, ...]
    per_host: int
    bound: float
    later: dict[int, float | None]

    @property
    def ideal(self) -> float:
        """Seconds with every line full at every moment: half the bytes at the first rates, half at the later ones."""
        after = [self.later.get(i, rate) or 0.0 for i, rate in enumerate(self.rates)]
        return self.size / 2 / (sum(self.rates) * self.per_host) + self.size / 2 / (sum(after) * self.per_host)


UNEQUAL = (8e6, 2e6, 0.5e6)
CASES = {
    "one": Case(105 * MB, UNEQUAL, 1, 1.08, {}),
    "two": Case(210 * MB, UNEQUAL, 2, 1.08, {}),
    "fail": Case(128 * MB, (4e6, 2e6, 4e6, 2e6, 4e6), 1, 1.25, {2: DIES, 3: STALLS, 4: CRAWLS}),
    "dies": Case(60 * MB, UNEQUAL, 1, 1.25, {0: DIES}),
    "stalls": Case(60 * MB, UNEQUAL, 1, 1.25, {0: STALLS}),
    "crawls": Case(60 * MB, UNEQUAL, 1, 1.25, {0: CRAWLS}),
}
SINGLE = ("dies", "stalls", "crawls")


class Watch(threading.Thread):
    """Changes the sources half way, and samples what they send."""

    def __init__(self, case: Case, line: Line) -> None:
        super().__init__(daemon=True)
        self.case = case
        self.line = line
        self.over = threading.Event()
        self.samples: list[tuple[float, int]] = []
        self.changed = not case.later

    def run(self) -> None:
        while not self.over.wait(SAMPLE):
            self.samples.append((time.monotonic(), self.line.sent))
            if not self.changed and self.line.sent >= self.case.size / 2:
                self.changed = True
                for source, rate in self.case.later.items():
                    if rate is DIES:
                        self.line.die(source)
                    else:
                        self.line.set_rate(source, rate)

    def crawl(self) -> float:
        """Seconds before the last byte in which less than half of what remained available was sent."""
        rates = [self.case.later.get(i, rate) or 0.0 for i, rate in enumerate(self.case.rates)]
        wanted = sum(rates) * self.case.per_host / 2
        at, sent = zip(*self.samples, strict=True)
        last = bisect.bisect_left(sent, sent[-1])
        for i in range(last, 0, -1):
            before = max(0, bisect.bisect_right(at, at[i] - WINDOW) - 1)
            if sent[i] - sent[before] >= wanted * (at[i] - at[before]):
                return float(at[last] - at[i])
        return float(at[last] - at[0])


def once(here: Machine, root: Path, case: Case, digest: str, traces: Path | None) -> tuple[float, float, float]:
    """One run: seconds, share of the file that was sent, seconds of crawl."""
    with Line(root, case.rates) as line:
        watch = Watch(case, line)
        watch.start()
        place = here.place()
        options = ["--debug-trace", str(traces.resolve() / f"{root.name}-{place.name}.jsonl")] if traces else []
        run = here.run(get(line.urls("file.bin"), digest, "--per-host", str(case.per_host), *options), place)
        watch.over.set()
        watch.join()
        if sha256_of(place / "file.bin") != digest:
            raise SystemExit("the file is wrong")
        if not watch.changed:
            raise SystemExit("the sources were never changed")
        remove(place)
        return run.wall, line.sent / case.size, watch.crawl()


def measure(name: str, rounds: int, bounds: Bounds, call: Callable[[], tuple[float, float, float]]) -> None:
    """A case's rounds, and its verdict."""
    case = CASES[name]
    rows = [call() for _ in range(rounds)]
    walls, sent, crawls = zip(*rows, strict=True)
    print(
        f"  {name}: ideal {case.ideal:.2f} s, wall {spread(walls)} s, sent {spread(sent, 3)} x the file, "
        f"crawl at the end {spread(crawls)} s"
    )
    bounds.check(f"{name}: time / ideal", median(walls) / case.ideal, case.bound)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--case", action="append", choices=list(CASES), help="only this; repeatable")
    parser.add_argument("--each", action="store_true", help="also each failure alone")
    parser.add_argument("--trace", type=Path, metavar="FOLDER", help="keep a trace of every run there")
    asked = parser.parse_args()
    names = asked.case or [name for name in CASES if asked.each or name not in SINGLE]
    bounds = Bounds()
    say_where("unequal: 8, 2 and 0.5 MB/s; one dies, one stalls, one crawls half way")
    with machine() as here:
        for name in names:
            root = here.folder / name
            digest = make_file(root / "file.bin", CASES[name].size)
            measure(name, asked.rounds, bounds, partial(once, here, root, CASES[name], digest, asked.trace))
            remove(root)
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

"""Three hosts, 2 connections each, 4 MB/s a connection, 200 MB with its sha256: the lines full, and aria2c beside it.

    python benchmarks/rate_limited.py [--rounds N] [--nginx | --line]

Twice: nginx's limit_rate, which sends the first portion of every answer at once (its buffers are the system's: with
small ones it gives half of its limit); and lines without any burst (kit/line.py), where bytes / (sum of the limits) is
the least time that there is. Whole processes, start-up and verification included, for both programs; aria2c is told to
check the same sha256. Bounds: ours <= 1.05 x bytes / (sum of the limits), without burst counted from the first request
on, because 5 % of 8 s is what an interpreter takes to start; and not slower than aria2c as a whole process, by the
median of the rounds' ratios.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from kit.line import Line
from kit.nginx import nginx_hosts
from kit.runs import (
    MB,
    Bounds,
    Machine,
    Run,
    arguments,
    conclude,
    get,
    interleaved,
    machine,
    make_file,
    median,
    remove,
    say_where,
    sha256_of,
    spread,
)

SIZE = 200 * MB
RATE = 4 * MB
HOSTS = 3
CONNECTIONS = 2
IDEAL = SIZE / (HOSTS * CONNECTIONS * RATE)


def ours(here: Machine, urls: Sequence[str], digest: str) -> Run:
    """``get`` with its defaults: 2 connections a host, 8 in all."""
    return _checked(here, get(urls, digest), digest)


def aria2c(here: Machine, urls: Sequence[str], digest: str) -> Run:
    """The same connections; it begins to split at 1 MiB, the least it knows."""
    options = f"-x{CONNECTIONS} -s{HOSTS * CONNECTIONS} -k1M --file-allocation=none --no-conf --quiet -o file.bin"
    return _checked(here, ["aria2c", *options.split(), f"--checksum=sha-256={digest}", *urls], digest)


def _checked(here: Machine, command: Sequence[str], digest: str) -> Run:
    place = here.place()
    run = here.run(command, place)
    if sha256_of(place / "file.bin") != digest:
        raise SystemExit("the file is wrong")
    remove(place)
    return run


def compare(
    here: Machine,
    title: str,
    urls: Sequence[str],
    digest: str,
    *,
    sent: Callable[[], int],
    asked: Callable[[], float] | None = None,
    rounds: int,
    bounds: Bounds,
) -> None:
    """Run both and judge; ``sent`` counts the servers' bytes, ``asked`` says when the last run's first request came."""
    counted: dict[str, list[float]] = {"resume-dl": [], "aria2c": []}
    starts: dict[str, list[float]] = {"resume-dl": [], "aria2c": []}

    def counting(name: str, way: Callable[[Machine, Sequence[str], str], Run]) -> Callable[[], Run]:
        def call() -> Run:
            before = sent()
            run = way(here, urls, digest)
            counted[name].append((sent() - before) / SIZE)
            if asked is not None:
                starts[name].append(asked() - run.started)
            return run

        return call

    runs = interleaved(rounds, {"resume-dl": counting("resume-dl", ours), "aria2c": counting("aria2c", aria2c)})
    print(f"  {title}: bytes / (sum of the limits) = {IDEAL:.2f} s")
    for name, each in runs.items():
        walls = [run.wall for run in each]
        print(
            f"  {name:10} wall {spread(walls)} s, CPU {median([run.cpu for run in each]):.2f} s, "
            f"sent by the servers {spread(counted[name], 3)} x the file"
            + (f", start to first request {spread(starts[name])} s" if starts[name] else "")
        )
    walls = [run.wall for run in runs["resume-dl"]]
    if asked is None:
        bounds.check(f"{title}: time / ideal", median(walls) / IDEAL, 1.05)
    else:
        lines = [wall - start for wall, start in zip(walls, starts["resume-dl"], strict=True)]
        print(f"  {title}: time / ideal, start-up included: {median(walls) / IDEAL:.3f}")
        bounds.check(f"{title}: time from the first request / ideal", median(lines) / IDEAL, 1.05)
    pairs = zip(runs["resume-dl"], runs["aria2c"], strict=True)
    bounds.check(f"{title}: time / aria2c's", median([a.wall / b.wall for a, b in pairs]), 1.0)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--nginx", action="store_true", help="only with nginx")
    parser.add_argument("--line", action="store_true", help="only with lines that have no burst")
    asked = parser.parse_args()
    bounds = Bounds()
    say_where(f"rate_limited: {HOSTS} hosts x {CONNECTIONS} connections x {RATE / MB:g} MB/s, {SIZE / MB:g} MB")
    with machine() as here:
        root = here.folder / "root"
        digest = make_file(root / "file.bin", SIZE)
        if not asked.line:
            with nginx_hosts(here, HOSTS, rate=RATE) as (nginx, urls):
                compare(
                    here,
                    "nginx",
                    urls,
                    digest,
                    sent=lambda: nginx.body_bytes(archives=False),
                    rounds=asked.rounds,
                    bounds=bounds,
                )
        if not asked.nginx:
            with Line(root, [RATE] * HOSTS) as line:
                compare(
                    here,
                    "no burst",
                    line.urls("file.bin"),
                    digest,
                    sent=lambda: line.sent,
                    asked=line.first_request,
                    rounds=asked.rounds,
                    bounds=bounds,
                )
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

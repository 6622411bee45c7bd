"""600 MB from one nginx without limits, verified by sha256, start-up included, beside curl and curl && sha256sum.

    python benchmarks/raw_loopback.py [--rounds N]

Whole processes, one after another in every round. Bounds, by the median of the rounds' ratios: wall <= 1.8 x
``curl -o f`` (which verifies nothing), and <= 0.75 x ``curl -o f && sha256sum f``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

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
    spread,
)

SIZE = 600 * MB


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--options", default="", help="more options for ours, as '--connections 1'")
    asked = parser.parse_args()
    bounds = Bounds()
    say_where(f"raw_loopback: {SIZE / MB:g} MB, one nginx without limits")
    with machine() as here:
        digest = make_file(here.folder / "root" / "file.bin", SIZE)
        with nginx_hosts(here) as (nginx, [url]):
            curl = f"curl --silent --fail -o file.bin {url}"
            ways = {
                "curl": _way(here, ["sh", "-c", curl]),
                "curl && sha256sum": _way(here, ["sh", "-c", f"{curl} && sha256sum file.bin"]),
                "resume-dl": _way(here, get([url], digest, *asked.options.split())),
            }
            for way in ways.values():  # once unmeasured: the files' pages, the byte code
                way()
            nginx.reset_log()
            runs = interleaved(asked.rounds, ways)
            requests = len(nginx.requests()) / asked.rounds - 2
    for name, each in runs.items():
        print(
            f"  {name:18} wall {spread([run.wall for run in each])} s, CPU {median([run.cpu for run in each]):.2f} s, "
            f"most memory {max(run.rss for run in each) / MB:.0f} MB"
        )
    print(f"  requests of ours a run: {requests:.1f}")
    for peer, bound in (("curl", 1.8), ("curl && sha256sum", 0.75)):
        pairs = zip(runs["resume-dl"], runs[peer], strict=True)
        bounds.check(f"wall / {peer}", median([a.wall / b.wall for a, b in pairs]), bound)
    return conclude(bounds)


def _way(here: Machine, command: list[str]) -> Callable[[], Run]:
    def call() -> Run:
        place = here.place()
        run = here.run(command, place)
        if (place / "file.bin").stat().st_size != SIZE:
            raise SystemExit(f"{command} left a file that is not whole")
        remove(place)
        return run

    return call


if __name__ == "__main__":
    sys.exit(main())

"""kill -9 at 100 random moments in one download of 300 MB, from sources limited to 10 MB/s in all.

    python benchmarks/kill_waste.py [--kills N] [--seed N]

Three hosts, 2 connections each, lines without burst (kit/line.py). What a kill costs is what the servers sent in that
run less what the journal had gained by it; were something fetched again that a journal had claimed, it would count
there, too. The last run goes to the end, and the file is checked. Bounds: median <= 1 MiB in all, worst <= 1 MiB a
connection.
"""

from __future__ import annotations

import random
import sys
import time

from kit.line import Line
from kit.runs import MB, MIB, Bounds, arguments, conclude, get, machine, make_file, median, say_where, sha256_of

from resume_dl.store.part import FOLDER, PartStore

SIZE = 300 * MB
HOSTS, CONNECTIONS = 3, 2
RATE = 10 * MB / (HOSTS * CONNECTIONS)
PATIENCE = 60.0
END_GAME = 4 * MIB
"""What a run may fetch twice at the end of a file."""


def main() -> int:
    parser = arguments(__doc__, rounds=1)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    bounds = Bounds()
    say_where(
        f"kill_waste: {asked.kills} kills in {SIZE / MB:g} MB, {HOSTS * CONNECTIONS} connections, seed {asked.seed}"
    )
    chance = random.Random(asked.seed)
    moments = sorted(chance.uniform(0.0, 0.99) * SIZE for _ in range(asked.kills))
    wastes: list[int] = []
    starts: list[float] = []
    with machine() as here:
        digest = make_file(here.folder / "root" / "file.bin", SIZE)
        place = here.place()
        store = PartStore(place / FOLDER)
        with Line(here.folder / "root", [RATE] * HOSTS) as line:
            command = get(line.urls("file.bin"), digest)
            done = 0
            for moment in moments:
                started, before, count = here.start(command, place), line.sent, len(line.asked)
                while line.sent - before == 0 or done + line.sent - before < moment:
                    if not started.running(0.001):
                        raise SystemExit(f"it ended by itself:\n{started.wait().err}")
                    if time.monotonic() - started.started > PATIENCE:
                        raise SystemExit(f"no progress after {PATIENCE} s at {done} bytes")
                started.kill()
                starts.append(min(each.first_byte_at or 1e9 for each in line.asked[count:]) - started.started)
                started.wait()
                line.quiet()
                (left,) = store.unfinished() or (None,)
                now = left.done if left is not None else 0
                wastes.append(line.sent - before - (now - done))
                done = now
            before = line.sent
            run = here.run(command, place)
            line.quiet()
            last = line.sent - before - (SIZE - done)
            beyond = line.sent - SIZE
        right = sha256_of(place / "file.bin") == digest
    print(
        f"  wasted a kill: median {median(wastes) / MIB:.3f} MiB, worst {max(wastes) / MIB:.3f} MiB, least "
        f"{min(wastes) / MIB:.3f} MiB; in all {sum(wastes) / MB:.1f} MB; "
        f"the last run {last / MIB:.3f} MiB in {run.wall:.1f} s"
    )
    print(
        f"  the servers sent {beyond / MB:.1f} MB beyond the file; first byte {median(starts):.2f} s after each start"
    )
    bounds.check("median waste a kill", median(wastes) / MIB, 1.0, " MiB")
    bounds.check("worst waste a kill", max(wastes) / MIB, float(HOSTS * CONNECTIONS), " MiB")
    bounds.require("no journal claims more than was sent", holds=min(wastes) >= 0)
    bounds.require("the last run fetched no more than was missing, and an end game", holds=last <= END_GAME)
    bounds.require("the file is right", holds=right)
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

"""Three equal sources, of which one flips a byte in every 8 MiB: what repairing costs.

    python benchmarks/liar.py [--rounds N]

The fault server (tests/faults), 96 MiB, two connections a source at 4 MB/s each, so that each source delivers about a
third. Bytes are counted at the servers. Bounds: the file is right, and what was sent beyond its size is <= 1.2 x what
the liar had sent; so what the others had sent was kept.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from kit.runs import (
    MIB,
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

from faults.behaviours import Flip, Rate
from faults.server import FaultServer

SIZE = 96 * MIB
EVERY = 8 * MIB
RATE = 4_000_000
SOURCES, LIAR = 3, 1
BOUND = 1.2


def once(here: Machine, content: bytes, digest: str) -> tuple[float, float, float, float]:
    """Re-fetched bytes / the liar's, the liar's share of the file, what all sent / the file, seconds."""
    server = FaultServer(SOURCES)
    server.start()
    try:
        server.put("/file.bin", content)
        for port in range(SOURCES):
            server.always(port, Rate(RATE))
        server.always(LIAR, Rate(RATE), Flip(*range(EVERY // 2, SIZE, EVERY)))
        place = here.place()
        run = here.run(get([f"{server.base(i)}/file.bin" for i in range(SOURCES)], digest), place)
        if sha256_of(place / "file.bin") != digest:
            raise SystemExit("the file is wrong")
        by_port = [server.body_bytes(port) for port in range(SOURCES)]
    finally:
        server.stop()
    blamed = json.loads(run.out)["artifacts"][0]["sources"]
    print(f"  sent by the sources {[f'{count / MIB:.1f} MiB' for count in by_port]}; reported: {json.dumps(blamed)}")
    remove(place)
    sent = sum(by_port)
    return (sent - SIZE) / by_port[LIAR], by_port[LIAR] / SIZE, sent / SIZE, run.wall


def main() -> int:
    asked = arguments(__doc__).parse_args()
    bounds = Bounds()
    say_where(f"liar: {SIZE // MIB} MiB from {SOURCES} sources, one flips a byte in every {EVERY // MIB} MiB")
    with machine() as here:
        digest = make_file(here.folder / "file.bin", SIZE)
        content = (here.folder / "file.bin").read_bytes()
        rows = [once(here, content, digest) for _ in range(asked.rounds)]
    ratio, share, sent, walls = zip(*rows, strict=True)
    print(
        f"  the liar sent {spread(share, 3)} x the file, all sent {spread(sent, 3)} x the file, wall {spread(walls)} s"
    )
    bounds.check("re-fetched / what the liar had sent", median(ratio), BOUND)
    return conclude(bounds)


if __name__ == "__main__":
    sys.exit(main())

"""What our transport adds to bare httpx: one 600 MB GET from a real nginx on loopback, bytes thrown away.

    python benchmarks/transport_throughput.py [rounds]

Prints the medians of wall and CPU seconds of both, alternating, and the ratio (wanted: at most 1.05).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.client import HttpxTransport
from support.nginx import NginxMirrors

SIZE = 600_000_000


def bare(url: str) -> int:
    with (
        httpx.Client(trust_env=False, headers={"Accept-Encoding": "identity"}) as client,
        client.stream("GET", url) as r,
    ):
        return sum(len(chunk) for chunk in r.iter_raw())


def ours(url: str) -> int:
    transport = HttpxTransport(NetworkSettings())
    response = transport.exchange(RangeRequest(RedactedUrl(url))).open()
    count = sum(len(chunk) for chunk in response.chunks())
    response.close()
    transport.close()
    return count


def measure(fetch: Callable[[str], int], url: str) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    count = fetch(url)
    if count != SIZE:
        raise SystemExit(f"{count} bytes came instead of {SIZE}")
    return time.perf_counter() - wall, time.process_time() - cpu


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "root").mkdir()
        with (folder / "root" / "big.conda").open("wb") as file:
            file.truncate(SIZE)
        nginx = NginxMirrors([folder / "root"], folder / "nginx", send_buffer=None)
        nginx.start()
        try:
            url = f"{nginx.base()}/big.conda"
            ways = {"httpx iter_raw": bare, "our transport": ours}
            runs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, fetch in ways.items():
                    runs[way].append(measure(fetch, url))
        finally:
            nginx.stop()
    medians = {way: [statistics.median(column) for column in zip(*rows, strict=True)] for way, rows in runs.items()}
    for way, (wall, cpu) in medians.items():
        print(f"{way:16}  wall {wall:.2f} s  CPU {cpu:.2f} s")
    (bare_wall, bare_cpu), (our_wall, our_cpu) = medians.values()
    print(f"{'ratio':16}  wall {our_wall / bare_wall:.3f}    CPU {our_cpu / bare_cpu:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

"""What a worker adds to the bare transport: one 600 MB GET from a real nginx on loopback, written and recorded.

    python benchmarks/worker_throughput.py [rounds]

Alternating, in one process: the transport alone (bytes thrown away), the transport and a plain positioned write of
each chunk, and the engine's worker (checks, writes, CRC-32, journal records, reports). Prints the medians of wall and
CPU seconds, and the ratios to the first.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from resume_dl.core.actions import OpenRange
from resume_dl.core.events import ConnectionClosed, Event
from resume_dl.engine.writer import Writer
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import PartStore
from resume_dl.transport.client import HttpTransport
from support.nginx import NginxMirrors

SIZE = 600_000_000


class Monotonic:
    def now(self) -> float:
        return time.monotonic()


def bare(url: str, _folder: Path) -> int:
    transport = HttpTransport(NetworkSettings())
    response = transport.exchange(RangeRequest(RedactedUrl(url))).open()
    count = sum(len(chunk) for chunk in response.chunks())
    response.close()
    transport.close()
    return count


def written(url: str, folder: Path) -> int:
    transport = HttpTransport(NetworkSettings())
    response = transport.exchange(RangeRequest(RedactedUrl(url))).open()
    count = 0
    file = os.open(folder / "plain", os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, SIZE)
    for chunk in response.chunks():
        count += os.pwrite(file, chunk, count)
    os.close(file)
    response.close()
    transport.close()
    return count


def worked(url: str, folder: Path) -> int:
    transport = HttpTransport(NetworkSettings())
    source = Source("nginx", RedactedUrl(url))
    artifact = Artifact(kind="file", filename="big.bin", url=source.url, size=SIZE, sha256="0" * 64, sources=(source,))
    part = PartStore(folder / "parts").open(artifact, journaled=True)
    part.resume()
    events: list[Event] = []
    worker = Writer(
        OpenRange(0, 0, 0, None, ((0, None),), whole=True, size=SIZE),
        source=source,
        label=str(source.url),
        filename=artifact.filename,
        part=part,
        transport=transport,
        post=events.append,
        clock=Monotonic(),
    )
    worker.run()
    last = events[-1]
    part.close()
    transport.close()
    return last.position if isinstance(last, ConnectionClosed) else 0


def measure(fetch: Callable[[str, Path], int], url: str, folder: Path) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    count = fetch(url, folder)
    if count != SIZE:
        raise SystemExit(f"{count} bytes came instead of {SIZE}")
    taken = time.perf_counter() - wall, time.process_time() - cpu
    shutil.rmtree(folder / "parts", ignore_errors=True)
    (folder / "plain").unlink(missing_ok=True)
    return taken


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "root").mkdir()
        with (folder / "root" / "big.bin").open("wb") as file:
            file.truncate(SIZE)
        nginx = NginxMirrors([folder / "root"], folder / "nginx", send_buffer=None)
        nginx.start()
        try:
            url = f"{nginx.base()}/big.bin"
            ways = {"transport alone": bare, "and a plain write": written, "the worker": worked}
            runs: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
            for _ in range(rounds):
                for way, fetch in ways.items():
                    runs[way].append(measure(fetch, url, folder))
        finally:
            nginx.stop()
    medians = {way: [statistics.median(column) for column in zip(*rows, strict=True)] for way, rows in runs.items()}
    first = medians["transport alone"]
    for way, (wall, cpu) in medians.items():
        print(
            f"{way:18} wall {wall:.2f} s ({wall / first[0]:.2f})  CPU {cpu:.2f} s ({cpu / first[1]:.2f})"
            f"  {SIZE / wall / 1e6:.0f} MB/s"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)

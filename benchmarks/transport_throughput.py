"""Where the time of a fast download goes: 600 MB from one nginx without limits on loopback, layer by layer.

    python benchmarks/transport_throughput.py [--rounds 5] [--sizes] [--tls]

Each way is a process of its own, one after another in every round; medians of wall and CPU seconds. The first group
measures inside the process, from before the request to after the last byte, the second whole processes, start-up
included. ``--sizes`` measures our transport with other sizes of a read, past h11 and through it, in place of that.
``--tls`` goes through TLS (nginx with a certificate of our own), where a read brings one record of 16 KiB at most.
Fails where our transport needs more wall time than 0.6 of httpx's.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import httpcore
import httpx
import trustme

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from resume_dl.model.http import RangeRequest
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.transport import announced_body
from resume_dl.transport.client import HttpTransport
from support.nginx import NginxMirrors, find_nginx

SIZE = 600_000_000
READ = 256 * 1024
BOUND = 0.6
Bodies = Iterator[bytes]


def raw(url: str) -> Bodies:
    """What the kernel and one Python call a read cost: a bare socket."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port)) as sock:
        sock.settimeout(10)
        sock.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        chunk = sock.recv(4096).partition(b"\r\n\r\n")[2]
        left = SIZE - len(chunk)
        yield chunk
        while left:
            chunk = sock.recv(min(READ, left))
            left -= len(chunk)
            yield chunk


def bare(url: str) -> Bodies:
    """httpx as it is."""
    context = ssl.create_default_context(cafile=os.environ.get("BENCH_CA"))
    with (
        httpx.Client(verify=context, trust_env=False, headers={"Accept-Encoding": "identity"}) as client,
        client.stream("GET", url) as answer,
    ):
        yield from answer.iter_raw()


def ours(url: str) -> Bodies:
    """Our transport."""
    transport = HttpTransport(
        NetworkSettings(verify=Path(os.environ["BENCH_CA"])) if "BENCH_CA" in os.environ else NetworkSettings()
    )
    response = transport.exchange(RangeRequest(RedactedUrl(url))).open()
    yield from response.chunks()
    response.close()
    transport.close()


def parsed(url: str) -> Bodies:
    """Our transport with everything through h11, as for a body without a Content-Length."""
    announced_body.announced_length = lambda _: None
    yield from ours(url)


WAYS: dict[str, Callable[[str], Bodies]] = {"socket": raw, "httpx": bare, "through h11": parsed, "transport": ours}


def inside(way: str, url: str, out: str) -> None:
    """One measurement in this process; imports come before it."""
    if most := int(os.environ.get("BENCH_MOST", "0")):
        announced_body.MAX_READ = httpcore.HTTP11Connection.READ_NUM_BYTES = most
    chunks = count = 0
    with Path(out or os.devnull).open("wb", buffering=0) as file:
        wall, cpu = time.perf_counter(), time.process_time()
        for chunk in WAYS[way](url):
            chunks += 1
            count += len(chunk)
            if out:
                file.write(chunk)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if count != SIZE:
        raise SystemExit(f"{count} bytes came instead of {SIZE}")
    print(json.dumps([wall, cpu, count / chunks / 1024]))


def together(count: int, url: str, out: str) -> None:
    """The same by ``count`` connections and threads, each with its part of the file; nothing else is done."""
    transport = HttpTransport(NetworkSettings())

    def fetch(start: int, end: int) -> None:
        response = transport.exchange(RangeRequest(RedactedUrl(url), start, end)).open()
        for chunk in response.chunks():
            os.pwrite(file.fileno(), chunk, start)
            start += len(chunk)
        response.close()

    with Path(out).open("wb", buffering=0) as file:
        wall, cpu = time.perf_counter(), time.process_time()
        cuts = [SIZE * part // count for part in range(count + 1)]
        threads = [threading.Thread(target=fetch, args=pair) for pair in pairwise(cuts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, 0]))
    transport.close()


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, float, float]:
    """Wall and CPU seconds of the measured part, and KiB a chunk (0: a whole process)."""
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = process.stdout.read() if process.stdout else b""
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    if said.startswith(b"["):
        return tuple(json.loads(said))
    return time.perf_counter() - started, used.ru_utime + used.ru_stime, 0.0


def ways_of(
    args: argparse.Namespace, url: str, folder: Path, digest: str
) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Name -> command and what it has in its environment beyond ours."""
    me = [sys.executable, __file__, "--url", url, "--inside"]
    if args.sizes:
        sizes = (64, 128, 256, 512, 1024)
        two = ("transport", "through h11")
        return {f"{way}, {kib} KiB": ([*me, way], {"BENCH_MOST": str(kib << 10)}) for way in two for kib in sizes}
    file = str(folder / "copy")
    found = {way: ([*me, way], {}) for way in WAYS if not (args.tls and way == "socket")}
    found |= {f"{way} to a file": ([*me, way, "--out", file], {}) for way in ("httpx", "transport")}
    if not args.tls:
        more = [[*me, "transport", "--out", file, "--connections", str(count)] for count in (2, 4)]
        found |= {f"transport to a file, {each[-1]} connections": (each, {}) for each in more}
    curl = f"curl -s --cacert '{folder}/ca.pem' -o '{folder}/curled' {url}"
    get = [sys.executable, "-m", "resume_dl", "get", url, "--sha256", digest, "-o", f"{folder}/got", "--quiet"]
    found |= {
        "curl": (["sh", "-c", curl], {}),
        "curl && sha256sum": (["sh", "-c", f"{curl} && sha256sum '{folder}/curled'"], {}),
        "resume-dl get": (get, {}),
        "resume-dl get, 1 connection": ([*get, "--connections", "1"], {}),
        "resume-dl get, 2 connections": ([*get, "--connections", "2"], {}),
        "resume-dl get, 4 connections": ([*get, "--connections", "4", "--per-host", "4"], {}),
    }
    return found


def tls_front(folder: Path) -> subprocess.Popen[bytes]:
    """A second nginx: the same files with a certificate of our own; writes ca.pem. Returns it started."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    ca.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(folder / "cert.pem"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    user = "user root; " if hasattr(os, "geteuid") and os.geteuid() == 0 else ""
    (folder / "tls.conf").write_text(
        f"{user}daemon off; pid {folder}/tls.pid; error_log {folder}/tls.log; events {{}}\n"
        f"http {{ access_log off; server {{ listen 127.0.0.1:{port} ssl; root {folder}/root;\n"
        f"  ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/cert.pem; }} }}\n",
        encoding="utf-8",
    )
    (folder / "tls.url").write_text(f"https://localhost:{port}", encoding="utf-8")
    front = subprocess.Popen([str(find_nginx()), "-p", str(folder), "-c", str(folder / "tls.conf")])
    for _ in range(100):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.05)
    return front


def conclude(runs: dict[str, list[tuple[float, float, float]]]) -> int:
    """Print the medians; 1 above the bound."""
    medians = {way: [statistics.median(column) for column in zip(*rows, strict=True)] for way, rows in runs.items()}
    for way, (wall, cpu, kib) in medians.items():
        spread = f"{min(row[0] for row in runs[way]):.2f} to {max(row[0] for row in runs[way]):.2f}"
        mean = f"  {kib:.0f} KiB a chunk" if kib else ""
        print(f"{way:36}  wall {wall:.2f} s ({spread})  CPU {cpu:.2f} s{mean}")
    if "httpx" not in runs:
        return 0
    ratio = statistics.median(a[0] / b[0] for a, b in zip(runs["transport"], runs["httpx"], strict=True))
    print(f"transport / httpx: wall {ratio:.2f} (bound {BOUND})")
    return int(ratio > BOUND)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--url")
    parser.add_argument("--inside", choices=WAYS)
    parser.add_argument("--out", default="")
    parser.add_argument("--connections", type=int, default=0)
    args = parser.parse_args()
    if args.connections:
        together(args.connections, args.url, args.out)
        return 0
    if args.inside:
        inside(args.inside, args.url, args.out)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "root").mkdir()
        digest = hashlib.sha256()
        with (folder / "root" / "big.bin").open("wb") as file:
            for _ in range(SIZE // 1_000_000):
                block = os.urandom(1_000_000)
                digest.update(block)
                file.write(block)
        (folder / "ca.pem").touch()
        places = {f"RESUME_DL_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "CACHE", "STATE")}
        environment = {**os.environ, **places, "HOME": name, "RESUME_DL_CONDA": "none"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have their byte code
        nginx = NginxMirrors([folder / "root"], folder / "nginx", send_buffer=None)
        nginx.start()
        front = tls_front(folder) if args.tls else None
        if front is not None:
            environment |= {"BENCH_CA": str(folder / "ca.pem"), "REQUESTS_CA_BUNDLE": str(folder / "ca.pem")}
        try:
            base = (folder / "tls.url").read_text(encoding="utf-8") if front is not None else nginx.base()
            ways = ways_of(args, f"{base}/big.bin", folder, digest.hexdigest())
            runs: dict[str, list[tuple[float, float, float]]] = {way: [] for way in ways}
            for number in range(args.rounds + 1):
                for way, (command, more) in ways.items():
                    for made in ("copy", "curled", "got"):
                        (folder / made).unlink(missing_ok=True)
                    measured = measure(command, {**environment, **more})
                    if number:  # the first round warms the caches
                        runs[way].append(measured)
        finally:
            if front is not None:
                front.terminate()
                front.wait()
            nginx.stop()
    return conclude(runs)


if __name__ == "__main__":
    sys.exit(main())

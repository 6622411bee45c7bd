"""From the start of the process to its first request: `resume-dl get` and `fetch`, beside Python alone and httpx.

    python benchmarks/start_to_first_request.py [runs]

A listener on loopback notes when the request's first byte is there; the process is ended then. Prints medians in
milliseconds; 1 above the bound for `get`. With settings folders of its own, and without a conda to ask.
"""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

BOUND = 350.0
RUNS = 15


GET = ("get", "{base}/file.bin", "--sha256", "0" * 64, "-o", "file.bin")
FETCH = ("fetch", "numpy", "--channel", "{base}/channel", "--override-channels", "--pkgs-dir", "pkgs")


def to_first_request(environment: dict[str, str], folder: str, arguments: Sequence[str] = GET) -> float:
    """Milliseconds."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        line = [sys.executable, "-m", "resume_dl", *(each.format(base=base) for each in arguments)]
        started = time.perf_counter()
        process = subprocess.Popen(line, cwd=folder, env=environment, stderr=subprocess.DEVNULL)
        listener.settimeout(30)
        connection, _ = listener.accept()
        with connection:
            connection.recv(1)
            elapsed = time.perf_counter() - started
            process.kill()
            process.wait()
    return 1000 * elapsed


def whole_process(*code: str) -> float:
    """Milliseconds."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *code], check=True)
    return 1000 * (time.perf_counter() - started)


def main(runs: int) -> int:
    """Print the medians; 1 above the bound."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        places = {f"RESUME_DL_{kind}_DIR": str(Path(folder, kind)) for kind in ("CONFIG", "CACHE", "STATE")}
        environment = {**os.environ, **places, "RESUME_DL_CONDA": "none", "HOME": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed programs have their byte code
        ways = {
            "python": lambda: whole_process("-c", ""),
            "import httpx": lambda: whole_process("-c", "import httpx"),
            "get": lambda: to_first_request(environment, tempfile.mkdtemp(dir=folder)),
            "fetch": lambda: to_first_request(environment, tempfile.mkdtemp(dir=folder), FETCH),
        }
        for number in range(runs + 1):
            for way, measure in ways.items():
                taken = measure()
                if number:  # the first warms the file cache
                    times.setdefault(way, []).append(taken)
    medians = {way: statistics.median(each) for way, each in times.items()}
    print(", ".join(f"{way} {median:.0f} ms" for way, median in medians.items()), f"(bound for get {BOUND:.0f} ms)")
    return int(medians["get"] > BOUND)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))

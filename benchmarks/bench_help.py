"""How long `resume-dl --help` takes: the bound is 0.25 s, as a median of ten whole processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

BOUND = 0.25
RUNS = 10


def main() -> int:
    """Print the median; 1 above the bound."""
    times = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "resume_dl", "--help"], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
    median = statistics.median(times[1:])  # the first warms the file cache
    print(f"resume-dl --help: median {median:.3f} s of {RUNS} (bound {BOUND} s)")
    return int(median > BOUND)


if __name__ == "__main__":
    sys.exit(main())

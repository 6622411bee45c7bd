"""What loading the plugin costs every conda command: at most 5 ms beyond what conda itself loads.

    python benchmarks/bench_plugin_import.py

Each run is a new process of a real conda's interpreter (see tests/support/conda_env.py) that loads conda's own plugin
modules first, as conda has when it comes to entry points, and then ours. Prints milliseconds; fails above the bound.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.conda_env import condas_at_hand

PROJECT = Path(__file__).resolve().parents[1]
RUNS = 21
BOUND_MS = 5.0
MEASURE = """
import sys, time
import conda.cli.main, conda.base.context, conda.plugins.manager
before = set(sys.modules)
start = time.perf_counter()
import resume_dl.conda_plugin
print((time.perf_counter() - start) * 1000)
print(len(set(sys.modules) - before))
"""


def main() -> int:
    failed = False
    for conda in condas_at_hand():
        python = conda.interpreter()
        times, modules = [], "0"
        for _ in range(RUNS):
            done = subprocess.run(
                [str(python), "-c", MEASURE],
                capture_output=True,
                text=True,
                check=True,
                env={**os.environ, "PYTHONPATH": str(PROJECT / "src")},
            )
            elapsed, modules = done.stdout.split()
            times.append(float(elapsed))
        median = statistics.median(times)
        failed |= median > BOUND_MS
        print(
            f"plugin import, conda {conda.label}: median {median:.2f} ms, worst of {RUNS} {max(times):.2f} ms, "
            f"{modules} modules more (bound {BOUND_MS:.0f} ms)"
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

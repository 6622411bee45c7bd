"""What the plugin costs every conda command: at most 5 ms.

    python benchmarks/bench_plugin_import.py

Two measures, each by new processes of a real conda's interpreter (see tests/support/conda_env.py). Loading: conda's own
plugin modules first, as conda has when it comes to entry points, then ours. And the whole of ``conda --version`` in
pairs, with the plugin and with an empty module in its place, one right after the other. Prints milliseconds; fails
above the bound.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.conda_env import CondaAtHand, TestConda, condas_at_hand

PROJECT = Path(__file__).resolve().parents[1]
RUNS = 21
PAIRS = 20
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


def version_times(conda: CondaAtHand, folder: Path) -> dict[bool, list[float]]:
    """What ``conda --version`` took with (True) and without the plugin, in milliseconds, run by turns."""
    at_hand = TestConda(conda, folder)
    command = [str(at_hand.python), "-m", "conda", "--version"]
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(PAIRS):
        for plugin in (True, False) if number % 2 else (False, True):
            env = {**at_hand.environment(plugin=plugin), "PYTHONDONTWRITEBYTECODE": ""}
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, env=env)
            took[plugin].append((time.perf_counter() - start) * 1000)
    return took


def main() -> int:
    failed = False
    for conda in condas_at_hand():
        with tempfile.TemporaryDirectory() as name:
            took = version_times(conda, Path(name) / "conda")
        more = min(took[True]) - min(took[False])  # others on this machine only ever add
        failed |= more > BOUND_MS
        print(
            f"conda --version, conda {conda.label}: {more:+.1f} ms with the plugin, the best of {PAIRS} runs each by "
            f"turns ({min(took[False]):.0f} ms without; bound {BOUND_MS:.0f} ms)"
        )
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

"""The process's clock goes on while the machine is suspended: CLOCK_BOOTTIME of Linux (clock_gettime(2))."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time

import pytest

from resume_dl.engine.clock import MonotonicClock

pytestmark = pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no CLOCK_BOOTTIME")
SLEPT = 1_000_000
READ = "from resume_dl.engine.clock import MonotonicClock; print(MonotonicClock().now())"


def test_it_reads_the_clock_that_counts_a_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one stands still then, and a connection that did not survive it would look alive."""
    shown = {time.CLOCK_BOOTTIME: 9000.0, time.CLOCK_MONOTONIC: 5.0}
    monkeypatch.setattr(time, "clock_gettime", lambda number: shown[number])
    monkeypatch.setattr(time, "monotonic", lambda: 5.0)
    assert MonotonicClock().now() == 9000.0


def test_the_clock_includes_time_in_suspend() -> None:
    """A time namespace (time_namespaces(7)) as a machine looks that was suspended for eleven days."""
    unshare = shutil.which("unshare")
    options = [unshare or "unshare", "--time", "--boottime", str(SLEPT)]
    if unshare is None or subprocess.run([*options, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no time namespace can be made here (unshare --time --boottime)")
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    done = subprocess.run([*options, sys.executable, "-c", READ], capture_output=True, text=True, check=True)
    assert float(done.stdout) >= before + SLEPT

"""What keeps the tests apart from each other and from a busy machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from support.own_time import OwnTime
from support.processes import Run

TESTS = Path(__file__).resolve().parents[1]
COUNTS = """
import sys
from support.own_time import OwnTime
clock = OwnTime()
for line in sys.stdin:
    print(clock.now(), flush=True)
"""


def test_a_process_ends_with_its_block_however_that_is_left() -> None:
    """Its pipes are closed too: a failed test leaves nothing for the next one to fail over."""
    command = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(600)"]
    started = []

    def failing() -> None:
        with Run(command, stdout=subprocess.PIPE, text=True) as process:
            started.append(process)
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    (process,) = started
    assert process.poll() is not None
    assert process.stdout.closed


def test_own_time_goes_on() -> None:
    clock = OwnTime()
    before = clock.now()
    while clock.now() < before + 0.05:
        time.sleep(0.001)
    clock.close()
    ended = clock.now()
    time.sleep(0.05)
    assert clock.now() == ended


def test_own_time_waits_for_what_a_test_names() -> None:
    """It stands once the seconds are over, and goes on when that has happened."""
    clock = OwnTime()
    happened = threading.Event()
    asked = threading.Semaphore(0)

    def look() -> bool:
        asked.release()
        return happened.is_set()

    over = clock.now() + 0.05
    clock.wait(at=0.05, until=look)
    for _ in range(10):
        assert asked.acquire(timeout=60)
    stood = clock.now()
    assert over <= stood <= over + 0.05
    for _ in range(10):
        assert asked.acquire(timeout=60)
    assert clock.now() == stood
    happened.set()
    while clock.now() < stood + 0.05:
        time.sleep(0.001)
    clock.close()


@pytest.mark.skipif(os.name == "nt", reason="SIGSTOP")
def test_own_time_stands_while_the_process_does_not_run() -> None:
    """As the extreme of a busy machine the process is stopped for a second, which is no second of its own."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", COUNTS]
    with Run(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def now() -> float:
            process.stdin.write("\n")
            process.stdin.flush()
            return float(process.stdout.readline())

        first, began = now(), time.monotonic()
        process.send_signal(signal.SIGSTOP)
        time.sleep(1.0)
        process.send_signal(signal.SIGCONT)
        passed = now() - first
        assert passed <= time.monotonic() - began - 0.9

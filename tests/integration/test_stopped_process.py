"""A process that is stopped for longer than the give-up time (Ctrl-Z, a batch system, a paused machine) goes on."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from faults.behaviours import Ok, Stall
from support.fetching import User, finish

DATA = random.Random(12).randbytes(4 << 20)
PATIENCE = 15.0
GUARD = 60.0
"""Seconds; only a test that would hang needs them."""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc says whether a process is stopped")


def until(is_so):
    ends = time.monotonic() + GUARD
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.02)


def state(pid):
    """The letter of proc(5): T for stopped."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


@pytest.mark.parametrize("answered", [True, False])
def test_a_process_stopped_for_longer_than_give_up_after(tmp_path, fault_server, answered):
    """Its server has dropped the connection meanwhile; it asks again, and ends well with what it had kept."""
    server = fault_server()
    server.put("/file.bin", DATA)
    server.script(0, [(Stall(1 << 20 if answered else 0),), (Ok(),)])
    user, target = User(tmp_path / "user"), tmp_path / "file.bin"
    digest = hashlib.sha256(DATA).hexdigest()
    command = ["get", f"{server.base()}/file.bin", "--sha256", digest, "-o", target]
    with user.start(*command, "--give-up-after", f"{PATIENCE}s", "--per-host", 1, "--json") as run:
        until(lambda: server.body_bytes() >= 1 << 20 if answered else server.requests())
        os.kill(run.pid, signal.SIGSTOP)
        until(lambda: state(run.pid) == "T")
        server.drop_connections()
        time.sleep(PATIENCE + 2.0)  # at least: however long it is, it is no lack of progress
        os.kill(run.pid, signal.SIGCONT)
        done = finish(run, timeout=GUARD)
    assert done.code == 0, done.err
    assert target.read_bytes() == DATA
    first, *later = server.requests()
    assert later  # asked again, one connection after another: a second one would take over what the first is sent
    assert server.body_bytes() <= len(DATA) + first.sent  # and nothing twice but what the dropped connection lost

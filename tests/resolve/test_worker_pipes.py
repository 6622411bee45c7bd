"""The pipes between this process and its worker: where one cannot be read any more, nothing waits for an answer."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from resume_dl.errors import WorkerCrashedError
from resume_dl.resolve.worker import RattlerWorker

GUARD = 60.0
"""Seconds; only a side that would wait for ever needs them."""
pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptors that are replaced under a reader")


def ask_twice(worker):
    for _ in range(2):
        assert worker.request("parse_specs", {"specs": []}, GUARD) == []


def test_an_answer_that_cannot_be_read_is_a_crash():
    """The reader of the worker's answers breaks: a request is told so, and the next one is served."""
    with RattlerWorker() as worker:
        assert worker.request("parse_specs", {"specs": []}, GUARD) == []
        child = worker._child
        folder = os.open("/", os.O_RDONLY)
        os.dup2(folder, child.process.stdout.fileno())
        os.close(folder)
        with pytest.raises(WorkerCrashedError, match="cannot be read") as caught:
            ask_twice(worker)  # a read that was under way still gets one answer
        assert caught.value.exit_code == 70
        assert worker.request("parse_specs", {"specs": []}, GUARD) == []


def test_a_worker_that_cannot_read_its_requests_ends():
    """Its parent waits for the answer to a request that never came in: the end of the process is that answer."""
    program = (
        "import os, runpy; folder = os.open('/', os.O_RDONLY); os.dup2(folder, 0); "
        "runpy.run_module('resume_dl.rattler_worker', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, timeout=GUARD, check=False)
    assert done.returncode == 1

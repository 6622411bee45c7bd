"""Whatever ends a thread of the engine, the run hears of it and ends."""

from __future__ import annotations

import threading
import time
from queue import SimpleQueue

import pytest

from engine.running import DATA, NAME, artifact
from resume_dl.engine.pool import Pool
from resume_dl.errors import InternalError
from resume_dl.store.part import JournaledPart
from resume_dl.threads import start_thread

GUARD = 60.0
"""Seconds; only a run that would hang needs them."""


def guard():
    """A cancel that never comes, and ends a run that would hang."""
    ends = time.monotonic() + GUARD

    def cancelled():
        assert time.monotonic() < ends, "the run hangs"
        return False

    return cancelled


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_a_thread_reports_the_exception_that_ends_it(error):
    """Any exception, also one that would only end the thread."""
    heard: SimpleQueue[BaseException] = SimpleQueue()

    def call():
        raise error("x")

    start_thread(call, heard.put, name="test").join(GUARD)
    assert isinstance(heard.get(timeout=GUARD), error)


@pytest.mark.parametrize("error", [KeyError, SystemExit])
def test_an_exception_of_a_call_is_reported_and_its_thread_continues(error):
    """With one thread at most, the next call is served by the same one."""
    pool, heard, served = Pool("test", 1), SimpleQueue(), SimpleQueue()

    def broken():
        raise error("x")

    for call in (broken, lambda: served.put(threading.current_thread().name)):
        pool.submit(call, heard.put)
    assert isinstance(heard.get(timeout=GUARD), Exception)
    assert served.get(timeout=GUARD) == "test-0"
    pool.close()


def test_a_thread_that_cannot_be_started_is_reported(monkeypatch):
    """The caller hears it where it hears of the call's own failures, and nowhere else."""

    def none_left(*_: object, **__: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    heard = []
    Pool("test").submit(lambda: None, heard.append)
    assert [type(each) for each in heard] == [RuntimeError]


@pytest.mark.parametrize("name", ["connection", "store", "hash"])
def test_a_run_without_threads_left_ends(fault_server, place, monkeypatch, name):
    """Where the system has no thread left for connections, the store or the digest, the file fails by its name."""
    server = fault_server()
    server.put(f"/{NAME}", DATA)
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith(f"{name}-"):
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    (outcome,) = place.run(artifact(server.base()), cancelled=guard())
    assert isinstance(outcome.error, InternalError)
    assert outcome.error.exit_code == 70
    assert NAME in outcome.error.message


@pytest.mark.parametrize(
    "method", ["resume", "write", "record_written", "sync_data", "record_durable", "advance_digest", "publish"]
)
@pytest.mark.parametrize("error", [TypeError, SystemExit])
def test_a_defect_in_the_store_ends_the_file_and_not_the_program(fault_server, place, monkeypatch, method, error):
    """Wherever the exception comes from, it is this file's result, with exit code 70; nothing waits for ever."""
    server = fault_server()
    server.put(f"/{NAME}", DATA)

    def broken(*_: object, **__: object) -> None:
        raise error("a defect")

    monkeypatch.setattr(JournaledPart, method, broken)
    (outcome,) = place.run(artifact(server.base()), cancelled=guard(), sync_bytes=1, sync_seconds=0.0)
    assert isinstance(outcome.error, InternalError)
    assert outcome.error.exit_code == 70
    assert NAME in outcome.error.message
    assert place.content() is None

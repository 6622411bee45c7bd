"""Threads that are kept, and never wait for each other unless told to."""

from __future__ import annotations

import threading
from queue import SimpleQueue

from engine.orders import until
from resume_dl.engine.pool import Pool


def unheard(error):
    """None of these calls raises."""
    raise error


def test_calls_do_not_wait_for_each_other():
    """Calls that wait for each other all run, also after threads have become idle."""
    pool = Pool("test")
    for count in (1, 5, 3, 9):
        together = threading.Barrier(count + 1)
        for _ in range(count):
            pool.submit(lambda together=together: together.wait(10) and None, unheard)
        together.wait(10)
    pool.close()


def test_idle_threads_are_reused():
    """One call after the other goes to the thread that is idle; closing ends it."""
    pool = Pool("test")
    seen: SimpleQueue[threading.Thread] = SimpleQueue()
    threads = set()
    for _ in range(20):
        pool.submit(lambda: seen.put(threading.current_thread()), unheard)
        threads.add(seen.get(timeout=60))
        until(lambda: pool._idle == 1)
    (thread,) = threads
    assert thread.daemon
    pool.close()
    until(lambda: not thread.is_alive())


def test_the_number_of_threads_is_bounded():
    """With a limit the others wait for their turn, in order."""
    pool = Pool("test", 2)
    gate, begun = threading.Event(), SimpleQueue()

    def work(number):
        begun.put(number)
        assert gate.wait(10)

    for number in range(6):
        pool.submit(lambda number=number: work(number), unheard)
    assert {begun.get(timeout=60), begun.get(timeout=60)} == {0, 1}
    assert begun.empty()
    gate.set()
    assert [begun.get(timeout=60) for _ in range(4)] == [2, 3, 4, 5]
    pool.close()

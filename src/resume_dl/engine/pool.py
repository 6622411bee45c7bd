"""A pool of daemon threads, started on demand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from resume_dl.threads import start_thread

Failed = Callable[[Exception], None]
"""Called with an exception, from any thread."""
_Call = tuple[Callable[[], None], Failed]


class Pool:
    """Runs calls in daemon threads, so that the process can exit during a hash or a connect.

    Without ``most`` a call never waits for another: a thread stuck in a connect or a sync delays no other. With it, at
    most so many calls run at once; the others wait, in order.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Callable[[], None], failed: Failed) -> None:
        """Run ``call`` in a thread. ``failed`` gets its exception, or that of starting the thread.

        Never raises, so every failure is reported in the same way.
        """
        with self._lock:
            number = self._threads
            if self._idle:
                self._idle -= 1
                grow = False
            else:
                grow = self._most is None or self._threads < self._most
                self._threads += grow  # under the lock: several threads may submit
        if grow:
            try:
                # Threads are reused: starting one takes a millisecond, as long as a small file.
                start_thread(self._work, lambda _: None, name=f"{self._name}-{number}")
            except (RuntimeError, MemoryError) as error:
                with self._lock:
                    self._threads -= 1
                failed(error)
                return
        self._calls.put((call, failed))

    def close(self) -> None:
        """Let each thread end after the submitted calls; call ``submit`` no more."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (given := self._calls.get()) is not None:
            call, failed = given
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - it is reported, and the thread serves the next call
                failed(error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__} in a thread"))
            del given, call, failed  # an idle thread must not keep the last call's objects alive
            with self._lock:
                self._idle += 1

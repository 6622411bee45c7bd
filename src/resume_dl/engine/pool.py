"""Daemon threads that serve one call after another, made when none is idle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

from resume_dl.threads import start_thread

Failed = Callable[[Exception], None]
"""Takes an exception, from any thread."""
_Call = tuple[Callable[[], None], Failed]


class Pool:
    """Runs calls in daemon threads: a process that must end waits neither for a hash nor for a connect.

    Without ``most`` a call never waits for another: a thread that is stuck in a connect or a sync delays no other.
    With it, calls beyond so many wait for their turn, in order.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Callable[[], None], failed: Failed) -> None:
        """Run ``call`` soon. ``failed`` hears of any exception of it, and where no thread could be started for it.

        It never raises: what waits for the call has one place to hear of its end.
        """
        with self._lock:
            number = self._threads
            if self._idle:
                self._idle -= 1
                grow = False
            else:
                grow = self._most is None or self._threads < self._most
                self._threads += grow  # here: several threads may submit
        if grow:
            try:
                # Starting one takes a millisecond, as long as a small file: hence they are kept.
                start_thread(self._work, lambda _: None, name=f"{self._name}-{number}")
            except (RuntimeError, MemoryError) as error:
                with self._lock:
                    self._threads -= 1
                failed(error)
                return
        self._calls.put((call, failed))

    def close(self) -> None:
        """Let each thread end once it has no call; nothing is submitted afterwards."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (given := self._calls.get()) is not None:
            call, failed = given
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - what waits is told, and the thread serves the next call
                failed(error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__} in a thread"))
            del given, call, failed  # or an idle thread would keep what it worked on alive
            with self._lock:
                self._idle += 1

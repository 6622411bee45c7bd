"""Daemon threads that serve one call after another, made when none is idle."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class Pool:
    """Runs calls in daemon threads: a process that must end waits neither for a hash nor for a connect.

    Without ``most`` a call never waits for another: a thread that is stuck in a connect or a sync holds up nobody.
    With it, calls beyond so many wait for their turn, in order.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0

    def submit(self, call: Callable[[], None]) -> None:
        """Run ``call`` soon; it must not raise. Raises RuntimeError where a thread is needed and none can be made."""
        with self._lock:
            if self._idle:
                self._idle -= 1
                grow = False
            else:
                grow = self._most is None or self._threads < self._most
        if grow:
            # Starting one takes a millisecond, as long as a small file: hence they are kept.
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
            self._threads += 1
        self._calls.put(call)

    def close(self) -> None:
        """Let each thread end once it has no call; nothing is submitted afterwards."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            del call  # or an idle thread would keep what it worked on alive
            with self._lock:
                self._idle += 1

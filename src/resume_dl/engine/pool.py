"""A few daemon threads for the store's slow calls: journals, syncs, hashing, renames."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

THREADS = 4
"""Two cores hash, two more calls may wait for the disk; more would only queue there."""


class Pool:
    """Runs calls in daemon threads: a process that must end does not wait for a hash."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def submit(self, call: Callable[[], None]) -> None:
        """Run ``call`` soon; it must not raise."""
        if len(self._threads) < THREADS:
            thread = threading.Thread(target=self._work, name=f"store-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._calls.put(call)

    def close(self) -> None:
        """Let the threads end when their calls are done."""
        for _ in self._threads:
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()

"""Rate limit (``--limit-rate``), shared by all connections of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from resume_dl.core.policy import KIB
from resume_dl.core.rate import TokenBucket
from resume_dl.ports import Clock

PORTIONS = 32
"""Portions per second of the limit: with eight connections, each receives four portions a second."""


class RateLimiter:
    """A token bucket for all workers; their waits end early when their connection is closed."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._bucket = TokenBucket(rate, clock.now())
        self._clock = clock
        self.portion = max(KIB, int(rate / PORTIONS))
        """Bytes per payment: small, so that no connection appears silent while it waits for the others."""
        self._lock = threading.Lock()

    def pay(self, count: int, closed: threading.Event) -> None:
        """Take ``count`` bytes from the bucket, then wait as long as it requires or until ``closed`` is set."""
        with self._lock:
            delay = self._bucket.take(count, self._clock.now())
        if delay > 0:
            closed.wait(delay)

    def portions(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Split chunks into portions: a large chunk would wait for so long that its connection seemed stalled."""
        for chunk in chunks:
            for at in range(0, len(chunk), self.portion):
                yield chunk[at : at + self.portion]

"""``--limit-rate``: one allowance of bytes for all connections of a run."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from resume_dl.core.policy import KIB
from resume_dl.core.rate import TokenBucket
from resume_dl.ports import Clock

PORTIONS = 32
"""A limited second is shared in so many portions: eight connections hear of theirs four times in it."""


class RateLimiter:
    """One token bucket for all workers; they sleep what it says, awake to a close."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._bucket = TokenBucket(rate, clock.now())
        self._clock = clock
        self.portion = max(KIB, int(rate / PORTIONS))
        """Bytes to pay for at once: with all connections waiting for each other, none is silent for long."""
        self._lock = threading.Lock()

    def pay(self, count: int, closed: threading.Event) -> None:
        """Spend ``count`` bytes, then wait as long as the bucket says or until ``closed`` is set."""
        with self._lock:
            delay = self._bucket.take(count, self._clock.now())
        if delay > 0:
            closed.wait(delay)

    def portions(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks cut small, or what is already here would count as a stall while it waits for its turn."""
        for chunk in chunks:
            for at in range(0, len(chunk), self.portion):
                yield chunk[at : at + self.portion]

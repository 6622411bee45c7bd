"""Which sources have the shards of an index, and which of them answers fastest."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from resume_dl.core.policy import DEFAULTS
from resume_dl.engine.pool import Pool
from resume_dl.errors import ResumeDLError, required
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source

_NEW_SHARE = 0.3
"""How much the newest answer counts in a source's mean."""


class Carriers:
    """Each carrier is asked for one byte of one shard, once a run, and left out where it does not give that.

    ``reader`` does so beside all other requests: it should be one of its own, because a carrier that does not answer
    keeps a connection for as long as patience lasts. None: carriers are not used.
    """

    def __init__(self, reader: Reader | None) -> None:
        self._reader = reader
        self._pool = Pool("carriers")
        self._lock = threading.Lock()
        self._seconds: dict[tuple[str, str], float] = {}
        """Title of the index and mirror -> mean seconds of an answer; infinite where it is left out."""
        self._asked: set[tuple[str, str]] = set()
        self._under_way: Counter[str] = Counter()

    def close(self) -> None:
        """Wait for no carrier any more. Never raises."""
        if self._reader is not None:
            self._reader.stop()
        self._pool.close()

    @contextmanager
    def turn(self, title: str, own: Source, carriers: Sequence[Source]) -> Iterator[list[Source]]:
        """The sources of a shard for one request, best first; ``own`` is that of the index, which is never left out.

        The best is the source that is expected to answer soonest, given the requests that are under way.
        """
        self._look_at_new(title, carriers)
        with self._lock:
            usable = [each for each in carriers if self._mean(title, each) < math.inf]
            sources = sorted([own, *usable], key=lambda each: self._expected(title, each))
            first = sources[0].mirror
            self._under_way[first] += 1
        try:
            yield list({source.url: source for source in sources}.values())
        finally:
            with self._lock:
                self._under_way[first] -= 1

    def others(self, title: str, carriers: Sequence[Source], tried: Sequence[Source]) -> list[Source]:
        """The carriers that were not tried, and of which it is not known that they lack the shards."""
        with self._lock:
            return [
                each
                for each in carriers
                if each not in tried and self._seconds.get((title, each.mirror), 0.0) < math.inf
            ]

    def _mean(self, title: str, source: Source) -> float:
        return self._seconds.get((title, source.mirror), math.inf)

    def _expected(self, title: str, source: Source) -> float:
        rounds = 1 + self._under_way[source.mirror] // (source.connections or DEFAULTS.per_host)
        return self._seconds.get((title, source.mirror), 0.0) * rounds

    def _look_at_new(self, title: str, carriers: Sequence[Source]) -> None:
        for carrier in carriers if self._reader is not None else ():
            with self._lock:
                known = (title, carrier.mirror) in self._asked
                self._asked.add((title, carrier.mirror))
            if not known:
                self._pool.submit(partial(self._look, title, carrier), lambda _: None)

    def answered(self, title: str, source: Source, seconds: float) -> None:
        """The source gave a shard."""
        with self._lock:
            known = self._mean(title, source)
            mean = seconds if known == math.inf else known + _NEW_SHARE * (seconds - known)
            self._seconds[title, source.mirror] = mean

    def failed(self, title: str, source: Source) -> None:
        """The source did not give a shard, or other bytes: it is left out for the rest of the run."""
        with self._lock:
            self._seconds[title, source.mirror] = math.inf

    def _look(self, title: str, carrier: Source) -> None:
        reader = required(self._reader, "the reader of sizes")
        began = time.monotonic()
        try:
            reader.size([carrier])
        except (Unanswered, ResumeDLError):
            self.failed(title, carrier)
            return
        self.answered(title, carrier, time.monotonic() - began)

"""Selection among the sources of an index's shards: which have them, and which answers fastest."""

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
"""The weight of the latest answer in a source's moving average."""


class Carriers:
    """Probes each carrier once per run with a request for one byte of a shard, and leaves out those that fail.

    ``reader`` sends the probes in parallel with all other requests; it should be a separate one, because a carrier that
    does not answer occupies a connection until the time limit. None: carriers are not used.
    """

    def __init__(self, reader: Reader | None) -> None:
        self._reader = reader
        self._pool = Pool("carriers")
        self._lock = threading.Lock()
        self._seconds: dict[tuple[str, str], float] = {}
        """(Title of the index, mirror) -> mean seconds per answer; infinite if it is left out."""
        self._asked: set[tuple[str, str]] = set()
        self._under_way: Counter[str] = Counter()

    def close(self) -> None:
        """Cancel all probes. Never raises."""
        if self._reader is not None:
            self._reader.stop()
        self._pool.close()

    @contextmanager
    def turn(self, title: str, own: Source, carriers: Sequence[Source]) -> Iterator[list[Source]]:
        """Provide a shard's sources for one request, best first; ``own``, the index's source, is never left out.

        The best source is the one expected to answer first, given the active requests.
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
        """Return the carriers that were not tried and are not known to lack the shards."""
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
        """Record that the source supplied a shard in ``seconds``."""
        with self._lock:
            known = self._mean(title, source)
            mean = seconds if known == math.inf else known + _NEW_SHARE * (seconds - known)
            self._seconds[title, source.mirror] = mean

    def failed(self, title: str, source: Source) -> None:
        """Record that the source supplied no shard or wrong bytes: it is left out for the rest of the run."""
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

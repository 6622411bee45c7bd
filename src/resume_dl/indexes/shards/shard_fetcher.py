"""Download of shards (CEP 16): the index from the authority, shards from any source, verified by the index's hashes.

Any failure is a reason to fetch the whole index instead, never an error of its own.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from resume_dl.core.failures import FailureKind
from resume_dl.core.reachability import Reachability
from resume_dl.engine.pool import Pool
from resume_dl.errors import SourceError
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness
from resume_dl.indexes.hashed_file import HashedFile
from resume_dl.indexes.shards.answers import Answers, Unavailable, named_error
from resume_dl.indexes.shards.carriers import Carriers
from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.shards.index_fetch import IndexFetcher
from resume_dl.indexes.shards.open_index import CONNECTIONS, NoIndex, OpenIndex, ShardSources
from resume_dl.indexes.shards.packed import BadShardsError
from resume_dl.indexes.shards.shard import LARGEST_SHARD, parse_shard
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.indexes.small_answers import Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.ports import ArtifactProgress, Reporter

_AHEAD = 2
"""The number of additional requests to queue, so that a free connection always has one."""
TRIES = 10
"""Consecutive failures before a shard is given up; even on an unstable connection shards beat a whole index."""


class ShardFetcher:
    """Fetches through ``reader``, which ``close`` stops; not thread-safe. ``offline``: only kept shards are used.

    ``hurried`` is another Reader, with short time limits, for shard indexes and for probes of carriers; without it
    carriers are not used. ``network`` records unreachable hosts. ``freshness`` is the age up to which a kept index is
    used without a request. ``cancelled`` is called while waiting for answers.
    """

    def __init__(
        self,
        reader: Reader,
        store: ShardStore,
        reporter: Reporter,
        *,
        hurried: Reader | None = None,
        network: Reachability | None = None,
        offline: bool = False,
        freshness: Freshness = AS_SERVERS_SAY,
        cancelled: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._store = store
        self._reporter = reporter
        self._offline = offline
        self._cancelled = cancelled
        self._indexes = IndexFetcher(
            hurried or reader,
            store,
            reporter,
            network=network or Reachability(),
            offline=offline,
            freshness=freshness,
            cancelled=cancelled,
            now=now,
        )
        self._carriers = Carriers(hurried)
        self._pool = Pool("shards", CONNECTIONS + _AHEAD)
        self._downloaded = 0

    @property
    def downloaded(self) -> int:
        """Body bytes of indexes and shards downloaded so far."""
        return self._indexes.downloaded + self._downloaded

    def close(self) -> None:
        """End every request and every thread. Never raises."""
        self._reader.stop()
        self._indexes.stop()
        self._carriers.close()
        self._pool.close()
        self._indexes.close()

    def open(self, wanted: Sequence[ShardSources], *, past_caches: bool = False) -> list[OpenIndex | NoIndex]:
        """Fetch the shard index of each in parallel; ``past_caches``: bypass caches. Raises Interrupted."""
        return self._indexes.open(wanted, past_caches=past_caches)

    def fetch(self, opened: Sequence[OpenIndex], names: Collection[str], closure: Closure) -> None:
        """Fetch the shards of ``names`` and of their dependencies, by ``closure``, of each index that has them.

        An index becomes ``broken`` if one of its shards is unavailable, and is not used further. Raises Interrupted.
        """
        waiting = Answers[Sequence[_Asked], Sequence[_Came | None]](self._pool, self._cancelled)
        kept_digests = self._store.digests()

        def ask(names: Collection[str]) -> None:
            asked = [
                _Asked(each, name, digest)
                for each in opened
                if not each.broken
                for name in names
                if name not in each.shards and (digest := each.index.digest_of(name)) is not None
            ]
            kept = []
            for each_asked in asked:
                if each_asked.digest in kept_digests:
                    kept.append(each_asked)
                else:
                    waiting.submit([each_asked], partial(self._shard, each_asked.index, each_asked.digest))
            at_once = math.ceil(len(kept) / CONNECTIONS)  # several threads, for slow disks
            for start in range(0, len(kept), at_once or 1):
                batch = kept[start : start + at_once]
                waiting.submit(batch, partial(self._kept_shards, batch))

        ask(names)
        for batch, answer in waiting:
            if isinstance(answer, Unanswered | SourceError | Unavailable):
                self._break(batch[0].index, f"{batch[0].name}: {answer}")
                continue
            if isinstance(answer, BaseException):
                raise named_error(answer, f"the shard of {batch[0].name} in {batch[0].index.sources.title}")
            for asked, came in zip(batch, answer, strict=True):
                if came is None:
                    waiting.submit([asked], partial(self._shard, asked.index, asked.digest))
                else:
                    ask(closure.add(self._taken(asked, came)))
        self._indexes.finish_writes()
        for each in opened:
            self._tell(each, "downloaded")

    def _taken(self, asked: _Asked, came: _Came) -> Collection[str]:
        """Record a shard; return the names that it mentions. A refused shard breaks its index."""
        each = asked.index
        each.downloaded += came.downloaded
        self._downloaded += came.downloaded
        each.carried_by |= {came.mirror} - {""}
        self._tell(each, "downloading")
        try:
            shard = each.shards[asked.name] = parse_shard(came.data, name=asked.name)
        except BadShardsError as error:
            self._break(each, f"{asked.name}: {error}")
            return ()
        return shard.mentioned

    def _kept_shards(self, batch: Sequence[_Asked]) -> list[_Came | None]:
        """Return the kept shards; None for those that have to be fetched."""
        found = [self._store.read(asked.digest) for asked in batch]
        return [None if data is None else _Came(data) for data in found]

    def _tell(self, index: OpenIndex, state: str) -> None:
        """Report an index's progress; the total is unknown until the closure is complete."""
        title, came = index.sources.title, index.downloaded
        channel = title.rpartition("/")[0]
        if came:
            self._reporter.progress(ArtifactProgress(f"shards-{title}", title, None, came, 0, state, index=channel))

    def _break(self, index: OpenIndex, why: str) -> None:
        if not index.broken:
            index.broken = why
            text = f"a shard of {index.sources.title} cannot be used ({index.source.url.host}): {why}"
            self._reporter.message(f"{text}; fetching its whole index", level="warning")

    def _shard(self, each: OpenIndex, digest: str) -> list[_Came]:
        """Fetch one shard; only its digest is verified. Raises Unavailable, Unanswered, Interrupted."""
        if self._offline:
            raise Unavailable("there is no kept copy, and the run is offline")
        if each.broken:
            raise Unavailable("another shard has failed")
        title, file = each.sources.title, HashedFile(digest, LARGEST_SHARD)

        def attempt(source: Source) -> tuple[Source, bytes] | Refused[tuple[Source, bytes]]:
            began = time.monotonic()
            answer = self._reader.hashed(source, file)
            if isinstance(answer, Refused):
                if (
                    not answer.progressed and answer.failure.kind is not FailureKind.CHANGED
                ):  # otherwise it is asked again
                    self._carriers.failed(title, source)
                return Refused(answer.failure, progressed=answer.progressed)
            self._carriers.answered(title, source, time.monotonic() - began)
            return source, answer

        own, carriers = each.own.shard(digest), [folder.shard(digest) for folder in each.carriers]
        with self._carriers.turn(title, own, carriers) as sources:
            try:
                source, data = self._reader.ask(sources, attempt, tries=TRIES)
            except Unanswered as unanswered:
                others = self._carriers.others(title, carriers, sources)
                if not others:
                    raise
                try:
                    source, data = self._reader.ask(others, attempt)
                except Unanswered as more:
                    raise Unanswered((*unanswered.failures, *more.failures)) from more
        self._store.keep(digest, data)
        return [_Came(data, file.received, source.mirror)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A requested shard: its index, package name, and digest as hex."""

    index: OpenIndex
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Came:
    """A shard's bytes, the number of bytes downloaded for it, and the mirror that supplied it."""

    data: bytes
    downloaded: int = 0
    mirror: str = ""

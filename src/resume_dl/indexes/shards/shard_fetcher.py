"""Shard indexes from the authority, and shards from any source: the index has the hash of each, so none can be forged.

CEP 16. Whatever fails here is a reason to fetch the whole index, and never an error of its own.
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
"""So many shards more are made ready to be asked for: a connection that is free has no one to wait for."""
TRIES = 10
"""So many failures in a row, and a shard is given up: a line that comes and goes is better than a whole index on it."""


class ShardFetcher:
    """Fetches through ``reader``, which it stops in the end; used from one thread. ``offline`` takes what is kept.

    ``hurried`` is another Reader, for what others can answer in its place: a shard index, and whether a carrier has
    shards; without it carriers are not asked. ``network`` knows the hosts that were waited for in vain. ``freshness``
    says how old a kept index may be that is used without a request. ``cancelled`` is asked while answers are awaited.
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
        """Body bytes of indexes and shards that came over the line so far."""
        return self._indexes.downloaded + self._downloaded

    def close(self) -> None:
        """End every request and every thread. Never raises."""
        self._reader.stop()
        self._indexes.stop()
        self._carriers.close()
        self._pool.close()
        self._indexes.close()

    def open(self, wanted: Sequence[ShardSources], *, past_caches: bool = False) -> list[OpenIndex | NoIndex]:
        """The shard index of each, all asked for at once; ``past_caches``: of the server itself. Raises Interrupted."""
        return self._indexes.open(wanted, past_caches=past_caches)

    def fetch(self, opened: Sequence[OpenIndex], names: Collection[str], closure: Closure) -> None:
        """The shards of ``names``, and of every name that they lead ``closure`` to, of each index that has them.

        An index whose shard cannot be had is ``broken`` then, and nothing more is asked of it. Raises Interrupted.
        """
        waiting = Answers[Sequence[_Asked], Sequence[_Came | None]](self._pool, self._cancelled)

        def ask(names: Collection[str]) -> None:
            asked = [
                _Asked(each, name, digest)
                for each in opened
                if not each.broken
                for name in names
                if name not in each.shards and (digest := each.index.digest_of(name)) is not None
            ]
            at_once = math.ceil(len(asked) / CONNECTIONS)  # a slow disk is read by several threads too
            for start in range(0, len(asked), at_once or 1):
                batch = asked[start : start + at_once]
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
        """Note a shard; the names that it mentions. One that is refused breaks its index."""
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
        """What is kept of these; None for those that have to be fetched."""
        found = [self._store.read(asked.digest) for asked in batch]
        return [None if data is None else _Came(data) for data in found]

    def _tell(self, index: OpenIndex, state: str) -> None:
        """What came of an index so far; the size of the closure is not known before its end."""
        title, came = index.sources.title, index.downloaded
        channel = title.rpartition("/")[0]
        if came:
            self._reporter.progress(ArtifactProgress(f"shards-{title}", title, None, came, 0, state, index=channel))

    def _break(self, index: OpenIndex, why: str) -> None:
        if not index.broken:
            index.broken = why
            text = f"a shard of {index.sources.title} cannot be used ({index.source.url.host}): {why}"
            self._reporter.message(f"{text}; its whole index is fetched", level="warning")

    def _shard(self, each: OpenIndex, digest: str) -> list[_Came]:
        """One shard, of which only its digest was verified. Raises Unavailable, Unanswered, Interrupted."""
        if self._offline:
            raise Unavailable("it is not kept, and this is offline")
        if each.broken:
            raise Unavailable("another one failed before")
        title, file = each.sources.title, HashedFile(digest, LARGEST_SHARD)

        def attempt(source: Source) -> tuple[Source, bytes] | Refused[tuple[Source, bytes]]:
            began = time.monotonic()
            answer = self._reader.hashed(source, file)
            if isinstance(answer, Refused):
                if not answer.progressed and answer.failure.kind is not FailureKind.CHANGED:  # it is asked again
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
    """A shard that is wanted: its index, its package's name, and its digest as hex."""

    index: OpenIndex
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class _Came:
    """Bytes of a shard; how many bytes were downloaded for it, and the mirror that gave it."""

    data: bytes
    downloaded: int = 0
    mirror: str = ""

"""Shard indexes from the authority, and shards from any source: the index has the hash of each, so none can be forged.

CEP 16. Whatever fails here is a reason to fetch the whole index, and never an error of its own.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.reachability import Reachability
from resume_dl.core.responses import cache_headers
from resume_dl.engine.pool import Pool
from resume_dl.errors import Interrupted, ResumeDLError, SourceError, internal_error
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness, Note
from resume_dl.indexes.shards.carriers import Carriers
from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.shards.index import FILENAME, LARGEST_INDEX, ShardFolder, ShardIndex, parse_index
from resume_dl.indexes.shards.packed import BadShardsError
from resume_dl.indexes.shards.shard import LARGEST_SHARD, Shard, parse_shard
from resume_dl.indexes.shards.store import KeptIndex, ShardStore
from resume_dl.indexes.small_answers import Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.http import CacheHeaders
from resume_dl.ports import ArtifactProgress, Reporter

CONNECTIONS = 8
"""To a host for which the mirrors table has no limit: at 50 ms they bring 120 shards in a second, 4 in two."""
_AHEAD = 2
"""So many shards more are made ready to be asked for: a connection that is free has no one to wait for."""
_TICK = 0.1
"""Seconds after which a wait looks whether the user has stopped it."""
TRIES = 10
"""So many failures in a row, and a shard is given up: a line that comes and goes is better than a whole index on it."""
_SILENT = frozenset({FailureKind.UNREACHABLE, FailureKind.STALLED})
_PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}


@dataclass(frozen=True, slots=True)
class ShardSources:
    """Where one subdir's index may come from, and which others may have its shards; URLs of the index."""

    title: str
    """``conda-forge/linux-64``"""
    subdir: str
    authorities: tuple[Source, ...]
    carriers: tuple[Source, ...] = ()


@dataclass(slots=True)
class OpenIndex:
    """An index that was parsed, and what its shards have brought."""

    sources: ShardSources
    source: Source
    """It vouches for the index."""
    index: ShardIndex
    digest: str
    """SHA-256 of the index as it came."""
    checked: float
    """When the source last said that it is current, in seconds since 1970."""
    own: ShardFolder
    """Where the source has the shards."""
    carriers: tuple[ShardFolder, ...] = ()
    """Where others may have them."""
    downloaded: int = 0
    """Bytes of index and shards that came in this run."""
    carried_by: set[str] = field(default_factory=set)
    """The mirrors that gave shards in this run."""
    shards: dict[str, Shard] = field(default_factory=dict)
    """By name; those that were asked for."""
    unkept: KeptIndex | None = None
    """What came in this run, to be kept for the next."""
    broken: str = ""
    """Why a shard cannot be had: the whole index is needed."""


@dataclass(frozen=True, slots=True)
class NoIndex:
    """Why there is no shard index."""

    why: str
    kinds: frozenset[FailureKind] = frozenset()
    downloaded: int = 0


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
        self._freshness = freshness
        self._cancelled = cancelled
        self._now = now
        self._hurried = hurried or reader
        self._network = network or Reachability()
        self._carriers = Carriers(hurried)
        self._pool = Pool("shards", CONNECTIONS + _AHEAD)
        self._writing = Pool("shard-index-kept")
        self._writes = _Answers[None, None](self._writing, cancelled)
        """Indexes that are being kept: a sync may take longer than a request, and the shards need not wait for it."""
        self.downloaded = 0
        """Body bytes of indexes and shards that came over the line so far."""

    def close(self) -> None:
        """End every request and every thread. Never raises."""
        self._reader.stop()
        self._hurried.stop()
        self._carriers.close()
        self._pool.close()
        with suppress(Interrupted):
            self._finish_writes()
        self._writing.close()

    # ------------------------------------------------------------------ indexes

    def open(self, wanted: Sequence[ShardSources], *, past_caches: bool = False) -> list[OpenIndex | NoIndex]:
        """The shard index of each, all asked for at once; ``past_caches``: of the server itself. Raises Interrupted."""
        self._finish_writes()
        found: dict[int, OpenIndex | NoIndex] = {}
        pool = Pool("shard-index")
        waiting = _Answers[int, OpenIndex](pool, self._cancelled)
        try:
            for number, sources in enumerate(wanted):
                waiting.submit(number, partial(self._opened, sources, past_caches=past_caches))
            for number, answer in waiting:
                if isinstance(answer, Unanswered):
                    found[number] = NoIndex(str(answer), answer.kinds)
                elif isinstance(answer, _Unavailable | SourceError):
                    found[number] = NoIndex(str(answer))
                elif isinstance(answer, BaseException):
                    raise _named(answer, f"the shard index of {wanted[number].title}")
                else:
                    found[number] = answer
                    self.downloaded += answer.downloaded
                    if answer.unkept is not None:
                        self._writes.submit(None, partial(self._store.keep_index, answer.source.url, answer.unkept))
        finally:
            pool.close()
        for number, each in found.items():
            if isinstance(each, NoIndex):
                level = "warning" if FailureKind.CONTENT in each.kinds else "debug"
                self._reporter.message(f"no shards of {wanted[number].title}: {each.why}", level=level)
        return [found[number] for number in range(len(wanted))]

    def _opened(self, wanted: ShardSources, *, past_caches: bool) -> OpenIndex:
        kept = {source.url: self._kept(wanted, source) for source in wanted.authorities}
        for source in wanted.authorities:
            known = kept[source.url]
            if known is not None and (
                self._offline or (not past_caches and self._freshness.allows(known[0].note, self._now()))
            ):
                return _open(wanted, source, *known)
        if self._offline:
            raise _Unavailable("none is kept, and this is offline")
        if not wanted.authorities:
            raise _Unavailable("its authority may not be asked")
        asked = [source for source in wanted.authorities if past_caches or not self._is_absent(source)]
        if not asked:
            raise _Unavailable("its authority had none in an earlier run; --refresh asks again")
        hosts = {source.url.host for source in asked}
        if self._network.is_given_up(hosts):
            raise _Unavailable("its authority has not answered before")

        def attempt(source: Source) -> OpenIndex | Refused[OpenIndex]:
            return self._ask_for_index(wanted, source, kept.get(source.url), past_caches=past_caches)

        try:
            return self._hurried.ask([_many(source) for source in asked], attempt)
        except Unanswered as unanswered:
            if wanted.carriers and unanswered.kinds <= _SILENT:
                self._network.give_up(hosts)  # they can answer in its place, and the whole index need not wait again
            raise

    def _finish_writes(self) -> None:
        """Wait until the indexes that came are kept; one that cannot be costs the next run its bytes.

        Raises Interrupted.
        """
        for _ in self._writes:
            pass

    def _kept(self, wanted: ShardSources, source: Source) -> tuple[KeptIndex, ShardIndex] | None:
        kept = self._store.index(source.url)
        if kept is None or kept.note.source != str(source.url):
            return None
        try:
            return kept, parse_index(kept.data, subdir=wanted.subdir, url=source.url.reveal())
        except BadShardsError:
            self._store.forget_index(source.url)
            return None

    def _is_absent(self, source: Source) -> bool:
        """Whether the source has said lately that it has no shard index."""
        note = self._store.absence(source.url)
        known = note is not None and note.source == str(source.url)
        return known and note is not None and self._freshness.allows_absence(note, self._now())

    def _ask_for_index(
        self, wanted: ShardSources, source: Source, kept: tuple[KeptIndex, ShardIndex] | None, *, past_caches: bool
    ) -> OpenIndex | Refused[OpenIndex]:
        headers = {} if kept is None else kept[0].note.said.conditions()
        if past_caches or self._freshness.refresh:
            headers |= _PAST_CACHES
        answer = self._hurried.file(source, headers=headers, largest=LARGEST_INDEX)
        if isinstance(answer, Failure):
            if answer.kind is FailureKind.UNCHANGED and kept is not None:
                note = kept[0].note.confirmed(answer.said or CacheHeaders(), self._now())
                self._store.confirm_index(source.url, kept[0], note)
                return _open(wanted, source, replace(kept[0], note=note), kept[1])
            if answer.kind is FailureKind.LACKS:
                self._store.keep_absence(source.url, Note(str(source.url), CacheHeaders(), self._now()))
            return Refused(answer)
        data, head = answer
        try:
            index = parse_index(data, subdir=wanted.subdir, url=source.url.reveal())
        except BadShardsError as error:
            return Refused(Failure(FailureKind.CONTENT, f"{FILENAME} is refused: {error}"))
        new = KeptIndex(data, Note(str(source.url), cache_headers(head), self._now()))
        opened = _open(wanted, source, new, index)
        opened.downloaded, opened.unkept = len(data), new
        return opened

    # ------------------------------------------------------------------ shards

    def fetch(self, opened: Sequence[OpenIndex], names: Collection[str], closure: Closure) -> None:
        """The shards of ``names``, and of every name that they lead ``closure`` to, of each index that has them.

        An index whose shard cannot be had is ``broken`` then, and nothing more is asked of it. Raises Interrupted.
        """
        waiting = _Answers[Sequence[_Asked], Sequence[_Came | None]](self._pool, self._cancelled)

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
            if isinstance(answer, Unanswered | SourceError | _Unavailable):
                self._break(batch[0].index, f"{batch[0].name}: {answer}")
                continue
            if isinstance(answer, BaseException):
                raise _named(answer, f"the shard of {batch[0].name} in {batch[0].index.sources.title}")
            for asked, came in zip(batch, answer, strict=True):
                if came is None:
                    waiting.submit([asked], partial(self._shard, asked.index, asked.digest))
                else:
                    ask(closure.add(self._taken(asked, came)))
        self._finish_writes()
        for each in opened:
            self._tell(each, "downloaded")

    def _taken(self, asked: _Asked, came: _Came) -> Collection[str]:
        """Note a shard; the names that it mentions. One that is refused breaks its index."""
        each = asked.index
        each.downloaded += came.downloaded
        self.downloaded += came.downloaded
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
        """One shard, of which only its digest was verified. Raises _Unavailable, Unanswered, Interrupted."""
        if self._offline:
            raise _Unavailable("it is not kept, and this is offline")
        if each.broken:
            raise _Unavailable("another one failed before")
        title, lengths = each.sources.title, list[int]()

        def attempt(source: Source) -> tuple[Source, bytes] | Refused[tuple[Source, bytes]]:
            began = time.monotonic()
            answer = self._reader.file(source, largest=LARGEST_SHARD)
            if isinstance(answer, Failure):
                failure = answer
            else:
                lengths.append(len(answer[0]))
                if hashlib.sha256(answer[0]).hexdigest() == digest:
                    self._carriers.answered(title, source, time.monotonic() - began)
                    return source, answer[0]
                failure = Failure(FailureKind.CONTENT, f"gave other bytes than those of the hash {digest}")
            self._carriers.failed(title, source)
            return Refused(failure)

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
        return [_Came(data, sum(lengths), source.mirror)]


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


class _Unavailable(Exception):  # noqa: N818 - a result, whose caller makes words for people of it
    """Nothing can be asked for it."""


K = TypeVar("K")
V = TypeVar("V")


class _Answers(Generic[K, V]):
    """Calls in a pool's threads, and what came of each, as it comes; calls may be added meanwhile."""

    def __init__(self, pool: Pool, cancelled: Callable[[], bool]) -> None:
        self._pool = pool
        self._cancelled = cancelled
        self._queue: SimpleQueue[tuple[K, V | BaseException]] = SimpleQueue()
        self._waiting = 0

    def submit(self, key: K, call: Callable[[], V]) -> None:
        """Make a call soon."""
        self._waiting += 1

        def made() -> None:
            self._queue.put((key, call()))

        self._pool.submit(made, lambda error: self._queue.put((key, error)))

    def __iter__(self) -> Iterator[tuple[K, V | BaseException]]:
        while self._waiting:
            if self._cancelled():
                raise Interrupted("stopped")
            try:
                found = self._queue.get(timeout=_TICK)
            except Empty:
                continue
            self._waiting -= 1
            yield found


def _named(error: BaseException, subject: str) -> ResumeDLError:
    """What a thread ended with, as an error that says what the thread was working on."""
    return error if isinstance(error, ResumeDLError) else internal_error(error, subject)


def _open(wanted: ShardSources, source: Source, kept: KeptIndex, index: ShardIndex) -> OpenIndex:
    digest = hashlib.sha256(kept.data).hexdigest()
    own, carriers = index.shards_of(_many(source)), tuple(map(index.shards_of, wanted.carriers))
    return OpenIndex(wanted, source, index, digest, kept.note.checked, own, carriers)


def _many(source: Source) -> Source:
    """The source with as many connections as small files want, where the mirrors table does not say otherwise."""
    return source if source.connections is not None else replace(source, connections=CONNECTIONS)

"""Shard indexes from their authorities: a kept one while it is fresh, else a conditional request.

CEP 16. Whatever fails here is a reason to fetch the whole index, and never an error of its own.
An index has no digest, so an answer that breaks off is asked for from its first byte again; on a line that never brings
all of it the whole index is fetched, which continues under If-Range.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.reachability import Reachability
from resume_dl.core.responses import cache_headers
from resume_dl.engine.pool import Pool
from resume_dl.errors import Interrupted, SourceError
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness, Note
from resume_dl.indexes.shards.answers import Answers, Unavailable, named_error
from resume_dl.indexes.shards.index import FILENAME, LARGEST_INDEX, ShardIndex, parse_index
from resume_dl.indexes.shards.open_index import NoIndex, OpenIndex, ShardSources, open_index, with_connections
from resume_dl.indexes.shards.packed import BadShardsError
from resume_dl.indexes.shards.store import KeptIndex, ShardStore
from resume_dl.indexes.small_answers import Refused, Unanswered
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.http import CacheHeaders
from resume_dl.ports import Reporter

_SILENT = frozenset({FailureKind.UNREACHABLE, FailureKind.STALLED})
_PAST_CACHES = {"Cache-Control": "no-cache", "Pragma": "no-cache"}


class IndexFetcher:
    """Fetches through ``reader``, which it stops in the end; used from one thread. Options as of ``ShardFetcher``."""

    def __init__(
        self,
        reader: Reader,
        store: ShardStore,
        reporter: Reporter,
        *,
        network: Reachability,
        offline: bool = False,
        freshness: Freshness = AS_SERVERS_SAY,
        cancelled: Callable[[], bool] = lambda: False,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._reader = reader
        self._store = store
        self._reporter = reporter
        self._network = network
        self._offline = offline
        self._freshness = freshness
        self._cancelled = cancelled
        self._now = now
        self._writing = Pool("shard-index-kept")
        self._writes = Answers[None, None](self._writing, cancelled)
        """Indexes that are being kept: a sync may take longer than a request, and the shards need not wait for it."""
        self.downloaded = 0
        """Body bytes of indexes that came over the line so far."""

    def stop(self) -> None:
        """End every request. Never raises."""
        self._reader.stop()

    def close(self) -> None:
        """Wait until the indexes that came are kept, unless the user stops it. Never raises."""
        with suppress(Interrupted):
            self.finish_writes()
        self._writing.close()

    def open(self, wanted: Sequence[ShardSources], *, past_caches: bool = False) -> list[OpenIndex | NoIndex]:
        """The shard index of each, all asked for at once; ``past_caches``: of the server itself. Raises Interrupted."""
        self.finish_writes()
        found: dict[int, OpenIndex | NoIndex] = {}
        pool = Pool("shard-index")
        waiting = Answers[int, OpenIndex](pool, self._cancelled)
        try:
            for number, sources in enumerate(wanted):
                waiting.submit(number, partial(self._opened, sources, past_caches=past_caches))
            for number, answer in waiting:
                if isinstance(answer, Unanswered):
                    found[number] = NoIndex(str(answer), answer.kinds)
                elif isinstance(answer, Unavailable | SourceError):
                    found[number] = NoIndex(str(answer))
                elif isinstance(answer, BaseException):
                    raise named_error(answer, f"the shard index of {wanted[number].title}")
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
                return open_index(wanted, source, *known)
        if self._offline:
            raise Unavailable("none is kept, and this is offline")
        if not wanted.authorities:
            raise Unavailable("its authority may not be asked")
        asked = [source for source in wanted.authorities if past_caches or not self._is_absent(source)]
        if not asked:
            raise Unavailable("its authority had none in an earlier run; --refresh asks again")
        hosts = {source.url.host for source in asked}
        if self._network.is_given_up(hosts):
            raise Unavailable("its authority has not answered before")

        def attempt(source: Source) -> OpenIndex | Refused[OpenIndex]:
            return self._ask_for_index(wanted, source, kept.get(source.url), past_caches=past_caches)

        try:
            return self._reader.ask([with_connections(source) for source in asked], attempt)
        except Unanswered as unanswered:
            if wanted.carriers and unanswered.kinds <= _SILENT:
                self._network.give_up(hosts)  # they can answer in its place, and the whole index need not wait again
            raise

    def finish_writes(self) -> None:
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
        answer = self._reader.file(source, headers=headers, largest=LARGEST_INDEX)
        if isinstance(answer, Failure):
            if answer.kind is FailureKind.UNCHANGED and kept is not None:
                note = kept[0].note.confirmed(answer.said or CacheHeaders(), self._now())
                self._store.confirm_index(source.url, kept[0], note)
                return open_index(wanted, source, replace(kept[0], note=note), kept[1])
            if answer.kind is FailureKind.LACKS:
                self._store.keep_absence(source.url, Note(str(source.url), CacheHeaders(), self._now()))
            return Refused(answer)
        data, head = answer
        try:
            index = parse_index(data, subdir=wanted.subdir, url=source.url.reveal())
        except BadShardsError as error:
            return Refused(Failure(FailureKind.CONTENT, f"{FILENAME} is refused: {error}"))
        new = KeptIndex(data, Note(str(source.url), cache_headers(head), self._now()))
        opened = open_index(wanted, source, new, index)
        opened.downloaded, opened.unkept = len(data), new
        return opened

"""Download of shard indexes (CEP 16) from their authorities: a fresh kept copy, else a conditional request.

Any failure is a reason to fetch the whole index instead, never an error of its own. An index has no digest, so an
interrupted download starts again from its first byte. If the connection never lasts long enough, the whole index is
fetched, which resumes with If-Range.
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
from resume_dl.indexes.shards import FILENAME
from resume_dl.indexes.shards.answers import Answers, Unavailable, named_error
from resume_dl.indexes.shards.index import LARGEST_INDEX, ShardIndex, parse_index
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
    """Fetches through ``reader``, which ``stop`` stops; not thread-safe. Options are those of ``ShardFetcher``."""

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
        """Writes in progress: a sync may take longer than a request, and the shards need not wait for it."""
        self.downloaded = 0
        """Body bytes of indexes downloaded so far."""

    def stop(self) -> None:
        """End every request. Never raises."""
        self._reader.stop()

    def close(self) -> None:
        """Wait until new indexes are written, unless cancelled. Never raises."""
        with suppress(Interrupted):
            self.finish_writes()
        self._writing.close()

    def open(self, wanted: Sequence[ShardSources], *, past_caches: bool = False) -> list[OpenIndex | NoIndex]:
        """Fetch the shard index of each in parallel; ``past_caches``: bypass caches. Raises Interrupted."""
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
            raise Unavailable("there is no kept copy, and the run is offline")
        if not wanted.authorities:
            raise Unavailable("its authority is excluded")
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
                self._network.give_up(hosts)  # mirrors can replace it, and the whole index need not wait again
            raise

    def finish_writes(self) -> None:
        """Wait until new indexes are written; one that cannot be written is downloaded again by the next run.

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

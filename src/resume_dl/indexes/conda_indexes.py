"""Channel indexes for a solve: asked of whom the rule of trust says, from wherever they come."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.errors import ChannelNotFoundError
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness
from resume_dl.indexes.shards.channels import ChannelShards
from resume_dl.indexes.shards.index import FILENAME as SHARD_INDEX
from resume_dl.indexes.trust import Standing, Vouched, authority_of, standing
from resume_dl.indexes.whole import FORMATS, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.ports import Reporter
from resume_dl.resolve.request import RepodataFile
from resume_dl.transfer.places import Places
from resume_dl.transfer.watching import WatchedEngine


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One index of a run: what it came to, and why it is believed."""

    channel: str
    subdir: str
    authority: str
    """The host that decides; redacted."""
    form: str
    """``shards``, ``whole`` or ``kept``."""
    vouched: Vouched
    carried_by: tuple[str, ...]
    downloaded: int
    """Bytes that came in this run."""
    age: float | None = None
    """Seconds since the authority last said that it is current; None where that is not known."""

    def as_json(self) -> dict[str, Any]:
        """The object in ``indexes``."""
        return {
            "channel": self.channel,
            "subdir": self.subdir,
            "authority": self.authority,
            "form": self.form,
            "vouched": self.vouched.value,
            "carried_by": list(self.carried_by),
            "bytes": self.downloaded,
            "age_seconds": None if self.age is None else round(self.age),
        }


class CondaIndexes:
    """The indexes of one command. ``offline`` uses what is kept and makes no request.

    ``index_from`` are the mirrors that the user named as ones to be believed.
    """

    def __init__(
        self,
        engine: WatchedEngine,
        places: Places,
        folder: Path,
        reporter: Reporter,
        *,
        offline: bool,
        largest: int | None = None,
        freshness: Freshness = AS_SERVERS_SAY,
        index_from: Sequence[str] = (),
        shards: ChannelShards | None = None,
    ) -> None:
        self._places = places
        self._reporter = reporter
        self._offline = offline
        self._named = tuple(index_from)
        self._shards = shards
        self._whole = WholeIndexes(
            engine, places, folder, reporter, offline=offline, largest=largest, freshness=freshness
        )
        self._reports: dict[Wanted, IndexReport] = {}
        self._asked_for: tuple[Sequence[Wanted], Collection[str] | None] = (), None

    @property
    def downloaded(self) -> int:
        """Body bytes of indexes that came over the line so far."""
        return self._whole.downloaded + (0 if self._shards is None else self._shards.downloaded)

    @property
    def report(self) -> tuple[IndexReport, ...]:
        """What became of each index so far."""
        return tuple(self._reports.values())

    def fetch(self, wanted: Sequence[Wanted], names: Collection[str] | None = None) -> list[RepodataFile]:
        """The index of every channel and subdir that exists; a channel may lack some subdirs, but not all.

        ``names``: of the packages that a solve begins with (specs, installed, pins), where an index need hold no more
        than these and what they depend on; None for all. Raises ChannelNotFoundError, ChannelUnavailableError,
        CaptivePortalError, Interrupted or StoreError.
        """
        self._asked_for = wanted, names
        while True:
            found = self._with_shards(wanted, names)
            missing = [each for each in wanted if each not in found]
            results = self._whole.fetch(missing, self._authorities)
            silent = [each for each in missing if self._is_silent(each, results[each])]
            results |= self._whole.fetch(silent, self._carriers)
            files = self._present(results, {channel for channel, _ in found})
            subsets = self._from_shards(files)
            if subsets is not None:
                return [*subsets, *files]

    def fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str] | None = None) -> list[RepodataFile]:
        """The same files, as the authority has them now and not in a cache on the way; the same list if unchanged.

        A mirror or a cache that is behind serves an old index: asked for when a spec has no candidate, when an archive
        is missing everywhere, or when sources agree on bytes that the index denies (``disputes``: the digest in the
        index -> the digest that the bytes have).
        """
        del disputes
        if self._offline:
            return list(files)
        sharded = {} if self._shards is None else self._shards.used
        whole = [(each.channel, each.subdir) for each in files if (each.channel, each.subdir) not in sharded]
        results = self._whole.fetch(whole, self._authorities, past_caches=True)
        if self._shards is not None and self._shards.has_newer():
            return self.fetch(*self._asked_for)
        changed = any(not result.kept for result in results.values())
        subsets = [each for each in files if (each.channel, each.subdir) in sharded]
        return [*subsets, *self._present(results, {each.channel for each in subsets})] if changed else list(files)

    def _with_shards(
        self, wanted: Sequence[Wanted], names: Collection[str] | None, *, past_caches: bool = False
    ) -> list[Wanted]:
        """Those whose authority has shards."""
        if self._shards is None or names is None:
            return []
        stands = {each: self.standing(each, SHARD_INDEX) for each in wanted}
        sources = {each: (stand.authority, stand.carriers) for each, stand in stands.items() if stand.authority}
        return self._shards.begin(sources, names, past_caches=past_caches)

    def _from_shards(self, whole: Sequence[RepodataFile]) -> list[RepodataFile] | None:
        """The subsets of those that have shards; None where one of them has not, and its whole index is needed."""
        files = {} if self._shards is None else self._shards.complete(whole)
        if self._shards is None or files is None:
            return [] if files is not None else None
        for (channel, subdir), index in self._shards.used.items():
            stand = self.standing((channel, subdir), SHARD_INDEX)
            self._reports[channel, subdir] = IndexReport(
                channel.name,
                subdir,
                index.source.url.host,
                "shards",
                stand.vouched,
                tuple(sorted(index.carried_by)),
                index.downloaded,
                max(0.0, time.time() - index.checked),
            )
        return list(files.values())

    def _present(self, results: Mapping[Wanted, WholeIndex], others: Collection[Channel] = ()) -> list[RepodataFile]:
        """The files that there are. Raises for what cannot be had, and for a channel that is nowhere."""
        for result in results.values():
            if result.error is not None:
                raise result.error
        have = {each[0] for each, result in results.items() if result.path is not None} | set(others)
        files = []
        for (channel, subdir), result in results.items():
            if result.path is not None:
                files.append(RepodataFile(channel, subdir, result.path))
                self._note(channel, subdir, result)
                continue
            if channel not in have:
                tried = tuple(url for each, other in results.items() if each[0] == channel for url in other.tried)
                what = "has not been fetched before" if self._offline else "has no repodata anywhere"
                raise ChannelNotFoundError(
                    f"the channel {channel.name} {what} (tried {', '.join(tried) or 'no address: no mirror has it'})",
                    tried=tried,
                    hint="check its name, or run without --offline" if self._offline else "check the channel's name",
                )
            self._reporter.message(f"{channel.name} has nothing for {subdir}", level="debug")
        return files

    def _note(self, channel: Channel, subdir: str, result: WholeIndex) -> None:
        stand = self.standing((channel, subdir), FORMATS[-1])
        authority = stand.authority[0].url.host if stand.authority else channel.client_base.host
        form = "kept" if result.kept else "whole"
        self._reports[channel, subdir] = IndexReport(
            channel.name, subdir, authority, form, stand.vouched, result.carried_by, result.downloaded, result.age
        )

    def standing(self, wanted: Wanted, name: str) -> Standing:
        """The sources of the file ``name`` beside an index, by what they count for."""
        channel, subdir = wanted
        url = channel.file_url(subdir, name)
        return standing(self._places.of(url), authority_of(channel, self._places.table), url, self._named)

    def _is_silent(self, wanted: Wanted, result: WholeIndex) -> bool:
        """Whether the authority cannot be asked, or has not answered, and there are others."""
        stand = self.standing(wanted, FORMATS[-1])
        return bool(stand.carriers) and (result.error is not None or not stand.authority)

    def _authorities(self, wanted: Wanted, name: str) -> tuple[Source, ...]:
        return self.standing(wanted, name).authority

    def _carriers(self, wanted: Wanted, name: str) -> tuple[Source, ...]:
        return self.standing(wanted, name).carriers

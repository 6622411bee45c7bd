"""Channel indexes for a solve, from all sources, by the rule of trust (docs/indexes.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from resume_dl.errors import IntegrityError, PackageNotFoundError, ResumeDLError, UnsatisfiableError
from resume_dl.indexes.authorities import Authorities
from resume_dl.indexes.carrier_indexes import CarrierIndexes
from resume_dl.indexes.channel_notes import ChannelNotes
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness
from resume_dl.indexes.index_errors import not_found, too_little_kept
from resume_dl.indexes.index_sources import IndexSources
from resume_dl.indexes.replacements import Replacements
from resume_dl.indexes.shards import FILENAME as SHARD_INDEX
from resume_dl.indexes.whole import Wanted, WholeIndex, WholeIndexes
from resume_dl.model.index_report import IndexReport
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import find_record
from resume_dl.resolve.request import RepodataFile, Solution
from resume_dl.transfer.source_places import Places
from resume_dl.transfer.watched_engine import WatchedEngine

if TYPE_CHECKING:  # imports msgspec, which resume-dl.pyz lacks
    from resume_dl.indexes.shards.channels import ChannelShards

Solve = Callable[[Sequence[RepodataFile]], Solution]


class CondaIndexes:
    """The indexes of one command. ``offline``: only kept copies are used.

    ``index_from`` are the mirrors that the user trusts as authorities; ``alone``: authorities only, no carriers.
    ``shards`` fetches only the parts of indexes that a solve can reach, if the authority has shards; None: whole ones.
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
        alone: bool = False,
        shards: ChannelShards | None = None,
    ) -> None:
        self._reporter = reporter
        self._offline = offline
        self._shards = shards
        self._asked_for: tuple[Sequence[Wanted], Collection[str] | None] = (), None
        """The last arguments of ``fetch``: with shards, everything may have to be fetched again."""
        self._followed: set[Path] = set()
        """The whole indexes whose dependencies were followed into shards."""
        self._whole = whole = WholeIndexes(
            engine, places, folder, reporter, offline=offline, largest=largest, freshness=freshness
        )
        self._sources = sources = IndexSources(places, index_from, alone=alone)
        self._notes = notes = ChannelNotes(sources, reporter, offline=offline)
        self._authorities = Authorities(sources, whole, notes, offline=offline)
        self._carriers = CarrierIndexes(sources, whole, notes, reporter, offline=offline)
        self._replacements = Replacements(sources, whole, self._carriers, notes, reporter, offline=offline)

    @property
    def downloaded(self) -> int:
        """Body bytes of indexes that were downloaded so far."""
        return self._whole.downloaded + (0 if self._shards is None else self._shards.downloaded)

    @property
    def report(self) -> tuple[IndexReport, ...]:
        """The reports so far, one per index."""
        return self._notes.reports

    # ------------------------------------------------------------------ public interface

    def fetch(self, wanted: Sequence[Wanted], names: Collection[str] | None = None) -> list[RepodataFile]:
        """Return the index of every channel and subdir that exists; a channel may lack some subdirs, but not all.

        ``names``: the packages that a solve starts from (specs, installed, pins), if only these and their dependencies
        are needed; None for all. Records chosen from carriers' indexes must be agreed on, which ``solved`` checks.
        Raises ChannelNotFoundError, ChannelUnavailableError, CaptivePortalError, Interrupted or StoreError.
        """
        self._asked_for = wanted, names
        if not self._offline:
            self._whole.check_folder()
        while True:
            sharded = self._with_shards(wanted, names)
            subsets = self._with_subsets(self._whole_ones(wanted, sharded))
            if subsets is not None:
                order = {each: number for number, each in enumerate(wanted)}
                return sorted(subsets, key=lambda file: order[file.channel, file.subdir])

    def _whole_ones(self, wanted: Sequence[Wanted], sharded: Collection[Wanted]) -> list[RepodataFile]:
        """Return the whole indexes of those that are not in ``sharded``."""
        rest = [each for each in wanted if each not in sharded and each not in self._carriers]
        results, rest = self._authorities.fetch(rest)
        self._carriers.begin(rest, results)
        results |= self._authorities.once_more(self._carriers.alone)
        return self._present(wanted, sharded, results)

    def solved(self, files: Sequence[RepodataFile], solve: Solve) -> Solution:
        """Call ``solve`` with indexes of ``fetch`` until every record of its solution is vouched for; return that.

        If it finds no candidate, an index is unreadable or only one carrier states a record, it is called again with
        the next source's indexes, if there are any. Raises the first exception of ``solve``, DigestMismatchError for
        carriers that contradict each other, ChannelUnavailableError for records that only one carrier states.
        """
        first: ResumeDLError | None = None
        while True:
            newer: list[RepodataFile] | None
            error: ResumeDLError
            files = self._followed_up(files)
            try:
                solution = solve(files)
            except (PackageNotFoundError, UnsatisfiableError) as caught:
                error, newer = caught, self._after_nothing(files, may_be_old=isinstance(caught, PackageNotFoundError))
            except IntegrityError as caught:
                error, newer = caught, self._after_rubbish(files, caught)
            else:
                unstated = self._carriers.unstated(files, solution.artifacts)
                if not unstated:
                    self._carriers.note()
                    return solution
                error, newer = self._carriers.unbelieved(unstated), self._carriers.other_leads(files, unstated)
                if newer is None and (newer := self._from_authorities(files)) is not None:
                    first = None
                    files = newer
                    continue
            first = first or error
            if newer is None:
                raise first
            files = newer

    def fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str] | None = None) -> list[RepodataFile]:
        """Fetch the files again from the sources that vouch for them, bypassing caches.

        A mirror or cache may serve an old index. So this is called if a spec has no candidate, if an archive is missing
        everywhere, or if sources agree on bytes that contradict the index (``disputes``: the index's digest -> the
        digest of the bytes).
        """
        return self._fresher(files, disputes or {})[0]

    def record(self, file: RepodataFile, filename: str) -> dict[str, Any] | None:
        """Return the record of one package file, if it is vouched for. Raises IntegrityError."""
        return None if (file.channel, file.subdir) in self._carriers else find_record(file.path, filename)

    # ------------------------------------------------------------------ shards

    def _with_shards(self, wanted: Sequence[Wanted], names: Collection[str] | None) -> list[Wanted]:
        """Return the indexes that have shards at the named mirrors, or at the authority if none was named."""
        self._followed.clear()
        if self._shards is None or names is None:
            return []
        sources = {}
        for each in wanted:
            stand = self._sources.standing(each, SHARD_INDEX)
            deciding = stand.named or stand.authority
            others = (*(stand.authority if stand.named else ()), *stand.carriers)
            if deciding and each not in self._carriers:
                sources[each] = deciding, others
        return self._shards.begin(sources, names)

    def _with_subsets(self, whole: Sequence[RepodataFile]) -> list[RepodataFile] | None:
        """Return ``whole`` and the subsets of indexes with shards; None if one of these has to start again."""
        subsets = {} if self._shards is None else self._shards.complete(whole)
        if self._shards is None or subsets is None:
            return list(whole) if subsets is not None else None
        self._followed |= {file.path for file in whole}
        self._notes.sharded(self._shards.used)
        return [*whole, *subsets.values()]

    def _followed_up(self, files: Sequence[RepodataFile]) -> Sequence[RepodataFile]:
        """Return the files with further shards, if a replacement whole index mentions names without them."""
        used = {} if self._shards is None else self._shards.used
        whole = [file for file in files if (file.channel, file.subdir) not in used]
        if not used or {file.path for file in whole} <= self._followed:
            return files
        found = self._with_subsets(whole)
        return self.fetch(*self._asked_for) if found is None else found

    # ------------------------------------------------------------------ next attempts

    def _after_nothing(self, files: Sequence[RepodataFile], *, may_be_old: bool) -> list[RepodataFile] | None:
        """Return other indexes after a failed solve; None if no other source is left."""
        newer, changed = self._fresher(files, {}) if may_be_old else (list(files), False)
        return newer if changed else self._carriers.other_leads(files)

    def _fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str]) -> tuple[list[RepodataFile], bool]:
        """Return the renewed files, and whether any has changed."""
        if not self._offline and self._shards is not None and self._shards.has_newer():
            return self.fetch(*self._asked_for), True
        sharded = () if self._shards is None else self._shards.used
        return self._replacements.newer(files, disputes, without=sharded)

    def _after_rubbish(self, files: Sequence[RepodataFile], error: IntegrityError) -> list[RepodataFile] | None:
        """Return the files with another source's copy of an unreadable one; None if there is none.

        If the error does not state which index is unreadable, each is tried, carriers' first. A carrier's index must
        not weaken the trust in another index: no authority is replaced for an error that a carrier may have caused,
        either because the channel is unknown, or because a record claims another subdir of its channel.
        """
        named = {(file.channel, file.subdir) for file in files if (file.channel.name, file.subdir) == error.index}
        channels = {channel for channel, _ in named}
        suspects = [
            file
            for file in files
            if (file.channel, file.subdir) in named
            or (file.channel in channels and (file.channel, file.subdir) in self._carriers)
        ] or list(files)
        if self._shards is not None:
            sharded = {(each.channel, each.subdir) for each in suspects} & {*self._shards.used}
            if sharded:
                self._reporter.message(f"{error.message}; fetching the whole index", level="warning")
                self._shards.leave(sharded)
                return self.fetch(*self._asked_for)
        is_of_carriers = any((file.channel, file.subdir) in self._carriers for file in suspects)
        is_sure = len({file.channel for file in suspects}) == 1 and not is_of_carriers
        for file in sorted(suspects, key=lambda file: (file.channel, file.subdir) not in self._carriers):
            other = self._replacements.of_unreadable(file, is_sure=is_sure)
            if other is not None:
                self._reporter.message(f"{error.message}; trying another source", level="warning")
                return [other if each is file else each for each in files]
        return None

    def _from_authorities(self, files: Sequence[RepodataFile]) -> list[RepodataFile] | None:
        """Return the files with those of authorities that have answered late; None if none has."""
        found = self._authorities.once_more(self._carriers.alone)
        answers = {each: RepodataFile(*each, result.path) if result.path else None for each, result in found.items()}
        for each in answers:
            self._carriers.leave(each)
        newer = [answers.get((file.channel, file.subdir), file) for file in files]
        return [file for file in newer if file is not None] if answers else None

    # ------------------------------------------------------------------ the result

    def _present(
        self, wanted: Sequence[Wanted], others: Collection[Wanted], results: Mapping[Wanted, WholeIndex]
    ) -> list[RepodataFile]:
        """Return the existing files and ``others``. Raises for unavailable indexes and for channels not found."""
        files: dict[Wanted, RepodataFile] = {}
        for each in wanted:
            lead, result = self._carriers.lead(each), results.get(each)
            if lead is not None:
                files[each] = lead
            elif result is not None and result.error is not None and each not in self._carriers:
                raise result.error
            elif result is not None and result.path is not None:
                files[each] = RepodataFile(*each, result.path)
        have = {channel for channel, _ in (*files, *others)}
        left = () if self._shards is None else self._shards.left
        for channel, subdir in wanted:
            if channel not in have:
                tried = [url for each, other in results.items() if each[0] == channel for url in other.tried]
                raise not_found(channel, tuple(dict.fromkeys(tried)), offline=self._offline)
            if self._offline and (channel, subdir) not in files and (channel, subdir) in left:
                raise too_little_kept(channel, subdir)
            if (channel, subdir) not in files and (channel, subdir) not in others:
                self._reporter.message(f"{channel.name} has nothing for {subdir}", level="debug")
        return [files[each] for each in wanted if each in files]

"""Channel indexes for a solve: from wherever they come, believed by the rule of trust (docs/indexes.md)."""

from __future__ import annotations

import hashlib
import mmap
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from resume_dl.errors import (
    CaptivePortalError,
    ChannelNotFoundError,
    ChannelUnavailableError,
    IntegrityError,
    NoNetworkError,
    PackageNotFoundError,
    ResumeDLError,
    UnsatisfiableError,
    no_network,
)
from resume_dl.indexes.agreement import Agreement
from resume_dl.indexes.copies import AS_SERVERS_SAY, Freshness
from resume_dl.indexes.index_report import IndexReport
from resume_dl.indexes.shards.channels import ChannelShards
from resume_dl.indexes.shards.index import FILENAME as SHARD_INDEX
from resume_dl.indexes.trust import Standing, Stated, Vouched, authority_of, compare, standing
from resume_dl.indexes.whole import FORMATS, Asked, SourcesOf, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.channel import Channel
from resume_dl.model.mirror import UPSTREAM
from resume_dl.model.network import is_loopback
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import find_record
from resume_dl.resolve.request import RepodataFile, Solution
from resume_dl.transfer.places import Places
from resume_dl.transfer.watching import WatchedEngine

Solve = Callable[[Sequence[RepodataFile]], Solution]


class CondaIndexes:
    """The indexes of one command. ``offline`` uses what is kept and makes no request.

    ``index_from`` are the mirrors that the user named as ones to be believed; ``alone``: authorities only, no carriers.
    ``shards`` brings the parts of indexes that a solve can come to, where authorities have them; None: whole ones.
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
        self._places = places
        self._reporter = reporter
        self._offline = offline
        self._named = tuple(index_from)
        self._alone = alone
        self._shards = shards
        self._asked_for: tuple[Sequence[Wanted], Collection[str] | None] = (), None
        """What ``fetch`` was asked for last: with shards all of it may have to be asked for again."""
        self._followed: set[Path] = set()
        """The whole indexes whose names shards were fetched for."""
        self._whole = WholeIndexes(
            engine, places, folder, reporter, offline=offline, largest=largest, freshness=freshness
        )
        self._reports: dict[Wanted, IndexReport] = {}
        self._agreements: dict[Wanted, Agreement] = {}
        self._refreshed: set[tuple[Wanted, str]] = set()
        """What was asked past caches already, and of which source."""
        self._forms: dict[Wanted, str] = {}
        """The forms of authorities that turned out to be unreadable."""
        self._said: set[str] = set()

    @property
    def downloaded(self) -> int:
        """Body bytes of indexes that came over the line so far."""
        return self._whole.downloaded + (0 if self._shards is None else self._shards.downloaded)

    @property
    def report(self) -> tuple[IndexReport, ...]:
        """What became of each index so far."""
        return tuple(self._reports.values())

    # ------------------------------------------------------------------ the way in

    def fetch(self, wanted: Sequence[Wanted], names: Collection[str] | None = None) -> list[RepodataFile]:
        """The index of every channel and subdir that exists; a channel may lack some subdirs, but not all.

        ``names``: of the packages that a solve begins with (specs, installed, pins), where an index need hold no more
        than these and what they depend on; None for all. Where only carriers have an index, what is chosen from it has
        to be agreed on: ``solved`` does that. Raises ChannelNotFoundError, ChannelUnavailableError, CaptivePortalError,
        Interrupted or StoreError.
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
        """The whole indexes of those that are not among ``sharded``."""
        rest = [each for each in wanted if each not in sharded and each not in self._agreements]
        results: dict[Wanted, WholeIndex] = {}
        stages: list[tuple[SourcesOf, Vouched]] = [
            (self._nth_named(at), Vouched.NAMED) for at in range(len(self._named))
        ]
        for choose, vouched in stages:
            results |= self._asked([each for each in rest if not _is_there(results, each)], choose, vouched, results)
        rest = [each for each in rest if not self._is_settled(results.get(each))]
        results |= self._asked(rest, self._authorities, Vouched.AUTHORITY, results)
        rest = [each for each in rest if not self._is_settled(results.get(each))]
        self._agree(rest, results)
        return self._present(wanted, sharded, results)

    def solved(self, files: Sequence[RepodataFile], solve: Solve) -> Solution:
        """What ``solve`` gives for indexes that ``fetch`` gave, once every record that it chooses is vouched for.

        Where it finds no candidate, an index cannot be read or a record is stated by one carrier alone, it is called
        again with what the next source says, if there is one. Raises what ``solve`` raised first, DigestMismatchError
        for carriers that contradict each other, ChannelUnavailableError for records that one carrier alone states.
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
                unstated = self._unstated(files, solution.artifacts)
                if not unstated:
                    self._note_agreements()
                    return solution
                error, newer = self._unbelieved(unstated), self._other_leads(files, unstated)
            first = first or error
            if newer is None:
                raise first
            files = newer

    def fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str] | None = None) -> list[RepodataFile]:
        """The same files, as those who vouch for them have them now, caches on the way passed over.

        A mirror or a cache that is behind serves an old index: asked for when a spec has no candidate, when an archive
        is missing everywhere, or when sources agree on bytes that the index denies (``disputes``: the digest in the
        index -> the digest that the bytes have).
        """
        return self._fresher(files, disputes or {})[0]

    def record(self, file: RepodataFile, filename: str) -> dict[str, Any] | None:
        """The record of one package file, if it is vouched for. Raises IntegrityError."""
        return None if (file.channel, file.subdir) in self._agreements else find_record(file.path, filename)

    # ------------------------------------------------------------------ shards

    def _with_shards(self, wanted: Sequence[Wanted], names: Collection[str] | None) -> list[Wanted]:
        """Those with shards at the mirrors that the user named, or at the authority where none was named."""
        self._followed.clear()
        if self._shards is None or names is None:
            return []
        sources = {}
        for each in wanted:
            stand = self.standing(each, SHARD_INDEX)
            deciding = stand.named or stand.authority
            others = (*(stand.authority if stand.named else ()), *stand.carriers)
            if deciding and each not in self._agreements:
                sources[each] = deciding, others
        return self._shards.begin(sources, names)

    def _with_subsets(self, whole: Sequence[RepodataFile]) -> list[RepodataFile] | None:
        """``whole`` indexes and the subsets of those that have shards; None where one of these has to begin again."""
        subsets = {} if self._shards is None else self._shards.complete(whole)
        if self._shards is None or subsets is None:
            return list(whole) if subsets is not None else None
        self._followed |= {file.path for file in whole}
        for wanted, index in self._shards.used.items():
            stand = self.standing(wanted, SHARD_INDEX)
            vouched = Vouched.NAMED if stand.named else Vouched.AUTHORITY
            carried_by = tuple(sorted(index.carried_by or {index.source.mirror}))
            age = max(0.0, time.time() - index.checked)
            channel, subdir = wanted
            host = self._host_of(channel)
            self._report(
                IndexReport(channel.name, subdir, host, "shards", vouched, carried_by, index.downloaded, age), wanted
            )
        return [*whole, *subsets.values()]

    def _followed_up(self, files: Sequence[RepodataFile]) -> Sequence[RepodataFile]:
        """The same files, where a whole index that took another's place mentions names whose shards are missing."""
        used = {} if self._shards is None else self._shards.used
        whole = [file for file in files if (file.channel, file.subdir) not in used]
        if not used or {file.path for file in whole} <= self._followed:
            return files
        found = self._with_subsets(whole)
        return self.fetch(*self._asked_for) if found is None else found

    # ------------------------------------------------------------------ named mirrors and authorities

    def standing(self, wanted: Asked, name: str) -> Standing:
        """The sources of the file ``name`` beside an index, by what they count for."""
        channel, subdir = wanted[:2]
        url = channel.file_url(subdir, name)
        stand = standing(self._places.of(url), authority_of(channel, self._places.table), url, self._named)
        return Standing(stand.named, stand.authority, ()) if self._alone else stand

    def _nth_named(self, at: int) -> SourcesOf:
        """The sources that are named at this place of those that the user named."""
        return lambda wanted, name: self.standing(wanted, name).named[at : at + 1]

    def _authorities(self, wanted: Asked, name: str) -> tuple[Source, ...]:
        return self.standing(wanted, name).authority

    def _copy_of(self, asked: Asked, name: str) -> tuple[Source, ...]:
        """The one mirror's copy that ``asked`` names."""
        stand = self.standing(asked, name)
        every = (*stand.named, *stand.authority, *stand.carriers)
        return tuple(source for source in every if source.mirror == asked[-1])

    def _asked(
        self, wanted: Sequence[Wanted], choose: SourcesOf, vouched: Vouched, before: Mapping[Wanted, WholeIndex]
    ) -> dict[Wanted, WholeIndex]:
        """What became of those that ``choose`` knows a source for."""
        asked = [each for each in wanted if choose(each, FORMATS[-1]) or self._is_nowhere(each)]
        replaceable = {each for each in asked if self._has_others(each, vouched)}
        answers = self._whole.fetch(asked, choose, replaceable=replaceable) if asked else {}
        results: dict[Wanted, WholeIndex] = {}
        for each in asked:
            result = results[each] = answers[each]
            if each in before:
                result.tried = (*before[each].tried, *result.tried)
                errors = [error for error in (before[each].error, result.error) if error is not None]
                result.error = _of_all(errors, result.tried) if errors and result.path is None else None
            if result.path is not None:
                self._note(each, result, vouched)
        return results

    def _has_others(self, wanted: Wanted, vouched: Vouched) -> bool:
        """Whether others can be asked where these do not answer."""
        stand = self.standing(wanted, FORMATS[-1])
        return bool(stand.carriers) or (vouched is Vouched.NAMED and bool(stand.authority))

    def _is_nowhere(self, wanted: Wanted) -> bool:
        """Whether all its mirrors are left out because they have blocked us: the engine says what to do about that."""
        stand = self.standing(wanted, FORMATS[-1])
        return bool(self._places.left_out) and not (stand.named or stand.authority or stand.carriers)

    def _is_settled(self, result: WholeIndex | None) -> bool:
        """Whether those who decide have answered, be it that there is none. Offline a missing copy is no answer."""
        return result is not None and result.error is None and not (self._offline and result.path is None)

    def _note(self, wanted: Wanted, result: WholeIndex, vouched: Vouched) -> None:
        form = "kept" if result.kept else "whole"
        channel, subdir = wanted
        host = self._host_of(channel)
        self._report(
            IndexReport(channel.name, subdir, host, form, vouched, result.carried_by, result.downloaded, result.age),
            wanted,
        )

    def _report(self, report: IndexReport, wanted: Wanted) -> None:
        """Note it, and say what the user should know of its source."""
        self._reports[wanted] = report
        channel, host, vouched = wanted[0], report.authority, report.vouched
        names = " and ".join(report.carried_by) or "an earlier run"
        if vouched is Vouched.NAMED:
            self._say(f"index of {channel.name} from {names}, as --index-from says")
            return
        for source in self._authorities(wanted, FORMATS[-1]):
            url = source.url.reveal()
            if url[:5].lower() == "http:" and not is_loopback(url) and not self._offline:
                text = (
                    f"the index of {channel.name} comes from {host} over plain http, where it can be altered on the way"
                )
                self._say(text, level="warning")

    def _host_of(self, channel: Channel) -> str:
        """The host of the channel's authority."""
        base = channel.canonical_base
        if authority_of(channel, self._places.table) != UPSTREAM:
            base = channel.client_base
        return base.host

    def _say(self, text: str, *, level: str = "info") -> None:
        """Say it once a command."""
        if text not in self._said:
            self._said.add(text)
            self._reporter.message(text, level=level)

    # ------------------------------------------------------------------ carriers

    def _agree(self, wanted: Sequence[Wanted], results: dict[Wanted, WholeIndex]) -> None:
        """Ask carriers of two operators for each; those for which too few have answered keep their error."""
        begun = []
        for each in wanted:
            stand = self.standing(each, FORMATS[-1])
            if stand.carriers:
                why = results[each].error if each in results else None
                begun.append(Agreement(each, stand.carriers, self._places.table, why, self._reporter))
                self._say_silent(each[0], why)
        self._consult(begun)
        for agreement in begun:
            result = results.setdefault(agreement.wanted, WholeIndex())
            result.tried += tuple(url for copy in agreement.copies.values() for url in copy.tried)
            if agreement.is_possible or (self._offline and agreement.lead is not None):
                result.error = None
                self._agreements[agreement.wanted] = agreement
            elif not self._offline:
                result.error = self._too_few(agreement, result.tried)

    def _say_silent(self, channel: Channel, why: ResumeDLError | None) -> None:
        host = self._host_of(channel)
        if self._offline:
            return
        what = f"{host} cannot be reached" if why is not None else f"{host} may not be asked"
        self._say(f"{what}: the index of {channel.name} counts as far as two mirrors agree on it", level="warning")
        if why is not None:
            self._reporter.message(f"{host}: {why.message}", level="debug")

    def _consult(self, agreements: Sequence[Agreement]) -> bool:
        """Ask the carriers that ``agreements`` need; whether any had an index."""
        came = False
        while True:
            asked: dict[Asked, Agreement] = {}
            for agreement in agreements:
                for source in agreement.to_ask():
                    asked[_copy(agreement.wanted, source.mirror)] = agreement
            if not asked:
                return came
            names = {each[-1] for each in asked}
            replaceable = {each for each, agreement in asked.items() if agreement.has_others(names)}
            for each, result in self._whole.fetch(list(asked), self._copy_of, replaceable=replaceable).items():
                if self._offline and result.path is None:
                    result.error = ChannelUnavailableError("no copy of it is kept")
                asked[each].copies[each[-1]] = result
                came = came or result.path is not None

    def _too_few(self, agreement: Agreement, tried: tuple[str, ...]) -> ResumeDLError:
        """Why an index that fewer than two operators gave is not believed, or could not be had at all."""
        channel, subdir = agreement.wanted
        host = self._host_of(channel)
        gave = [name for name, copy in agreement.copies.items() if copy.error is None]
        errors = [error for error in (agreement.why, *(copy.error for copy in agreement.copies.values())) if error]
        if not gave and errors:
            return _of_all(errors, tried)
        where = f"{host} cannot be reached" if agreement.why is not None else f"{host} may not be asked (see --mirror)"
        one = f"{gave[0]} alone has answered, which is not enough" if gave else "no mirror has answered"
        return ChannelUnavailableError(
            f"the index of {channel.name}/{subdir} cannot be believed: {where}, and {one}",
            tried=tried,
            hint=f"to believe one mirror: --index-from {gave[0] if gave else 'NAME'}; else run it again where {host} "
            "can be reached",
        )

    def _unstated(self, files: Sequence[RepodataFile], artifacts: Iterable[Artifact]) -> dict[Wanted, list[Artifact]]:
        """The records that a carrier alone states, by index.

        A record says its subdir itself: one that names another subdir of the channel must stand in that one's index.
        """
        if not self._agreements:
            return {}
        of: dict[tuple[str, str], list[Artifact]] = {}
        for artifact in artifacts:
            of.setdefault((artifact.channel, artifact.subdir), []).append(artifact)
        found: dict[Wanted, list[Artifact]] = {}
        for wanted, agreement in self._agreements.items():
            if agreement.lead is not None:
                found[wanted] = agreement.unstated(of.pop((wanted[0].name, wanted[1]), []))
        vouched = {(file.channel.name, file.subdir): file.path for file in files}
        for (channel, subdir), others in of.items():
            path = vouched.get((channel, subdir))
            for wanted in found:
                if wanted[0].name == channel:
                    found[wanted] += [each for each in others if not _stands_in(path, each)]
        return {wanted: artifacts for wanted, artifacts in found.items() if artifacts}

    def _note_agreements(self) -> None:
        for wanted, agreement in self._agreements.items():
            if agreement.lead is None:
                continue
            came = sum(copy.downloaded for copy in agreement.copies.values())
            form = "whole" if came else "kept"
            self._reports[wanted] = IndexReport(
                wanted[0].name, wanted[1], self._host_of(wanted[0]), form, Vouched.AGREEMENT, agreement.agreed, came
            )

    def _unbelieved(self, unstated: Mapping[Wanted, Sequence[Artifact]]) -> ChannelUnavailableError:
        names = sorted({artifact.filename for artifacts in unstated.values() for artifact in artifacts})
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        (channel, _), *_ = unstated
        agreement = self._agreements[next(iter(unstated))]
        lead = agreement.agreed[0]
        return ChannelUnavailableError(
            f"{', '.join(names[:3])}{more}: of the mirrors that answered {lead} alone states this, and "
            f"{self._host_of(channel)} cannot be asked",
            hint=f"to believe one mirror: --index-from {lead}; else run it again where {self._host_of(channel)} can be "
            "reached",
        )

    # ------------------------------------------------------------------ what to try next

    def _after_nothing(self, files: Sequence[RepodataFile], *, may_be_old: bool) -> list[RepodataFile] | None:
        """Other indexes after a solve without a result; None if no other source is left."""
        newer, changed = self._fresher(files, {}) if may_be_old else (list(files), False)
        return newer if changed else self._other_leads(files, self._agreements)

    def _after_rubbish(self, files: Sequence[RepodataFile], error: IntegrityError) -> list[RepodataFile] | None:
        """The files with another source's copy of one that cannot be read; None where there is none.

        Where the error names no file, each may be meant, carriers' first. Then no authority is passed over for it: a
        carrier's index of one channel must not weaken what is believed of another channel.
        """
        suspects = [file for file in files if f"{file.channel.name}/{file.subdir}" in error.message] or list(files)
        if self._shards is not None:
            sharded = {(each.channel, each.subdir) for each in suspects} & {*self._shards.used}
            if sharded:
                self._reporter.message(f"{error.message}; the whole index is fetched", level="warning")
                self._shards.leave(sharded)
                return self.fetch(*self._asked_for)
        is_sure = len(suspects) < len(files) or len({file.channel for file in files}) == 1
        for file in sorted(suspects, key=lambda file: (file.channel, file.subdir) not in self._agreements):
            other = self._instead_of((file.channel, file.subdir), file, is_sure=is_sure)
            if other is not None:
                self._reporter.message(f"{error.message}; another source is tried", level="warning")
                return [other if each is file else each for each in files]
        return None

    def _instead_of(self, wanted: Wanted, file: RepodataFile, *, is_sure: bool) -> RepodataFile | None:
        """The next source's or form's copy of an index that cannot be read; ``is_sure``: it is this one."""
        agreement = self._agreements.get(wanted)
        if agreement is not None:
            if not agreement.advance():
                agreement.widen()
                if not self._consult([agreement]) or not agreement.advance():
                    return None
            return agreement.lead
        if self._offline:
            return None
        for source in self.standing(wanted, FORMATS[-1]).named:
            if (wanted, source.mirror) not in self._refreshed:
                self._refreshed.add((wanted, source.mirror))
                copy = _copy(wanted, source.mirror)
                result = self._whole.fetch([copy], self._copy_of, replaceable={copy})[copy]
                if result.path is not None and _digest(result.path) != _digest(file.path):
                    self._note(wanted, result, Vouched.NAMED)
                    return RepodataFile(*wanted, result.path)
        result = WholeIndex(error=ChannelUnavailableError("its index cannot be read"))
        if self._forms.get(wanted) is None and self._authorities(wanted, FORMATS[-1]):
            self._forms[wanted] = FORMATS[-1]
            replaceable = {wanted} if self._has_others(wanted, Vouched.AUTHORITY) else ()
            result = self._whole.fetch([wanted], self._authorities, forms=FORMATS[-1:], replaceable=replaceable)[wanted]
            if result.path is not None:
                self._note(wanted, result, Vouched.AUTHORITY)
                return RepodataFile(*wanted, result.path)
            result.error = result.error or ChannelUnavailableError("its index cannot be read")
        if not is_sure:
            return None
        results = {wanted: result}
        self._agree([wanted], results)
        agreement = self._agreements.get(wanted)
        return None if agreement is None else agreement.lead

    def _other_leads(self, files: Sequence[RepodataFile], of: Iterable[Wanted]) -> list[RepodataFile] | None:
        """The same files, with the next carrier's copy leading in each index of ``of``; None where none is left."""
        agreements = [self._agreements[each] for each in of]
        advanced = [agreement for agreement in agreements if agreement.advance()]
        if not advanced:
            for agreement in agreements:
                agreement.widen()
            if not self._consult(agreements):
                return None
        leads = {each: agreement.lead for each, agreement in self._agreements.items()}
        return [leads.get((file.channel, file.subdir)) or file for file in files]

    def _fresher(self, files: Sequence[RepodataFile], disputes: Mapping[str, str]) -> tuple[list[RepodataFile], bool]:
        """The files, and whether any of them is another one now."""
        if self._offline:
            return list(files), False
        if self._shards is not None and self._shards.has_newer():
            return self.fetch(*self._asked_for), True
        sharded = () if self._shards is None else self._shards.used
        before = {(file.channel, file.subdir): (_rank(file.path, disputes), _digest(file.path)) for file in files}
        newer = {(file.channel, file.subdir): file for file in files}
        changed: set[Wanted] = set()
        while True:
            asked: dict[Asked, Wanted] = {}
            for each in newer:
                if each in sharded:
                    continue
                stand = self.standing(each, FORMATS[-1])
                deciding = stand.named or (() if each in self._agreements else stand.authority)
                left = [source.mirror for source in deciding if (each, source.mirror) not in self._refreshed]
                if left and each not in changed:
                    self._refreshed.add((each, left[0]))
                    asked[_copy(each, left[0])] = each
            if not asked:
                break
            for copy, result in self._whole.fetch(list(asked), self._copy_of, past_caches=True).items():
                each = asked[copy]
                rank, digest = before[each]
                if result.path is None or (result.path == newer[each].path and result.kept):
                    continue
                if _digest(result.path) == digest:
                    continue
                if result.path != newer[each].path:  # of several named mirrors
                    if disputes and _rank(result.path, disputes) <= rank:
                        continue
                    self._reporter.message(f"{copy[-1]} has another index of {each[0].name}", level="info")
                newer[each] = RepodataFile(*each, result.path)
                vouched = Vouched.NAMED if copy[-1] in self._named else Vouched.AUTHORITY
                self._note(each, result, vouched)
                changed.add(each)
        return list(newer.values()), bool(changed)

    # ------------------------------------------------------------------ the result

    def _present(
        self, wanted: Sequence[Wanted], others: Collection[Wanted], results: Mapping[Wanted, WholeIndex]
    ) -> list[RepodataFile]:
        """The files that there are, beside ``others``. Raises for what cannot be had, for a channel that is nowhere."""
        files: dict[Wanted, RepodataFile] = {}
        for each in wanted:
            agreement, result = self._agreements.get(each), results.get(each)
            if agreement is not None and agreement.lead is not None:
                files[each] = agreement.lead
            elif result is not None and result.error is not None and agreement is None:
                raise result.error
            elif result is not None and result.path is not None:
                files[each] = RepodataFile(*each, result.path)
        have = {channel for channel, _ in (*files, *others)}
        for channel, subdir in wanted:
            if channel not in have:
                raise self._not_found(channel, results)
            if (
                self._offline
                and (channel, subdir) not in files
                and self._shards
                and (channel, subdir) in self._shards.left
            ):
                raise ChannelNotFoundError(
                    f"of the index of {channel.name}/{subdir} other packages were fetched before than this needs",
                    hint="run it without --offline",
                )
            if (channel, subdir) not in files and (channel, subdir) not in others:
                self._reporter.message(f"{channel.name} has nothing for {subdir}", level="debug")
        return [files[each] for each in wanted if each in files]

    def _not_found(self, channel: Channel, results: Mapping[Wanted, WholeIndex]) -> ResumeDLError:
        tried = tuple(
            dict.fromkeys(url for each, other in results.items() if each[0] == channel for url in other.tried)
        )
        what = "has not been fetched before" if self._offline else "has no repodata anywhere"
        return ChannelNotFoundError(
            f"the channel {channel.name} {what} (tried {', '.join(tried) or 'no address: no mirror has it'})",
            tried=tried,
            hint="check its name, or run without --offline" if self._offline else "check the channel's name",
        )


def _stands_in(path: Path | None, artifact: Artifact) -> bool:
    """Whether an index has the record of ``artifact``. Raises IntegrityError."""
    return path is not None and compare(artifact, find_record(path, artifact.filename)) is Stated.ALIKE


def _is_there(results: Mapping[Wanted, WholeIndex], wanted: Wanted) -> bool:
    result = results.get(wanted)
    return result is not None and result.path is not None


def _copy(wanted: Wanted, mirror: str) -> Asked:
    channel, subdir = wanted
    return channel, subdir, mirror


def _of_all(errors: Sequence[ResumeDLError], tried: tuple[str, ...]) -> ResumeDLError:
    """One error for an index that no source gave."""
    if len(errors) == 1:
        return errors[0]
    for error in errors:
        if isinstance(error, CaptivePortalError):
            return error
    causes = [error.__cause__ for error in errors]
    silent = [cause for cause in causes if isinstance(cause, NoNetworkError)]
    if len(silent) == len(errors):
        hosts = tuple(dict.fromkeys(host for cause in silent for host in cause.hosts))
        told = silent[0].causes
        unavailable = ChannelUnavailableError(
            no_network(hosts, told[0] if told else ""), tried=tried, hint=silent[0].hint
        )
        unavailable.__cause__ = NoNetworkError(hosts, causes=told)
        return unavailable
    message = "; ".join(dict.fromkeys(error.message for error in errors))
    return ChannelUnavailableError(message, tried=tried, hint=errors[0].hint)


def _digest(path: Path) -> bytes:
    """Of a whole file; empty where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(1 << 20):
                digest.update(piece)
    except OSError:
        return b""
    return digest.digest()


def _rank(path: Path, disputes: Mapping[str, str]) -> tuple[int, int]:
    """How good a copy is where bytes are disputed: it knows those that there are, it does not insist on others."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            knows = sum(data.find(actual.encode()) >= 0 for actual in disputes.values())
            insists = sum(data.find(denied.encode()) >= 0 for denied in disputes)
    except (OSError, ValueError):
        return 0, 0
    return knows, -insists

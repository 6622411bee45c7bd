"""Indexes of carriers, for channels whose authority is unavailable: requests to carriers and their agreement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.agreement import Agreement
from resume_dl.indexes.channel_notes import ChannelNotes
from resume_dl.indexes.index_errors import too_few, unstated
from resume_dl.indexes.index_sources import IndexSources, of_mirror
from resume_dl.indexes.trust import Stated, compare
from resume_dl.indexes.whole import Asked, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import find_record
from resume_dl.resolve.request import RepodataFile


class CarrierIndexes:
    """The agreements of one command, by index. ``offline``: only kept copies are used."""

    def __init__(
        self, sources: IndexSources, whole: WholeIndexes, notes: ChannelNotes, reporter: Reporter, *, offline: bool
    ) -> None:
        self._sources = sources
        self._whole = whole
        self._notes = notes
        self._reporter = reporter
        self._offline = offline
        self._agreements: dict[Wanted, Agreement] = {}
        self.alone: dict[Wanted, str] = {}
        """Index -> the only mirror that has answered, where two operators are needed."""

    def __contains__(self, wanted: Wanted) -> bool:
        """Whether this index comes from carriers instead of its authority."""
        return wanted in self._agreements

    def lead(self, wanted: Wanted) -> RepodataFile | None:
        """The copy to solve on; None if no carrier has this index, or the authority has answered."""
        agreement = self._agreements.get(wanted)
        return None if agreement is None else agreement.lead

    # ------------------------------------------------------------------ the first copies

    def begin(self, wanted: Sequence[Wanted], results: dict[Wanted, WholeIndex]) -> None:
        """Ask carriers of two operators for each; if too few answer, the index's entry in ``results`` gets an error.

        Raises Interrupted or StoreError.
        """
        begun = []
        for each in wanted:
            stand = self._sources.standing(each)
            if stand.carriers:
                why = results[each].error if each in results else None
                begun.append(Agreement(each, stand.carriers, self._sources.table, why, self._reporter))
                self._notes.silent(each[0], why)
        self._consult(begun)
        for agreement in begun:
            result = results.setdefault(agreement.wanted, WholeIndex())
            result.tried += tuple(url for copy in agreement.copies.values() for url in copy.tried)
            if agreement.is_possible or (self._offline and agreement.lead is not None):
                result.error = None
                self._agreements[agreement.wanted] = agreement
            elif not self._offline:
                result.error = too_few(agreement, self._sources.host_of(agreement.wanted[0]), result.tried)
                if agreement.answered:
                    self.alone[agreement.wanted] = agreement.answered[0]

    def leave(self, wanted: Wanted) -> None:
        """Stop using carriers for it, because its authority has answered."""
        self._agreements.pop(wanted, None)

    def _consult(self, agreements: Sequence[Agreement]) -> bool:
        """Ask the carriers that ``agreements`` need; return whether any had an index."""
        came = False
        while True:
            asked: dict[Asked, Agreement] = {}
            for agreement in agreements:
                for source in agreement.to_ask():
                    asked[of_mirror(agreement.wanted, source.mirror)] = agreement
            if not asked:
                return came
            names = {each[-1] for each in asked}
            replaceable = {each for each, agreement in asked.items() if agreement.has_others(names)}
            for each, result in self._whole.fetch(list(asked), self._sources.copy_of, replaceable=replaceable).items():
                if self._offline and result.path is None:
                    result.error = ChannelUnavailableError("there is no kept copy")
                asked[each].copies[each[-1]] = result
                came = came or result.path is not None

    # ------------------------------------------------------------------ further copies

    def next_lead(self, wanted: Wanted) -> RepodataFile | None:
        """Return the next carrier's copy, in place of an unreadable one; None if none is left."""
        agreement = self._agreements[wanted]
        if not agreement.advance():
            agreement.widen()
            if not self._consult([agreement]) or not agreement.advance():
                return None
        return agreement.lead

    def other_leads(
        self, files: Sequence[RepodataFile], of: Iterable[Wanted] | None = None
    ) -> list[RepodataFile] | None:
        """Return the files with the next carrier's copy for each index of ``of``; None if none is left.

        ``of`` defaults to every index of carriers.
        """
        agreements = [self._agreements[each] for each in (self._agreements if of is None else of)]
        advanced = [agreement for agreement in agreements if agreement.advance()]
        if not advanced:
            for agreement in agreements:
                agreement.widen()
            if not self._consult(agreements):
                return None
        return [self.lead((file.channel, file.subdir)) or file for file in files]

    # ------------------------------------------------------------------ agreement

    def unstated(self, files: Sequence[RepodataFile], artifacts: Iterable[Artifact]) -> dict[Wanted, list[Artifact]]:
        """Return the records that only one carrier states, by index.

        A record that names another subdir of the channel must be in that subdir's index. Raises DigestMismatchError if
        carriers contradict each other, IntegrityError.
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

    def unbelieved(self, records: Mapping[Wanted, Sequence[Artifact]]) -> ChannelUnavailableError:
        """Return the error for the records that ``unstated`` returned."""
        first = next(iter(records))
        self.alone |= {wanted: self._agreements[wanted].agreed[0] for wanted in records}
        every = [artifact for artifacts in records.values() for artifact in artifacts]
        return unstated(every, self._agreements[first].agreed[0], self._sources.host_of(first[0]))

    def note(self) -> None:
        """Report the agreements."""
        self._notes.agreed(self._agreements.values())


def _stands_in(path: Path | None, artifact: Artifact) -> bool:
    """Whether an index has the record of ``artifact``. Raises IntegrityError."""
    return path is not None and compare(artifact, find_record(path, artifact.filename)) is Stated.ALIKE

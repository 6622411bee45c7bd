"""Whole indexes of authoritative sources: the mirrors of ``--index-from``, then each channel's authority."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resume_dl.indexes.channel_notes import ChannelNotes
from resume_dl.indexes.index_errors import of_all
from resume_dl.indexes.index_sources import IndexSources
from resume_dl.indexes.whole import FORMATS, SourcesOf, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.index_report import Vouched


class Authorities:
    """Asks the named mirrors in order, then the authority. ``offline``: only kept copies are used."""

    def __init__(self, sources: IndexSources, whole: WholeIndexes, notes: ChannelNotes, *, offline: bool) -> None:
        self._sources = sources
        self._whole = whole
        self._notes = notes
        self._offline = offline
        self._silent: set[Wanted] = set()
        """Indexes whose authority was given up early and not asked again."""

    def fetch(self, wanted: Sequence[Wanted]) -> tuple[dict[Wanted, WholeIndex], list[Wanted]]:
        """Return the results, and the indexes without an authoritative answer. Raises Interrupted or StoreError."""
        results: dict[Wanted, WholeIndex] = {}
        for at in range(len(self._sources.named)):
            absent = [each for each in wanted if not _is_there(results, each)]
            results |= self._asked(absent, self._sources.nth_named(at), Vouched.NAMED, results)
        rest = [each for each in wanted if not self._is_settled(results.get(each))]
        results |= self._asked(rest, self._sources.authorities, Vouched.AUTHORITY, results)
        return results, [each for each in wanted if not self._is_settled(results.get(each))]

    def once_more(self, alone: Mapping[Wanted, str]) -> dict[Wanted, WholeIndex]:
        """Ask authorities that were given up early once more, with longer time limits; return the results.

        ``alone``: index -> the only mirror that has answered. So the network works, but nothing can be accepted without
        the authority. Raises Interrupted or StoreError.
        """
        asked = [each for each in alone if each in self._silent]
        self._silent.difference_update(asked)
        for each in asked:
            self._notes.once_more(each[0], alone[each])
        answers = self._whole.fetch(asked, self._sources.authorities, last_chance=True) if asked else {}
        found = {each: answers[each] for each in asked if answers[each].error is None}
        for each, result in found.items():
            if result.path is not None:
                self._notes.whole(each, result, Vouched.AUTHORITY)
        return found

    def _asked(
        self, wanted: Sequence[Wanted], choose: SourcesOf, vouched: Vouched, before: Mapping[Wanted, WholeIndex]
    ) -> dict[Wanted, WholeIndex]:
        """Fetch the indexes for which ``choose`` returns a source."""
        asked = [each for each in wanted if choose(each, FORMATS[-1]) or self._sources.is_nowhere(each)]
        replaceable = {each for each in asked if self._sources.has_others(each, vouched)}
        answers = self._whole.fetch(asked, choose, replaceable=replaceable) if asked else {}
        results: dict[Wanted, WholeIndex] = {}
        for each in asked:
            result = results[each] = answers[each]
            if result.silent and vouched is Vouched.AUTHORITY:
                self._silent.add(each)
            if each in before:
                result.tried = (*before[each].tried, *result.tried)
                errors = [error for error in (before[each].error, result.error) if error is not None]
                result.error = of_all(errors, result.tried) if errors and result.path is None else None
            if result.path is not None:
                self._notes.whole(each, result, vouched)
        return results

    def _is_settled(self, result: WholeIndex | None) -> bool:
        """Whether an authoritative source has answered, even negatively. A missing kept copy is no answer."""
        return result is not None and result.error is None and not (self._offline and result.path is None)


def _is_there(results: Mapping[Wanted, WholeIndex], wanted: Wanted) -> bool:
    result = results.get(wanted)
    return result is not None and result.path is not None

"""Substitute indexes from mirrors, for a client whose own URL of a channel is unavailable (docs/indexes.md).

The client solves on a whole file, so it gets a merged index of the records on which mirrors of two operators agree, or
the index of a mirror of ``--index-from``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl import fs
from resume_dl.indexes.merged_index import Merged, MirrorCopy, UnreadableCopyError, lacking, write_merged
from resume_dl.indexes.operators import Operators, independent, next_witnesses, operators_of
from resume_dl.indexes.trust import Standing
from resume_dl.indexes.whole import Asked, SourcesOf, Wanted, WholeIndex, WholeIndexes
from resume_dl.model.artifact import Source
from resume_dl.model.index_report import Vouched
from resume_dl.model.mirror import MirrorTable

TWO = 2
"""The number of operators that must state a record."""
ROUNDS = 2
"""Rounds of requests to further carriers if others do not answer; few, as the client waits for us."""
FURTHER = 3
"""Rounds of requests to further operators for records without agreement; each downloads whole indexes."""
NOARCH = "noarch"

StandingOf = Callable[[Asked, str], Standing]
"""Returns the sources of the file of this name beside an index, by their standing."""


@dataclass(frozen=True, slots=True)
class SubstituteIndex:
    """An index for the client; ``path`` is ours and valid only during the call that receives it."""

    path: Path
    vouched: Vouched
    carried_by: tuple[str, ...]
    """The named mirror, or those that were compared."""
    contradicted: tuple[str, ...] = ()
    """The number of files left out because mirrors state different digests."""


Give = Callable[[Wanted, SubstituteIndex], None]


class SubstituteIndexes:
    """Whole indexes of mirrors; merged ones are written to ``folder`` and removed once the client has them.

    ``names``: the requested packages. Further operators are asked if the first two do not agree on any record of one of
    these or of their dependencies.
    """

    def __init__(
        self,
        whole: WholeIndexes,
        standing_of: StandingOf,
        table: MirrorTable,
        folder: Path,
        *,
        names: Collection[str] = (),
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._whole = whole
        self._cancelled = cancelled
        self._standing_of = standing_of
        self._table = table
        self._folder = folder
        self._names = names

    def can_replace(self, wanted: Wanted, form: str) -> bool:
        """Whether mirrors may supply it instead of the client's own URL, if they agree or are named."""
        stand = self._standing_of(wanted, form)
        operators = independent(operators_of(source, self._table) for source in stand.carriers)
        return bool(stand.named or stand.authority) or operators >= TWO

    def give_named(self, wanted: Sequence[Wanted], forms: Sequence[str], give: Give) -> None:
        """Supply the index of the first named mirror that has one.

        Raises Interrupted or StoreError, and what ``give`` raises.
        """
        most = max((len(self._standing_of(each, forms[-1]).named) for each in wanted), default=0)
        left = wanted
        for at in range(most):

            def nth(asked: Asked, name: str, at: int = at) -> tuple[Source, ...]:
                return self._standing_of(asked, name).named[at : at + 1]

            left = self._give_of(left, forms, nth, Vouched.NAMED, give)

    def give_origin(self, wanted: Sequence[Wanted], forms: Sequence[str], give: Give) -> None:
        """Supply the authority's index, if its URL is not the client's own. Raises what ``give_named`` raises.

        The URLs differ if the client uses a retired mirror, or an origin that mirrors.toml has moved.
        """
        self._give_of(
            wanted, forms, lambda asked, name: self._standing_of(asked, name).authority, Vouched.AUTHORITY, give
        )

    def _give_of(
        self, wanted: Sequence[Wanted], forms: Sequence[str], choose: SourcesOf, vouched: Vouched, give: Give
    ) -> list[Wanted]:
        """Supply indexes from the sources of ``choose``; return those that are missing there."""
        asked = [each for each in wanted if choose(each, forms[-1])]
        results = self._whole.fetch(asked, choose, forms=forms, replaceable=asked)
        for each in asked:
            if (path := results[each].path) is not None:
                give(each, SubstituteIndex(path, vouched, results[each].carried_by))
        return [each for each in wanted if each not in results or results[each].path is None]

    def give_agreed(
        self, wanted: Sequence[Wanted], forms: Sequence[str], give: Give, *, empty: bool
    ) -> dict[Wanted, str]:
        """Supply what carriers agree on; return, for the others, the reason why nothing can be accepted.

        ``empty``: supply an index without records if carriers of two operators lack it, except for ``noarch``, which
        every channel has. Raises Interrupted or StoreError, and what ``give`` raises.
        """
        witnesses = {each: _Witnesses(self._standing_of(each, forms[-1]).carriers, self._table) for each in wanted}
        witnesses = {each: those for each, those in witnesses.items() if those.may_agree}
        for _ in range(ROUNDS):
            if not self._consult(witnesses, forms):
                break
        able = {
            each: those
            for each, those in witnesses.items()
            if those.are_two or (empty and those.say_absent and each[1] != NOARCH)
        }
        whys = {each: those.why for each, those in witnesses.items() if each not in able}
        self._merge(able, forms, give, whys)
        return whys

    def _consult(self, witnesses: Mapping[Wanted, _Witnesses], forms: Sequence[str]) -> bool:
        """Ask the carriers that are needed now; return whether any was asked."""
        asked: dict[Asked, Wanted] = {}
        for each, those in witnesses.items():
            for source in those.to_ask():
                asked[each[0], each[1], source.mirror] = each
        if not asked:
            return False

        def copy_of(copy: Asked, name: str) -> tuple[Source, ...]:
            carriers = self._standing_of(copy, name).carriers
            return tuple(source for source in carriers if source.mirror == copy[-1])

        for copy, result in self._whole.fetch([*asked], copy_of, forms=forms, replaceable=asked).items():
            witnesses[asked[copy]].answers[copy[-1]] = result
        return True

    def _merge(
        self, witnesses: Mapping[Wanted, _Witnesses], forms: Sequence[str], give: Give, whys: dict[Wanted, str]
    ) -> None:
        """Merge the copies of each index and supply it; if too few records agree, ask a further operator first."""
        self._folder.mkdir(parents=True, exist_ok=True)
        targets = {each: self._folder / f"merged-{secrets.token_hex(8)}.json" for each in witnesses}
        merged: dict[Wanted, Merged] = {}
        now = [*witnesses]
        try:
            for number in range(1 + FURTHER):
                for each in now:
                    self._merge_one(each, witnesses[each], targets[each], merged, whys)
                names = lacking(merged.values(), self._names)
                now = [each for each, one in merged.items() if names & one.alone and witnesses[each].widen()]
                now += [each for each, those in witnesses.items() if each not in merged and those.to_ask()]
                if number == FURTHER or not now or not self._consult({each: witnesses[each] for each in now}, forms):
                    break
            for each, one in merged.items():
                agreeing = witnesses[each].agreeing
                give(each, SubstituteIndex(targets[each], Vouched.AGREEMENT, agreeing, one.contradicted))
        finally:
            for target in targets.values():
                with suppress(OSError):
                    target.unlink(missing_ok=True)

    def _merge_one(
        self, wanted: Wanted, those: _Witnesses, target: Path, merged: dict[Wanted, Merged], whys: dict[Wanted, str]
    ) -> None:
        """Write ``target`` from the readable copies; leave it unchanged if too few are left."""
        new = target.with_suffix(".new")
        try:
            while those.are_two or (those.say_absent and wanted not in whys):  # a refused index is not an absent one
                try:
                    merged[wanted] = write_merged(those.copies, new, wanted[1], cancelled=self._cancelled)
                except UnreadableCopyError as error:
                    those.answers[error.mirror] = WholeIndex(error=error)  # only this mirror has failed
                    whys[wanted] = error.message
                else:
                    fs.replace(new, target)
                    whys.pop(wanted, None)
                    break
        finally:
            with suppress(OSError):
                new.unlink(missing_ok=True)


@dataclass(slots=True)
class _Witnesses:
    """The carriers of one index and their answers, by mirror."""

    carriers: Sequence[Source]
    table: MirrorTable
    answers: dict[str, WholeIndex] = field(default_factory=dict)
    need: int = TWO

    @property
    def copies(self) -> list[MirrorCopy]:
        """Return the indexes that arrived, in the order of the requests."""
        return [
            MirrorCopy(name, self._behind(name), answer.path)
            for name, answer in self.answers.items()
            if answer.path is not None
        ]

    @property
    def may_agree(self) -> bool:
        """Whether there are carriers of two operators."""
        return independent(self._operators().values()) >= TWO

    @property
    def are_two(self) -> bool:
        """Whether two operators have supplied an index."""
        return independent(copy.operators for copy in self.copies) >= TWO

    @property
    def say_absent(self) -> bool:
        """Whether two operators have answered that there is no such index, and none has supplied one."""
        absent = [name for name, each in self.answers.items() if each.path is None and each.error is None]
        return not self.copies and independent(map(self._behind, absent)) >= TWO

    @property
    def why(self) -> str:
        """Return the reason why nothing can be accepted."""
        gave = [copy.mirror for copy in self.copies]
        if gave:
            return f"only {' and '.join(gave)} of its mirrors has supplied an index, which is not enough"
        return "no mirror has supplied an index" if self.answers else ""

    def to_ask(self) -> list[Source]:
        """Return the carriers to ask now."""
        if self.say_absent:
            return []
        heard = [copy.operators for copy in self.copies]
        return next_witnesses(self.carriers, self._operators(), asked=self.answers, heard=heard, need=self.need)

    def widen(self) -> bool:
        """Require one more operator; return whether there is one that was not asked."""
        self.need = independent(copy.operators for copy in self.copies) + 1
        return bool(self.to_ask())

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The mirrors that were compared."""
        return tuple(copy.mirror for copy in self.copies) or tuple(self.answers)

    def _operators(self) -> dict[str, Operators]:
        return {source.mirror: operators_of(source, self.table) for source in self.carriers}

    def _behind(self, name: str) -> Operators:
        """Return the operators behind an answer: the mirror's own, and those of servers to which it redirected."""
        source = next(source for source in self.carriers if source.mirror == name)
        return operators_of(source, self.table, self.answers[name].answered_by)

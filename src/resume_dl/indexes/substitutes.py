"""Indexes from mirrors for a client whose own address of a channel gives none (docs/indexes.md, the rule of trust).

The client solves on the whole file, so what it is given is a merged index of what mirrors of two operators state alike,
or the index of a mirror that the user named.
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
"""So many operators must state a record."""
ROUNDS = 2
"""So often carriers are asked where others have not answered: the client can still ask by itself, and waits for us."""
FURTHER = 3
"""So often further operators are asked for what the others do not agree on; each gives whole indexes."""
NOARCH = "noarch"

StandingOf = Callable[[Asked, str], Standing]
"""The sources of the file of this name beside an index, by what they count for."""


@dataclass(frozen=True, slots=True)
class SubstituteIndex:
    """An index for the client; ``path`` is ours, and valid only during the call that it is given to."""

    path: Path
    vouched: Vouched
    carried_by: tuple[str, ...]
    """The mirror that the user named, or those that were compared."""
    contradicted: tuple[str, ...] = ()
    """Files that are left out because mirrors state different digests."""


Give = Callable[[Wanted, SubstituteIndex], None]


class SubstituteIndexes:
    """Whole indexes of mirrors; merged ones are written to ``folder`` and removed once the client has them.

    ``names``: of the packages that the user asked for. Further operators are asked where the first two do not agree on
    any record of one of them, or of a package that they depend on.
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
        """Whether mirrors may have it in the place of the client's own address, should they agree or be named."""
        stand = self._standing_of(wanted, form)
        operators = independent(operators_of(source, self._table) for source in stand.carriers)
        return bool(stand.named or stand.authority) or operators >= TWO

    def give_named(self, wanted: Sequence[Wanted], forms: Sequence[str], give: Give) -> None:
        """Give the index of the first mirror that the user named and that has one.

        Raises Interrupted or StoreError, and what ``give`` raises.
        """
        most = max((len(self._standing_of(each, forms[-1]).named) for each in wanted), default=0)
        left = wanted
        for at in range(most):

            def nth(asked: Asked, name: str, at: int = at) -> tuple[Source, ...]:
                return self._standing_of(asked, name).named[at : at + 1]

            left = self._give_of(left, forms, nth, Vouched.NAMED, give)

    def give_origin(self, wanted: Sequence[Wanted], forms: Sequence[str], give: Give) -> None:
        """Give what the channel's authority has, where that is not the client's own address. Raises as ``give_named``.

        It is another one where the client names a mirror that is retired, or an origin that mirrors.toml has moved.
        """
        self._give_of(
            wanted, forms, lambda asked, name: self._standing_of(asked, name).authority, Vouched.AUTHORITY, give
        )

    def _give_of(
        self, wanted: Sequence[Wanted], forms: Sequence[str], choose: SourcesOf, vouched: Vouched, give: Give
    ) -> list[Wanted]:
        """Give the index of the sources of ``choose``; returns those that have none."""
        asked = [each for each in wanted if choose(each, forms[-1])]
        results = self._whole.fetch(asked, choose, forms=forms, replaceable=asked)
        for each in asked:
            if (path := results[each].path) is not None:
                give(each, SubstituteIndex(path, vouched, results[each].carried_by))
        return [each for each in wanted if each not in results or results[each].path is None]

    def give_agreed(
        self, wanted: Sequence[Wanted], forms: Sequence[str], give: Give, *, empty: bool
    ) -> dict[Wanted, str]:
        """Give what carriers agree on; of the others, why there is nothing to believe.

        ``empty``: give an index without records where carriers of two operators have none, except for ``noarch``, which
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
        """Ask as many carriers as are needed now; whether any was asked."""
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
        """Merge what came for each, and give it; where too little is agreed on, with a further operator's first."""
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
        """Write ``target``, without copies that cannot be read; where too few are left it stays as it was."""
        new = target.with_suffix(".new")
        try:
            while those.are_two or (those.say_absent and wanted not in whys):  # what was refused is not absent
                try:
                    merged[wanted] = write_merged(those.copies, new, wanted[1], cancelled=self._cancelled)
                except UnreadableCopyError as error:
                    those.answers[error.mirror] = WholeIndex(error=error)  # its mirror's failure, not the others'
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
    """The carriers of one index and what they answered, by mirror."""

    carriers: Sequence[Source]
    table: MirrorTable
    answers: dict[str, WholeIndex] = field(default_factory=dict)
    need: int = TWO

    @property
    def copies(self) -> list[MirrorCopy]:
        """The indexes that came, in the order in which their mirrors were asked."""
        return [
            MirrorCopy(name, self._behind(name), answer.path)
            for name, answer in self.answers.items()
            if answer.path is not None
        ]

    @property
    def may_agree(self) -> bool:
        """Whether there are two operators at all."""
        return independent(self._operators().values()) >= TWO

    @property
    def are_two(self) -> bool:
        """Whether two operators have given an index."""
        return independent(copy.operators for copy in self.copies) >= TWO

    @property
    def say_absent(self) -> bool:
        """Whether two operators have answered that there is no such index, and none has given one."""
        absent = [name for name, each in self.answers.items() if each.path is None and each.error is None]
        return not self.copies and independent(map(self._behind, absent)) >= TWO

    @property
    def why(self) -> str:
        """Why there is nothing to believe."""
        gave = [copy.mirror for copy in self.copies]
        if gave:
            return f"of its mirrors {' and '.join(gave)} alone has given an index, which is not enough"
        return "no mirror has given an index" if self.answers else ""

    def to_ask(self) -> list[Source]:
        """The carriers to ask now."""
        if self.say_absent:
            return []
        heard = [copy.operators for copy in self.copies]
        return next_witnesses(self.carriers, self._operators(), asked=self.answers, heard=heard, need=self.need)

    def widen(self) -> bool:
        """Want one operator more; whether there is one that was not asked."""
        self.need = independent(copy.operators for copy in self.copies) + 1
        return bool(self.to_ask())

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The mirrors that were compared."""
        return tuple(copy.mirror for copy in self.copies) or tuple(self.answers)

    def _operators(self) -> dict[str, Operators]:
        return {source.mirror: operators_of(source, self.table) for source in self.carriers}

    def _behind(self, name: str) -> Operators:
        """The operators whose word an answer is: the mirror's own, and those to whose servers it has redirected."""
        source = next(source for source in self.carriers if source.mirror == name)
        return operators_of(source, self.table, self.answers[name].answered_by)

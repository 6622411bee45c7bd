"""One index whose authority cannot be asked: carriers' copies, of which one leads and the others are its witnesses.

A solve runs on the leading copy. Each record that it chooses counts only where a carrier of another operator states it
alike (docs/indexes.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resume_dl.errors import DigestMismatchError, IntegrityError, ResumeDLError
from resume_dl.indexes.operators import Operators, independent, next_witnesses, operators_of
from resume_dl.indexes.trust import Stated, among, compare
from resume_dl.indexes.whole import Wanted, WholeIndex
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.mirror import MirrorTable
from resume_dl.ports import Reporter
from resume_dl.resolve.repodata import find_record
from resume_dl.resolve.request import RepodataFile

TWO = 2
"""So many operators must say the same."""


class Agreement:
    """The copies of one index that carriers gave so far. ``why``: what became of the authority, None if not asked."""

    def __init__(
        self,
        wanted: Wanted,
        carriers: Sequence[Source],
        table: MirrorTable,
        why: ResumeDLError | None,
        reporter: Reporter,
    ) -> None:
        self.wanted = wanted
        self.carriers = tuple(carriers)
        self.why = why
        self.copies: dict[str, WholeIndex] = {}
        """Mirror -> its answer, in the order in which they were asked."""
        self._table = table
        self._sources = {source.mirror: source for source in carriers}
        self._operators = {source.mirror: operators_of(source, table) for source in carriers}
        self._reporter = reporter
        self._need = TWO
        self._at = 0
        self._witnesses: dict[str, None] = {}
        self.is_used = False
        """Whether the last solve has chosen a record of it."""

    # ------------------------------------------------------------------ whom to ask

    def to_ask(self) -> list[Source]:
        """The carriers to ask now; those after them are asked where these do not answer."""
        return next_witnesses(self.carriers, self._operators, asked=self.copies, heard=self._heard(), need=self._need)

    def has_others(self, asked: Iterable[str]) -> bool:
        """Whether a carrier is left besides ``asked``."""
        return bool({source.mirror for source in self.carriers} - self.copies.keys() - {*asked})

    @property
    def answered(self) -> list[str]:
        """The mirrors that have answered, be it that they have no such index."""
        return [name for name, copy in self.copies.items() if copy.error is None]

    def _heard(self) -> list[Operators]:
        return [self._behind(name) for name in self.answered]

    def _behind(self, name: str) -> Operators:
        """The operators whose word a mirror's copy is: its own, and that of the servers to which it has redirected."""
        return operators_of(self._sources[name], self._table, self.copies[name].answered_by)

    @property
    def is_possible(self) -> bool:
        """Whether two operators have answered, be it that they have no such index."""
        return independent(self._heard()) >= TWO

    # ------------------------------------------------------------------ the leading copy

    @property
    def _leads(self) -> list[str]:
        return [name for name, copy in self.copies.items() if copy.path is not None]

    @property
    def lead(self) -> RepodataFile | None:
        """The copy to solve on; None where no carrier has this index."""
        leads = self._leads
        path = self.copies[leads[self._at]].path if leads else None
        return None if path is None else RepodataFile(*self.wanted, path)

    def advance(self) -> bool:
        """Let the next copy lead, if there is one."""
        if self._at + 1 >= len(self._leads):
            return False
        self._at += 1
        return True

    def widen(self) -> None:
        """Ask one operator more (``to_ask``), and begin with the first copy again: it may find a witness now."""
        self._need = independent(self._heard()) + 1
        self._at = 0

    # ------------------------------------------------------------------ what they agree on

    def unstated(self, artifacts: Iterable[Artifact]) -> list[Artifact]:
        """Those of the leading copy that no other operator states.

        Raises DigestMismatchError where another operator has another digest for a file.
        """
        artifacts = list(artifacts)
        self.is_used = bool(artifacts)
        lead = self._leads[self._at]
        own = self._behind(lead)
        others = [name for name in self._leads if not self._behind(name) & own]
        self._witnesses.clear()
        return [artifact for artifact in artifacts if not self._is_stated(artifact, lead, others)]

    def _is_stated(self, artifact: Artifact, lead: str, others: Sequence[str]) -> bool:
        channel, subdir = self.wanted
        if not artifact.url.reveal().startswith(f"{channel.canonical_base.reveal()}/{subdir}/"):
            return False  # a base_url of the leading index: no witness has said where its files lie
        for name in others:
            path = self.copies[name].path
            try:
                record = None if path is None else find_record(path, artifact.filename)
            except IntegrityError as error:
                self._reporter.message(f"the index of {name} is no witness: {error.message}", level="debug")
                continue
            verdict = compare(artifact, record)
            if verdict is Stated.OTHERWISE and record is not None:
                raise _contradiction(artifact, lead, name, record)
            if verdict is Stated.ALIKE:
                self._witnesses[name] = None
                return True
        return False

    @property
    def agreed(self) -> tuple[str, ...]:
        """The mirrors whose statements the last ``unstated`` relied on, the leading one first."""
        leads = self._leads
        return (*leads[self._at : self._at + 1], *self._witnesses)


def _contradiction(artifact: Artifact, lead: str, other: str, record: object) -> DigestMismatchError:
    kind, own, theirs = "", "", ""
    if isinstance(record, dict):
        for kind in ("sha256", "md5"):
            own, theirs = getattr(artifact, kind) or "", str(record.get(kind) or "")
            if own and theirs and own.lower() != theirs.lower():
                break
    return DigestMismatchError(
        f"{artifact.filename}: {lead} states {kind} {own}, {other} states {theirs}; one of these mirrors is wrong, and "
        "nothing is fetched",
        expected=own,
        actual=theirs,
        hint=among((lead, other)),
    )

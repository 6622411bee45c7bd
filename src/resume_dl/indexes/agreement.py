"""Agreement of carriers on an index whose authority is unavailable: one copy leads, the others are its witnesses.

A solve runs on the leading copy. A record that it chooses is accepted only if a carrier of another operator states the
same (docs/indexes.md).
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
"""The number of operators that must state the same."""


class Agreement:
    """The carriers' copies of one index so far. ``why``: the authority's error, None if it was not asked."""

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
        """Mirror -> its answer, in the order of the requests."""
        self._table = table
        self._sources = {source.mirror: source for source in carriers}
        self._operators = {source.mirror: operators_of(source, table) for source in carriers}
        self._reporter = reporter
        self._need = TWO
        self._at = 0
        self._witnesses: dict[str, None] = {}
        self.is_used = False
        """Whether the last solve chose a record of this index."""

    # ------------------------------------------------------------------ sources to ask

    def to_ask(self) -> list[Source]:
        """Return the carriers to ask now; further ones are asked if these do not answer."""
        return next_witnesses(self.carriers, self._operators, asked=self.copies, heard=self._heard(), need=self._need)

    def has_others(self, asked: Iterable[str]) -> bool:
        """Whether there is a carrier that is not in ``asked``."""
        return bool({source.mirror for source in self.carriers} - self.copies.keys() - {*asked})

    @property
    def answered(self) -> list[str]:
        """The mirrors that have answered, including those without such an index."""
        return [name for name, copy in self.copies.items() if copy.error is None]

    def _heard(self) -> list[Operators]:
        return [self._behind(name) for name in self.answered]

    def _behind(self, name: str) -> Operators:
        """Return the operators behind a mirror's copy: its own, and those of servers to which it redirected."""
        return operators_of(self._sources[name], self._table, self.copies[name].answered_by)

    @property
    def is_possible(self) -> bool:
        """Whether two operators have answered, including those without such an index."""
        return independent(self._heard()) >= TWO

    # ------------------------------------------------------------------ the leading copy

    @property
    def _leads(self) -> list[str]:
        return [name for name, copy in self.copies.items() if copy.path is not None]

    @property
    def lead(self) -> RepodataFile | None:
        """The copy to solve on; None if no carrier has this index."""
        leads = self._leads
        path = self.copies[leads[self._at]].path if leads else None
        return None if path is None else RepodataFile(*self.wanted, path)

    def advance(self) -> bool:
        """Make the next copy the leading one; return whether there is one."""
        if self._at + 1 >= len(self._leads):
            return False
        self._at += 1
        return True

    def widen(self) -> None:
        """Ask one more operator (``to_ask``), and restart with the first copy, which may have a witness then."""
        self._need = independent(self._heard()) + 1
        self._at = 0

    # ------------------------------------------------------------------ agreement

    def unstated(self, artifacts: Iterable[Artifact]) -> list[Artifact]:
        """Return the artifacts of the leading copy that no other operator states.

        Raises DigestMismatchError if another operator has a different digest for a file.
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
            return False  # the location is the leading index's base_url, which no witness has confirmed
        for name in others:
            path = self.copies[name].path
            try:
                record = None if path is None else find_record(path, artifact.filename)
            except IntegrityError as error:
                self._reporter.message(f"the index of {name} cannot be compared: {error.message}", level="debug")
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
        """The mirrors on which the last ``unstated`` relied, the leading one first."""
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

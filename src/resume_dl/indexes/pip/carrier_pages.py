"""Index pages of carriers, for an unreachable authority: requests until two operators agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field

from resume_dl.core.failures import Failure
from resume_dl.core.sources import OF_THE_HOST
from resume_dl.errors import ChannelUnavailableError
from resume_dl.indexes.operators import Operators
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.indexes.pip.page_agreement import Agreement, Statement, agree
from resume_dl.indexes.pip.page_request import PageRequests
from resume_dl.indexes.small_answers import Unanswered
from resume_dl.indexes.trust import without_witness
from resume_dl.model.artifact import Source
from resume_dl.model.index_report import Vouched
from resume_dl.model.url import RedactedUrl

_TRIES_OF_EACH = 2
"""Attempts per carrier, which is asked in parallel with others."""
_WITNESSES = 2
"""The number of operators that have to agree."""


@dataclass(slots=True)
class Said:
    """The carriers' answers."""

    statements: list[Statement] = field(default_factory=list)
    failures: list[tuple[Source, Failure]] = field(default_factory=list)
    tried: list[Source] = field(default_factory=list)
    more: bool = False
    """Whether there are operators that were not asked."""

    @property
    def agreement(self) -> Agreement:
        """The agreement of the statements so far."""
        return agree(self.statements)


class CarrierPages:
    """Asks carriers, two at a time."""

    def __init__(self, requests: PageRequests, notes: IndexNotes, *, every: bool) -> None:
        self._requests = requests
        self._notes = notes
        self._every = every

    def said(self, carriers: Sequence[Source], index: RedactedUrl, why: str) -> Said:
        """Ask as many carriers as two operators' agreement takes; ``every``: one of each operator."""
        said, came = Said(), list[tuple[Source, int]]()
        waiting, asked = list(carriers), dict[Future[tuple[Statement, int]], Source]()
        with ThreadPoolExecutor(_WITNESSES) as pool:
            while True:
                enough = not self._every and said.agreement.exists is not None
                room = _WITNESSES - len(asked) if self._every or not said.statements else int(not asked)
                taken = self._taken(said.statements, asked.values())
                for source in [] if enough else list(waiting):
                    own = self._requests.sources.operators(source)
                    if room > 0 and not own & taken:
                        taken |= own
                        waiting.remove(source)
                        said.tried.append(source)
                        asked[pool.submit(self._statement, source)] = source
                        room -= 1
                if not asked:
                    break
                for future in wait(asked, return_when=FIRST_COMPLETED).done:
                    source = asked.pop(future)
                    try:
                        statement, received = future.result()
                    except Unanswered as unanswered:
                        said.failures += unanswered.failures
                    else:
                        said.statements.append(statement)
                        came.append((source, received))
        said.more = any(not self._requests.sources.operators(source) & taken for source in waiting)
        if said.agreement.exists is not None:  # unused pages are not reported
            for source, received in came:
                self._notes.add(index, source, Vouched.AGREEMENT, received=received, why=why)
        return said

    def _taken(self, statements: Iterable[Statement], asked: Iterable[Source]) -> Operators:
        """Return the operators that have answered or are being asked."""
        own = (self._requests.sources.operators(source) for source in asked)
        return frozenset().union(*(each.operators for each in statements), *own)

    def _statement(self, source: Source) -> tuple[Statement, int]:
        """Return a carrier's page and the bytes downloaded for it. Raises Unanswered, Interrupted."""
        sources = self._requests.sources
        try:
            body, files = self._requests.ask(source, within=sources.patience, tries=_TRIES_OF_EACH)
        except Unanswered as unanswered:
            if self._requests.says_no(source, unanswered):
                hosts = {failure.answered_by for _, failure in unanswered.failures} - {""}
                return Statement(source.mirror, sources.operators(source, hosts), None), 0
            if unanswered.kinds & OF_THE_HOST:
                sources.give_up([source])
            raise
        return Statement(source.mirror, sources.operators(source, [body.url.host]), files), body.received


def unvouched(
    url: RedactedUrl,
    why: str,
    found: Said,
    failures: Sequence[tuple[Source, Failure]],
) -> ChannelUnavailableError:
    """Return the error for an unreachable authority if carriers are too few or disagree on whether the page exists."""
    statements = found.statements
    tried = tuple(dict.fromkeys(str(source.url) for source in (*(source for source, _ in failures), *found.tried)))
    if not statements:
        return ChannelUnavailableError(
            f"the index page {url} is unavailable: {Unanswered([*failures, *found.failures])}",
            tried=tried,
            hint="check the network connection and proxy settings, then run it again",
        )
    names = " and ".join(sorted(statement.mirror for statement in statements))  # answers arrive in any order
    having = [each.mirror for each in statements if each.files is not None]
    if len(statements) == 1:
        said = f"only one mirror, {names}, has answered, and two of different operators have to agree"
    elif len(having) == 1:
        said = f"of the mirrors {names} only {having[0]} has it"
    else:
        said = f"the mirrors that have answered, {names}, have the same operator, and two operators have to agree"
    return ChannelUnavailableError(
        f"the index page {url} is unavailable from its authority ({why}), and {said}",
        tried=tried,
        hint=without_witness(url.host),
    )

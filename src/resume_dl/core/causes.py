"""Why each source of a failed download gave nothing more: the ``causes`` of ``Fail``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.reachability import Reachability
from resume_dl.core.scheduling.connection import Connection
from resume_dl.core.sources import SourceState

Causes = tuple[tuple[int, Failure], ...]
"""Index of a source, and what became of it."""


def last_failures(sources: Sequence[SourceState]) -> Causes:
    """The last failure of each source that has failed."""
    return tuple((i, s.last_failure) for i, s in enumerate(sources) if s.last_failure is not None)


def without_sources(sources: Sequence[SourceState]) -> str:
    """The ``reason`` of a download that has no source left."""
    if all(source.dropped and source.dropped.kind is FailureKind.LACKS for source in sources):
        return "lacking"
    corrupt = not any(source.usable for source in sources) and any(source.quarantined for source in sources)
    return "digest" if corrupt else "exhausted"


def unresolved(sources: Sequence[SourceState], network: Reachability) -> Causes:
    """Why each source's host name could not be resolved, as seen by this file or another one of the run."""
    told = [(i, network.failure_of(source.host)) for i, source in enumerate(sources)]
    return tuple((i, failure) for i, failure in told if failure is not None)


def account_of_all(sources: Sequence[SourceState], live: Iterable[Connection], now: float) -> Causes:
    """What became of each source: its last failure, or how long it has kept silent, or that it had no turn."""
    by_source: dict[int, Connection] = {}
    for one in live:
        by_source.setdefault(one.source, one)
    return tuple((i, s.last_failure or _silence(s, by_source.get(i), now)) for i, s in enumerate(sources))


def _silence(source: SourceState, one: Connection | None, now: float) -> Failure:
    if one is None:
        return Failure(FailureKind.UNASKED, "was not asked again" if source.asked else "was not asked")
    if not one.answered:
        return Failure(FailureKind.STALLED, f"no answer within {round(now - one.opened_at)} s")
    return Failure(FailureKind.STALLED, f"no byte for {round(now - one.last_byte_at)} s")

"""Who is asked next for something small: an index page, a wheel's metadata. One request at a time, no part file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import DEFAULTS, Policy
from resume_dl.core.sources import SourceState

TRIES = 4
"""So many failures in a row, and a source is given up for this page: with back-off that is a few seconds of a line
that comes and goes. Whoever waits for a page waits for all of it, and has nothing on disk that would be lost."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the source of this index now; so many seconds may pass without a byte (None: as long as it may take)."""

    source: int
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """Nobody may be asked before this moment of the injected clock."""

    until: float


def next_to_ask(
    sources: Sequence[SourceState],
    now: float,
    illness: Mapping[str, int],
    *,
    ends: float = math.inf,
    tries: int = TRIES,
    policy: Policy = DEFAULTS,
) -> Ask | Rest | None:
    """The source that has failed least often, in their order; None where none is left that might answer.

    ``illness``: host -> how often it has failed in a row, for whatever it was asked: one that is down is asked last.
    ``ends``: when it is given up; whoever was not asked by then is asked still. ``tries``: fewer for what can be done
    without.
    """
    left = [number for number, source in enumerate(sources) if source.usable and source.failures_in_a_row < tries]
    fresh = [number for number in left if sources[number].last_failure is None]
    if now >= ends:
        left = fresh
    ready = [number for number in left if sources[number].not_before <= now]
    if ready:
        failed = [source.failures_in_a_row + illness.get(source.host, 0) for source in sources]
        chosen = min(ready, key=lambda number: failed[number])
        patience = (ends - now) / max(1, len(fresh))  # there has to be time for all of them
        if len(left) > 1 or tries < TRIES:
            # A silent one makes way, with more time at each return: all of them may be slow.
            silent = sources[chosen].failures[FailureKind.STALLED.value]
            patience = min(patience, policy.stall_seconds * 2**silent)
        return Ask(chosen, None if math.isinf(patience) else max(1.0, math.ceil(patience)))
    return Rest(min(ends, *(sources[number].not_before for number in left))) if left else None

"""Scheduling of small requests (an index page, a wheel's metadata): which source is tried, and when a second one is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS, Policy
from resume_dl.core.sources import SourceState

TRIES = 4
"""Failures in a row after which a source is given up for this page: with back-off, a few seconds of an unreliable
network. A page is only useful as a whole, and nothing on disk is lost."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the source of this index now; ``patience``: seconds allowed without a byte (None: no limit)."""

    source: int
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Rest:
    """No source may be asked before this time of the injected clock."""

    until: float


@dataclass(frozen=True, slots=True)
class Drop:
    """End the request to the source of this index; it has failed."""

    source: int
    failure: Failure


@dataclass(slots=True, eq=False)
class SmallRequest:
    """A request under way, or one that waits for its turn at its host. Times on the injected clock."""

    source: int
    asked_at: float
    patience: float | None = None
    received: int = 0
    """Body bytes so far, of all its parts; counted by the caller."""
    began_at: float | None = None
    lags: bool = False
    """Whether it received next to nothing between the last two checks, so that a second one may start."""
    _trickles_since: float | None = None
    _looked_at: float = field(init=False)
    _looked_received: int = 0

    def __post_init__(self) -> None:
        self._looked_at = self.asked_at

    def begin(self, now: float) -> None:
        """Its turn has come."""
        self.began_at = self._looked_at = now

    def look(self, now: float, policy: Policy, best: float | None) -> None:
        """Judge the bytes since the last check, if that was long enough ago."""
        seconds = now - self._looked_at
        if seconds < policy.page_look_seconds:
            return
        rate = (self.received - self._looked_received) / seconds
        self.lags = rate < (policy.page_rate if best is None else min(policy.page_rate, policy.slow_share * best))
        if not self.received or rate >= policy.page_least_rate:
            self._trickles_since = None  # silence before the first byte has its own limit
        elif self._trickles_since is None:
            self._trickles_since = self._looked_at
        self._looked_at, self._looked_received = now, self.received

    def next_look(self, policy: Policy) -> float:
        """When ``look`` judges again."""
        return self._looked_at + policy.page_look_seconds

    def trouble(self, now: float, policy: Policy) -> Failure | None:
        """Why it should be ended although bytes still arrive; None if it should not."""
        if self._trickles_since is not None and now - self._trickles_since >= policy.page_trickle_seconds:
            return Failure(FailureKind.STALLED, f"less than {policy.page_least_rate:g} bytes came a second")
        # The head may also arrive byte by byte; connecting, TLS and the answer each have this limit.
        late = None if self.patience is None or self.began_at is None else now - self.began_at - 3 * self.patience
        if late is not None and late >= 0 and not self.received:
            return Failure(FailureKind.STALLED, f"no whole answer within {round(now - (self.began_at or 0.0))} s")
        return None


def next_step(
    sources: Sequence[SourceState],
    under_way: Sequence[SmallRequest],
    now: float,
    rows: Mapping[str, int],
    *,
    ends: float = math.inf,
    network_ends: float = math.inf,
    tries: int = TRIES,
    hedged: bool = True,
    best: float | None = None,
    policy: Policy = DEFAULTS,
) -> Ask | Rest | Drop | None:
    """What to do now; None if nothing is in progress and no source is left that might answer.

    ``network_ends``: when there is no network (``Reachability.ends``) the request ends, and no rest extends beyond.
    ``hedged``: another source may be asked while one answers too slowly. ``best``: bytes a second of the fastest
    complete answer so far. The others as for ``next_to_ask``.
    """
    if now >= network_ends:
        return None
    step = _next_step(sources, under_way, now, rows, ends=ends, tries=tries, hedged=hedged, best=best, policy=policy)
    return Rest(min(step.until, network_ends)) if isinstance(step, Rest) else step


def _next_step(
    sources: Sequence[SourceState],
    under_way: Sequence[SmallRequest],
    now: float,
    rows: Mapping[str, int],
    *,
    ends: float,
    tries: int,
    hedged: bool,
    best: float | None,
    policy: Policy,
) -> Ask | Rest | Drop | None:
    if not under_way:
        return next_to_ask(sources, now, rows, ends=ends, tries=tries, policy=policy)
    busy = {request.source for request in under_way}
    free = [number for number in range(len(sources)) if number not in busy]
    step = next_to_ask([sources[number] for number in free], now, rows, ends=ends, tries=tries, policy=policy)
    for request in under_way:
        request.look(now, policy, best)
        trouble = request.trouble(now, policy)
        if trouble is not None and (step is not None or len(under_way) > 1 or now >= ends):
            return Drop(request.source, trouble)
    until = min(request.next_look(policy) for request in under_way)
    if hedged and len(under_way) < policy.page_requests and all(request.lags for request in under_way):
        if isinstance(step, Ask):
            return replace(step, source=free[step.source])
        until = until if step is None else min(until, step.until)
    return Rest(until)


def next_to_ask(
    sources: Sequence[SourceState],
    now: float,
    rows: Mapping[str, int],
    *,
    ends: float = math.inf,
    tries: int = TRIES,
    policy: Policy = DEFAULTS,
) -> Ask | Rest | None:
    """The source with the fewest failures, in their order; None if no source is left that might answer.

    ``rows``: host -> its failures in a row, for any request: one that is down is asked last.
    ``ends``: when it is given up; a source not asked by then is asked still. ``tries``: fewer for what can be done
    without.
    """
    left = [number for number, source in enumerate(sources) if source.usable and source.failures_in_a_row < tries]
    fresh = [number for number in left if sources[number].last_failure is None]
    if now >= ends:
        left = fresh
    ready = [number for number in left if sources[number].not_before <= now]
    if ready:
        failed = [source.failures_in_a_row + rows.get(source.host, 0) for source in sources]
        chosen = min(ready, key=lambda number: failed[number])
        patience = (ends - now) / max(1, len(fresh))  # there has to be time for all of them
        if len(left) > 1 or tries < TRIES:
            # A silent one makes way, with more time at each return: all of them may be slow.
            silent = sources[chosen].failures[FailureKind.STALLED.value]
            patience = min(patience, policy.stall_seconds * 2**silent)
        return Ask(chosen, None if math.isinf(patience) else max(1.0, math.ceil(patience)))
    return Rest(min(ends, *(sources[number].not_before for number in left))) if left else None

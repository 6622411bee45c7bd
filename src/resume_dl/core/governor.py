"""Whether a host's last connection brings anything: it is given back for a while, and what comes is compared.

A line that one connection fills gets no faster by a second; the mirror still has to serve both, and some block for it.
One trial at a time in a run: a host at its limit has one connection less as soon as one of its requests has ended; if
as much comes from all hosts together as before, it stays so for some minutes, then the line may have changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from resume_dl.core.policy import Policy


class Host(Protocol):
    """What of a host's state is needed here; ``allowed`` None for as many connections as its limit says."""

    limit: int
    active: int
    allowed: int | None


@dataclass(slots=True)
class _Trial:
    host: Host
    before: float
    begun_at: float
    total: int = 0
    since: float | None = None


class Governor:
    """Counts a run's bytes and holds one trial after another; bytes a second, seconds on the injected clock."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._total = 0
        self._samples: deque[tuple[float, int]] = deque()
        self._trial: _Trial | None = None
        self._next_at: float | None = None
        self._given_back: list[tuple[float, Host]] = []

    def came(self, count: int, now: float) -> None:
        """``count`` bytes came from some host."""
        self._total += count
        seconds = self._policy.governor_seconds
        if not self._samples or now >= self._samples[-1][0] + seconds / 10:
            self._samples.append((now, self._total))
            while len(self._samples) > 1 and self._samples[1][0] <= now - seconds:
                self._samples.popleft()

    def decide(self, hosts: Iterable[Host], now: float) -> None:
        """Begin, watch or end a trial."""
        for again_at, host in [each for each in self._given_back if each[0] <= now]:
            self._given_back.remove((again_at, host))
            host.allowed = None
        if self._trial is not None:
            self._watch(self._trial, now)
        elif self._next_at is None:
            self._next_at = now + self._policy.governor_every
        elif now >= self._next_at:
            self._begin(hosts, now)

    def _begin(self, hosts: Iterable[Host], now: float) -> None:
        at_limit = [host for host in hosts if host.allowed is None and host.active >= max(2, host.limit)]
        self._next_at = now + self._policy.governor_every
        if at_limit and self._samples and self._samples[0][0] <= now - self._policy.governor_seconds:
            first, total = self._samples[0]
            host = max(at_limit, key=lambda each: each.active)
            host.allowed = host.active - 1
            self._trial = _Trial(host, (self._total - total) / (now - first), now)

    def _watch(self, trial: _Trial, now: float) -> None:
        host = trial.host
        if trial.since is None:
            if host.allowed is not None and host.active <= host.allowed:
                trial.since, trial.total = now, self._total
            elif now >= trial.begun_at + self._policy.governor_every:
                self._end(trial, now, keep=False)  # no request of it has ended
        elif now >= trial.since + self._policy.governor_seconds:
            after = (self._total - trial.total) / (now - trial.since)
            self._end(trial, now, keep=after >= trial.before * self._policy.governor_keeps)

    def _end(self, trial: _Trial, now: float, *, keep: bool) -> None:
        self._trial = None
        self._next_at = now + self._policy.governor_every
        if keep:
            self._given_back.append((now + self._policy.governor_again, trial.host))
        else:
            trial.host.allowed = None

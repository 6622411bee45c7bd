"""How many connections a run may have, in all and to each host; which hosts rest, are unhealthy or distrusted."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability


@dataclass(slots=True)
class HostState:
    """A host's state in this run. Speeds in bytes a second of one connection, None while unmeasured."""

    limit: int
    final: str
    """The host that answers for it after redirects: connections are counted there."""
    active: int = 0
    not_before: float = 0.0
    reached: bool = False
    silent: bool = False
    """It has left a connection without an answer for as long as that waited."""
    speed: float | None = None
    steady: float | None = None
    """The same, once a connection had got over its start."""
    latency: float = 0.0
    """Seconds from the last request to the head of its response."""
    distrusted: bool = False
    """It has served wrong bytes."""
    failures_in_a_row: int = 0
    failure_score: float = 0.0
    scored_at: float = 0.0

    @property
    def keeps_silent(self) -> bool:
        """Whether it was tried in this run, and has never answered."""
        return not self.reached and self.failures_in_a_row > 0


class Budget:
    """Shared by all downloads of a run; every connection is acquired here before it opens, and released once."""

    def __init__(self, policy: Policy, network: Reachability | None = None) -> None:
        self.network = network or Reachability()
        """Shared by all budgets of a command."""
        self._policy = policy
        self._hosts: dict[str, HostState] = {}
        self._active = 0

    def host(self, name: str, connections: int | None = None) -> HostState:
        """The host's state, made on first mention; ``connections`` is its mirror's own limit, if it has one."""
        state = self._hosts.get(name)
        if state is None:
            own = None if self._policy.per_host_is_explicit else connections
            state = self._hosts[name] = HostState(max(1, own or self._policy.per_host), name)
        return state

    @property
    def exhausted(self) -> bool:
        """Whether no connection may be opened to any host."""
        return self._active >= self._policy.connections

    def has_room(self, name: str, now: float) -> bool:
        """Whether the host itself would take one more connection now."""
        host = self.host(name)
        limit = 1 if self.is_unhealthy(host, now) or self.is_fast(host) else host.limit
        return host.not_before <= now and self._at(host.final) < limit

    def may_take(self, name: str, now: float) -> bool:
        """Whether a connection to this host may be opened now."""
        return not self.exhausted and self.has_room(name, now)

    def _at(self, final: str) -> int:
        """Connections to one host, under any of its names."""
        return sum(host.active for host in self._hosts.values() if host.final == final)

    def take(self, name: str) -> None:
        """A connection to this host is being opened."""
        self.host(name).active += 1
        self._active += 1

    def release(self, name: str) -> None:
        """That connection is closed."""
        self.host(name).active -= 1
        self._active -= 1

    # ------------------------------------------------------------------ what is learnt about a host

    def answered(self, name: str, final: str, latency: float) -> None:
        """A connection to ``name`` got its head from ``final`` after ``latency`` seconds."""
        host = self.host(name)
        host.reached = True
        self.network.answered(name)
        host.latency = latency
        host.final = final or name

    def note_speed(self, name: str, speed: float, *, steady: bool = False) -> None:
        """A connection to this host has measured ``speed`` bytes a second; ``steady``: it is past its start."""
        host = self.host(name)
        host.speed = speed
        if steady:
            host.steady = speed

    def is_fast(self, host: HostState) -> bool:
        """Whether one connection to it is as fast as this process can be."""
        return host.speed is not None and host.speed >= self._policy.fast_connection

    def progressed(self, name: str) -> None:
        """Take new bytes from this host: its failures in a row end, and its failure score shrinks."""
        host = self.host(name)
        if host.failures_in_a_row:
            host.failures_in_a_row = 0
            host.failure_score *= self._policy.recovery

    def failed(self, name: str, now: float, *, rests_until: float) -> None:
        """Take a failure of a connection that concerns the host, not only one file."""
        host = self.host(name)
        host.failure_score = self._failure_score(host, now) + 1.0
        host.scored_at = now
        host.failures_in_a_row += 1
        host.not_before = max(host.not_before, rests_until)

    def is_unhealthy(self, host: HostState, now: float) -> bool:
        """Whether it is only probed: one connection at a time, after all others."""
        return self._failure_score(host, now) >= self._policy.unhealthy_from

    def _failure_score(self, host: HostState, now: float) -> float:
        fade: float = 0.5 ** (max(0.0, now - host.scored_at) / self._policy.health_half_life)
        return host.failure_score * fade

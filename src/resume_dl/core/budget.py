"""How many connections a run may have, in all and to each host, and which hosts rest."""

from __future__ import annotations

from dataclasses import dataclass

from resume_dl.core.policy import Policy


@dataclass(slots=True)
class HostState:
    """One host as this run knows it. ``speed`` in bytes a second for one connection, None while unmeasured."""

    limit: int
    active: int = 0
    not_before: float = 0.0
    reached: bool = False
    speed: float | None = None


class Budget:
    """Shared by all downloads of a run; every connection is taken here before it is opened and given back once."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._hosts: dict[str, HostState] = {}
        self._active = 0

    def host(self, name: str, connections: int | None = None) -> HostState:
        """The host's state, made on first mention; ``connections`` is its mirror's own limit, if it has one."""
        state = self._hosts.get(name)
        if state is None:
            own = None if self._policy.per_host_is_explicit else connections
            state = self._hosts[name] = HostState(limit=max(1, own or self._policy.per_host))
        return state

    @property
    def exhausted(self) -> bool:
        """Whether no connection may be opened to any host."""
        return self._active >= self._policy.connections

    def may_take(self, name: str, now: float) -> bool:
        """Whether a connection to this host may be opened now."""
        host = self.host(name)
        return not self.exhausted and host.active < host.limit and host.not_before <= now

    def take(self, name: str) -> None:
        """A connection to this host is being opened."""
        self.host(name).active += 1
        self._active += 1

    def release(self, name: str) -> None:
        """That connection is closed."""
        self.host(name).active -= 1
        self._active -= 1

    def note_speed(self, name: str, speed: float) -> None:
        """A connection to this host has measured ``speed`` bytes a second."""
        self.host(name).speed = speed

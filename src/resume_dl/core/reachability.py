"""Whether there is a network at all: which hosts a run could not reach for certain, before anything has answered in it.

Certain are a name that the resolver does not know, and a literal IP address that refuses or to which no route leads.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import Policy

_NOT_CONNECTED = frozenset({FailureKind.UNREACHABLE, FailureKind.STALLED, FailureKind.FATAL, FailureKind.LOCAL})
"""Failures without an answer from the host."""


class Reachability:
    """Shared by all requests of one command. Hosts as ``host[:port]``, seconds on the injected clock.

    A negative answer of the resolver for every host means that the network is disconnected or a URL is wrong: a long
    wait does not help. A silent resolver may still answer (a first name server that is down costs 5 s), so silence does
    not count, but a late negative answer does. A silent address may still answer too.
    """

    def __init__(self) -> None:
        self._answered = False
        self._unresolved: dict[str, Failure] = {}
        self._no_route: set[str] = set()
        self._since = 0.0
        self._given_up: set[str] = set()

    def answered(self, host: str) -> None:
        """Take an answer of ``host``: from now on the network is unreliable, not missing."""
        if host:  # a local file proves nothing
            self._answered = True

    def failed(self, host: str, failure: Failure, now: float) -> None:
        """A request to ``host`` failed."""
        if failure.unresolved or failure.no_route:
            if not self._unresolved and not self._no_route:
                self._since = now
            if failure.unresolved:
                self._unresolved.setdefault(host, failure)
            else:
                self._unresolved.pop(host, None)
                self._no_route.add(host)
        elif failure.kind not in _NOT_CONNECTED:
            self.answered(host)
        elif failure.kind is FailureKind.UNREACHABLE:  # refused, or no route: but it has an address
            self._unresolved.pop(host, None)
            self._no_route.discard(host)

    def give_up(self, hosts: Collection[str]) -> None:
        """Take hosts that sent nothing in the time that a replaceable source has."""
        self._given_up.update(hosts)

    def came(self, host: str) -> None:
        """Take bytes of a file from ``host``."""
        self._given_up.discard(host)

    def is_given_up(self, hosts: Collection[str]) -> bool:
        """Whether all of ``hosts`` were given up: the wait for them is paid once a command, not once a file."""
        return bool(hosts) and self._given_up.issuperset(hosts)

    def is_missing(self, hosts: Collection[str]) -> bool:
        """Whether no host of a file (``hosts``) resolves, and nothing has answered so far."""
        return bool(hosts) and not self._answered and all(host in self._unresolved for host in hosts)

    def is_unreachable(self, hosts: Collection[str]) -> bool:
        """Whether no host of ``hosts`` resolves or has a route, and nothing has answered so far."""
        known = self._unresolved.keys() | self._no_route
        return bool(hosts) and not self._answered and all(host in known for host in hosts)

    def ends(self, hosts: Collection[str], policy: Policy) -> float:
        """When to give up a file that only ``hosts`` have; infinity if any of them may be reached.

        Counted from the first such failure of the run, so that the requests of a run (shards, whole indexes, mirrors)
        share one allowance.
        """
        return self._since + policy.unresolved_give_up if self.is_unreachable(hosts) else math.inf

    def failure_of(self, host: str) -> Failure | None:
        """Why the name of ``host`` could not be resolved; None if it could, or was not looked up."""
        return self._unresolved.get(host)

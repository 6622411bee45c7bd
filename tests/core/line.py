"""One download with the real policy, told what happens by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.download import Download
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import MIB, Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.sources import SourceState

A = TypeVar("A")


class Line:
    """``out`` holds the actions of the last event, ``log`` those of all."""

    def __init__(
        self,
        size: int | None = 100 * MIB,
        hosts: Sequence[str] = ("a",),
        *,
        policy: Policy | None = None,
        budget: Budget | None = None,
        digest: bool = True,
        jitter: float = 0.5,
        resumed: ev.Prepared | None = None,
        prepare: bool = True,
        thorough: bool = True,
        replaceable: bool = False,
        last_chance: bool = False,
        knows: str = "",
    ) -> None:
        self.policy = policy or Policy()
        self.now = 0.0
        self.log: list[act.Action] = []
        self.download = Download(
            size=size,
            sources=[SourceState(f"https://{host}/f", host, knows=host == knows) for host in hosts],
            budget=budget or Budget(self.policy),
            policy=self.policy,
            jitter=lambda: jitter,
            bound_by_digest=digest,
            thorough=thorough,
            replaceable=replaceable,
            last_chance=last_chance,
        )
        self.keep(self.download.start(0.0))
        if prepare:
            self.tell(resumed or ev.Prepared(size=size))

    def keep(self, out: list[act.Action]) -> None:
        self.out = out
        self.log += out

    def tell(self, event: ev.Event) -> None:
        self.keep(self.download.handle(event, self.now))

    def of(self, kind: type[A], *, ever: bool = False) -> list[A]:
        """The actions of one kind."""
        return [action for action in (self.log if ever else self.out) if isinstance(action, kind)]

    @property
    def leases(self) -> list[tuple[int, int | None]]:
        """What the last event opened."""
        return [(order.start, order.end) for order in self.of(act.OpenRange)]

    def respond(self, connection: int = 0, size: int | None = None, validator: str | None = None) -> None:
        self.tell(ev.ResponseStarted(connection, self.download.size if size is None else size, validator))

    def bytes_to(self, connection: int, position: int) -> None:
        start = self.download.connections[connection].lease.start
        self.tell(ev.BytesWritten(connection, position, position - start))

    def close(
        self, connection: int, position: int | None = None, kind: FailureKind | None = None, **more: object
    ) -> None:
        live = self.download.connections[connection]
        position = live.position if position is None else position
        failure = None if kind is None else Failure(kind, kind.value, **more)
        self.tell(ev.ConnectionClosed(connection, position, position - live.lease.start, failure))

    def wait(self) -> None:
        """Until the next timer."""
        deadline = self.download.next_deadline()
        assert deadline < float("inf")
        self.now = max(self.now, deadline)
        self.tell(ev.TimerFired())

    def wait_until(self, now: float) -> None:
        """Fire every timer up to ``now``, which may be none."""
        while self.download.next_deadline() <= now:
            self.wait()
        self.now = now

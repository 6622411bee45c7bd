"""Mirrors as rates: a session downloads from them on a simulated clock, so that its seconds are the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from resume_dl.core import actions as act
from resume_dl.core import events as ev
from resume_dl.core.download import Download
from resume_dl.core.policy import Policy
from resume_dl.core.scheduling.budget import Budget
from resume_dl.core.session import Session
from resume_dl.core.sources import SourceState

TICK = 0.1
"""Seconds; also how often a connection's count reaches the core."""
LATEST = 3600.0


@dataclass(frozen=True)
class Mirror:
    """Bytes a second that each connection gets, and all of them together; seconds to the head of an answer."""

    host: str
    each: float
    total: float = float("inf")
    latency: float = 0.2


@dataclass
class _Stream:
    order: act.OpenRange
    mirror: Mirror
    opened_at: float
    end: int
    came: float = 0.0
    answered: bool = False
    held: bool = False

    @property
    def received(self) -> int:
        return int(self.came)


@dataclass(frozen=True)
class Result:
    """Simulated seconds, body bytes (duplicates too) and requests of one run."""

    seconds: float
    received: int
    requests: int


class _Run:
    def __init__(self, mirrors: Sequence[Mirror], size: int, policy: Policy) -> None:
        self.mirrors, self.size, self.now, self.requests = mirrors, size, 0.0, 0
        self.session = Session(policy)
        self.streams: dict[int, _Stream] = {}
        self.download = Download(
            size=size,
            sources=[SourceState(f"https://{each.host}/f", each.host) for each in mirrors],
            budget=Budget(policy),
            policy=policy,
            jitter=lambda: 0.5,
        )
        self.session.add("f", self.download)

    def perform(self, actions: Sequence[tuple[str, act.Action]]) -> None:
        for _, action in actions:
            event = self._answer(action)
            if event is not None and not self.download.over:
                self.tell(event)

    def tell(self, event: ev.Event) -> None:
        self.perform(self.session.handle("f", event, self.now))

    def _answer(self, action: act.Action) -> ev.Event | None:
        if isinstance(action, act.OpenRange):
            self.requests += 1
            end = self.size if action.end is None else action.end
            self.streams[action.connection] = _Stream(action, self.mirrors[action.source], self.now, end)
        elif isinstance(action, act.ShortenLease):
            one = self.streams[action.connection]
            one.end = min(one.end, max(action.end, one.order.start + one.received))
            return ev.LeaseShortened(action.connection, one.end)
        elif isinstance(action, act.CloseConnection):
            return self._closed(action.connection, won=False)
        elif isinstance(action, act.WriteHeld):
            return self._closed(action.connection, won=True)
        elif isinstance(action, act.Prepare):
            return ev.Prepared(size=self.size)
        elif isinstance(action, act.SyncData):
            return ev.DataSynced(0)
        elif isinstance(action, act.AdvanceDigest):
            return ev.DigestAdvanced(action.upto)
        elif isinstance(action, act.CheckDigest):
            return ev.DigestChecked(matches=True)
        elif isinstance(action, act.Publish):
            return ev.Published()
        return None

    def _closed(self, connection: int, *, won: bool) -> ev.ConnectionClosed:
        one = self.streams.pop(connection)
        written = won or one.order.mode is act.Mode.WRITE
        return ev.ConnectionClosed(connection, one.order.start + one.received * written, one.received)

    def tick(self) -> None:
        self.now = round(self.now + TICK, 6)
        answered = [one.mirror.host for one in self.streams.values() if one.answered]
        for number, one in list(self.streams.items()):
            if number not in self.streams or one.held:
                continue
            if one.answered:
                share = one.mirror.total / answered.count(one.mirror.host)
                one.came = min(one.came + min(one.mirror.each, share) * TICK, one.end - one.order.start)
                self._report(number, one)
            elif self.now >= one.opened_at + one.mirror.latency:
                one.answered = True
                self.tell(ev.ResponseStarted(number, self.size, None, one.mirror.host))
        if self.session.next_deadline() <= self.now:
            self.perform(self.session.tick(self.now))

    def _report(self, number: int, one: _Stream) -> None:
        is_whole = one.order.start + one.received >= one.end
        if one.order.mode is act.Mode.HOLD:
            one.held = is_whole
            self.tell((ev.RangeHeld if is_whole else ev.BytesReceived)(number, one.received))
        elif is_whole:
            self.tell(self._closed(number, won=True))
        else:
            self.tell(ev.BytesWritten(number, one.order.start + one.received, one.received))


def play(mirrors: Sequence[Mirror], size: int, policy: Policy | None = None) -> Result:
    """Fetch a file of ``size`` bytes that all ``mirrors`` have."""
    run = _Run(mirrors, size, policy or Policy())
    run.perform(run.session.fill(run.now))
    while not run.session.over:
        run.tick()
        assert run.now < LATEST, "it does not end"
    assert run.download.complete
    return Result(run.now, run.download.received, run.requests)

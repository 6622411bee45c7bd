"""A run: many downloads, one budget of connections, largest files first."""

from __future__ import annotations

import math
from collections.abc import Iterator

from resume_dl.core.actions import Action
from resume_dl.core.download import Download
from resume_dl.core.events import Cancelled, Event, TimerFired
from resume_dl.core.policy import Policy


class Session:
    """Routes events to downloads and lets them share what connections there are."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._downloads: dict[str, Download] = {}
        self._queue: list[str] = []
        self._running: list[str] = []

    def add(self, key: str, download: Download) -> None:
        """Take a download in; it starts when there is room, the largest first."""
        self._downloads[key] = download
        self._queue.append(key)
        self._queue.sort(key=lambda k: -(self._downloads[k].size or 0))

    @property
    def over(self) -> bool:
        """Whether every download has ended."""
        return not self._queue and not self._running

    def handle(self, key: str | None, event: Event, now: float, *, more: bool = False) -> list[tuple[str, Action]]:
        """Pass ``event`` to one download (to all if ``key`` is None); return the actions in order.

        ``more``: another event follows at once. Idle capacity is reassigned once the batch is handled.
        """
        out: list[tuple[str, Action]] = []
        for target in [key] if key is not None else [*self._running, *self._queue]:
            out += self._tagged(target, self._downloads[target].handle(event, now))
        if isinstance(event, Cancelled) and key is None:
            self._queue.clear()
        return out if more else out + self.fill(now)

    def tick(self, now: float) -> list[tuple[str, Action]]:
        """Fire the timers that are due."""
        out: list[tuple[str, Action]] = []
        for key in list(self._running):
            if self._downloads[key].next_deadline() <= now:
                out += self._tagged(key, self._downloads[key].handle(TimerFired(), now))
        return out + self.fill(now)

    def fill(self, now: float) -> list[tuple[str, Action]]:
        """Start what may start, open what may be opened."""
        out: list[tuple[str, Action]] = []
        self._running = [key for key in self._running if not self._downloads[key].over]
        while self._queue and self._in_flight() < self._policy.files_in_flight + self._policy.files_ahead:
            key = self._queue.pop(0)
            if self._downloads[key].over:
                continue  # cancelled while it waited
            self._running.append(key)
            out += self._tagged(key, self._downloads[key].start(now))
        for help_out in (False, True):  # files with work of their own come before those that could be helped
            for key in self._running:
                out += self._tagged(key, self._downloads[key].fill(now, help_out=help_out))
        self._running = [key for key in self._running if not self._downloads[key].over]
        return out

    def next_deadline(self) -> float:
        """When ``tick`` is due; infinity if an event must come first."""
        return min((self._downloads[key].next_deadline() for key in self._running), default=math.inf)

    def _in_flight(self) -> int:
        """Files that want connections; those that wait for another process, or are verified, do not count."""
        return sum(self._downloads[key].wants_room for key in self._running)

    @staticmethod
    def _tagged(key: str, actions: list[Action]) -> Iterator[tuple[str, Action]]:
        return ((key, action) for action in actions)

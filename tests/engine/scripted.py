"""A core that follows a script, under the real engine, transport and store."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import resume_dl.engine.engine
from resume_dl.core.actions import Action
from resume_dl.core.events import Event
from resume_dl.core.ranges import RangeSet
from resume_dl.core.transitions import State
from resume_dl.model.http import CacheHeaders

Answer = Callable[[str, Event], Iterable[tuple[str, Action]]]


class Script:
    """What to do at the start, and ``answer``: what to do about each event. Over once ``over`` is true."""

    def __init__(self, start: Iterable[tuple[str, Action]], answer: Answer, over: Callable[[], bool]) -> None:
        self._start = list(start)
        self._answer = answer
        self._over = over
        self.heard: list[tuple[str, Event]] = []

    def install(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(resume_dl.engine.engine, "Session", lambda *_, **__: self)
        monkeypatch.setattr(resume_dl.engine.engine, "Download", _Download)

    def add(self, key: str, download: Any) -> None:
        return

    @property
    def over(self) -> bool:
        return self._over()

    def fill(self, now: float) -> list[tuple[str, Action]]:
        actions, self._start = self._start, []
        return actions

    def tick(self, now: float) -> list[tuple[str, Action]]:
        return []

    def next_deadline(self) -> float:
        return math.inf

    def handle(self, key: str, event: Event, now: float, *, more: bool = False) -> list[tuple[str, Action]]:
        self.heard.append((key, event))
        return list(self._answer(key, event))


class _Download:
    """As much of a download as people are shown."""

    def __init__(self, *, size: int | None, sources: Any, **_: Any) -> None:
        self.size = size
        self.sources = list(sources)
        self.state = State.TRANSFERRING
        self.over = False
        self.done = RangeSet()
        self.resumed = self.kept = self.wasted = 0
        self.validator = None
        self.said = CacheHeaders()
        self.lock_owner = ""

"""Attempts at small requests, in threads of their own: source by source, or two in parallel if the first is slow.

``core.small_requests`` decides which source is asked, when a second one is asked in parallel, and when to give up.
"""

from __future__ import annotations

import contextlib
import math
import queue
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from resume_dl.core.failures import Failure
from resume_dl.core.policy import Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.small_requests import TRIES, Ask, Drop, SmallRequest, next_step
from resume_dl.core.sources import OF_THE_HOST, SourceState
from resume_dl.engine.clock import AwakeClock
from resume_dl.engine.pool import Pool
from resume_dl.engine.worker import failure_of
from resume_dl.errors import Interrupted, SourceError
from resume_dl.indexes.small_answers import Refused, Unanswered
from resume_dl.indexes.small_exchanges import Attempt, Exchanges
from resume_dl.model.artifact import Source
from resume_dl.ports import Clock

T = TypeVar("T")
_Answers = queue.SimpleQueue[tuple[Attempt | None, Any]]
_TICK = 0.2
"""Seconds between two checks for cancellation."""
_BEGUN = object()
_PASSED = object()


class Attempts:
    """Asks sources in turn, from any number of threads, within a limit of requests per host."""

    def __init__(
        self,
        exchanges: Exchanges,
        policy: Policy,
        network: Reachability,
        clock: Clock | None,
        cancelled: Callable[[], bool],
    ) -> None:
        self._clock = AwakeClock(clock, policy.longest_step)
        self._exchanges = exchanges
        self._policy = policy
        self._network = network
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._hosts: dict[str, threading.BoundedSemaphore] = {}
        self._ready = threading.BoundedSemaphore(policy.connections)
        self._illness: dict[str, int] = {}
        self._best: float | None = None
        self._answers: set[_Answers] = set()
        self._pool = Pool("read")

    def stop(self) -> None:
        """End every request, including future ones. Never raises."""
        self._exchanges.stop()
        with self._lock:
            waiting = [*self._answers]
        for answers in waiting:
            answers.put((None, None))
        self._pool.close()

    def ask(
        self,
        sources: Sequence[Source],
        attempt: Callable[[Source], T | Refused[T]],
        *,
        tries: int = TRIES,
        hedged: bool = True,
        within: float | None = None,
    ) -> T:
        """As ``Reader.ask``. Raises Unanswered, Interrupted."""
        answers: _Answers = queue.SimpleQueue()
        under_way: list[Attempt] = []
        with self._lock:
            self._answers.add(answers)
        try:
            patience = min(self._policy.give_up_after, math.inf if within is None else within)
            return self._answer(sources, attempt, answers, under_way, tries=tries, hedged=hedged, patience=patience)
        finally:
            for one in under_way:
                one.cancel()
            with self._lock:
                self._answers.discard(answers)

    def _answer(
        self,
        sources: Sequence[Source],
        attempt: Callable[[Source], T | Refused[T]],
        answers: _Answers,
        under_way: list[Attempt],
        *,
        tries: int,
        hedged: bool,
        patience: float,
    ) -> T:
        states = [SourceState(str(source.url), source.url.host) for source in sources]
        self._clock.beat()  # a request may wait longer than the longest step
        ends, slept = self._clock.now() + patience, self._clock.slept
        while True:
            self._check()
            now = self._clock.now()
            if self._clock.slept > slept:  # nothing can answer while the machine sleeps: restart all time limits
                ends, slept = now + patience, self._clock.slept
            requests = [one.request for one in under_way]
            usable = {state.host for state in states if state.usable}
            with self._lock:
                step = next_step(
                    states,
                    requests,
                    now,
                    self._illness,
                    ends=ends,
                    network_ends=self._network.ends(usable, self._policy),
                    tries=tries,
                    hedged=hedged,
                    best=self._best,
                    policy=self._policy,
                )
            if step is None:
                told = [(source, state.last_failure) for source, state in zip(sources, states, strict=True)]
                raise Unanswered([(source, failure) for source, failure in told if failure is not None])
            if isinstance(step, Drop):
                one = next(each for each in under_way if each.request.source == step.source)
                found: Any = Refused(step.failure)
                one.cancel()
            elif isinstance(step, Ask):
                request = SmallRequest(step.source, now, step.patience)
                one = Attempt(request, sources[step.source], alone=len(sources) == 1, doubles=bool(under_way))
                under_way.append(one)
                self._start(one, attempt, answers)
                continue
            else:
                try:
                    first, found = answers.get(timeout=max(0.0, min(step.until - now, _TICK)))
                except queue.Empty:
                    continue
                if first is None or first not in under_way:
                    continue  # cancelled, or an answer that is no longer needed
                one = first
                if found is _BEGUN:
                    if len(under_way) == 1:
                        ends += (
                            self._clock.now() - one.request.asked_at
                        )  # time spent waiting for a slot does not count against the source
                    one.request.begin(self._clock.now())
                    continue
            under_way.remove(one)
            if found is _PASSED:
                continue
            if isinstance(found, SourceError):
                self._exchanges.check()
                found = Refused(failure_of(found))
            elif isinstance(found, BaseException):
                raise found
            if not isinstance(found, Refused):
                self._won(one, under_way)
                answer: T = found
                return answer
            self._lost(one, states[one.request.source], found)

    def _check(self) -> None:
        self._exchanges.check()
        if self._cancelled():
            raise Interrupted("stopped")

    def _start(self, one: Attempt, attempt: Callable[[Source], Any], answers: _Answers) -> None:
        """Start an attempt in another thread, which puts any outcome into ``answers``."""
        self._pool.submit(
            lambda: answers.put((one, self._attempted(one, attempt, answers))),
            lambda error: answers.put((one, error)),  # raised in the waiting thread
        )

    def _attempted(self, one: Attempt, attempt: Callable[[Source], Any], answers: _Answers) -> Any:
        host = one.source.url.host
        known = self._illness.get(host, 0)
        with self._host(one.source), contextlib.nullcontext() if one.doubles else self._ready:
            self._exchanges.attempt = one
            self._exchanges.check()
            if not one.alone and self._illness.get(host, 0) > known:
                return _PASSED  # while we waited for a slot, other requests found that it does not answer
            answers.put((one, _BEGUN))
            return attempt(one.source)

    def _lost(self, one: Attempt, state: SourceState, refused: Refused[Any]) -> None:
        """Record a failure of the source and its host."""
        failure = refused.failure
        if refused.progressed:
            state.progressed()
        self._heard(one.source.url.host, well=failure.kind not in OF_THE_HOST, failure=failure)
        state.failed(failure, self._clock.now(), self._policy, random.random, whole=True)

    def _won(self, one: Attempt, others: Sequence[Attempt]) -> None:
        """Record the answer's speed, and the slow hosts that needed a second request, which come later next time."""
        self._heard(one.source.url.host, well=True)
        for other in others:
            if other.request.lags and other.request.began_at is not None:
                self._heard(other.source.url.host, well=False)
        seconds = self._clock.now() - (one.request.began_at or one.request.asked_at)
        with self._lock:
            self._best = max(self._best or 0.0, one.request.received / max(seconds, 0.001))

    def _heard(self, host: str, *, well: bool, failure: Failure | None = None) -> None:
        with self._lock:
            if failure is None:
                self._network.answered(host)
            else:
                self._network.failed(host, failure, self._clock.now())
            self._illness[host] = 0 if well else self._illness.get(host, 0) + 1

    def _host(self, source: Source) -> threading.BoundedSemaphore:
        most = source.connections
        if most is None or self._policy.per_host_is_explicit:
            most = self._policy.per_host
        with self._lock:
            return self._hosts.setdefault(source.url.host, threading.BoundedSemaphore(max(1, most)))

"""Small things from the network as a whole or in parts: index pages, metadata. No part file.

Which source is asked, when another one as well, and when it is over, is decided in ``core.asking``; this only does it.
"""

from __future__ import annotations

import contextlib
import math
import queue
import random
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Generic, TypeVar

from resume_dl.core.asking import TRIES, Ask, Drop, SmallRequest, next_step
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS, Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.responses import check_head, check_length
from resume_dl.core.sources import OF_THE_HOST, SourceState
from resume_dl.engine.clock import AwakeClock
from resume_dl.engine.pool import Pool
from resume_dl.engine.worker import failure_of
from resume_dl.errors import Interrupted, SourceError, no_network
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Clock, Exchange, Response, Transport

MOST = 64 * 1024 * 1024
"""Bytes of one page or metadata file; the largest that are known have a tenth. What is longer is no such thing."""

NO_HEADERS: Mapping[str, str] = {}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """A whole answer. ``url`` is where it came from in the end, which relative links in it start from."""

    data: bytes
    content_type: str
    url: RedactedUrl
    source: Source
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the answer, their names in lower case."""
    received: int = 0
    """Bytes of the body as they came, packed or not."""
    unchanged: bool = False
    """The server says that the copy which the caller has is still the right one (304); ``data`` is empty."""


class Unanswered(Exception):  # noqa: N818 - a result that the caller makes an error of, with words for people
    """Nobody gave it; ``failures`` are the last of each source."""

    def __init__(self, failures: Sequence[tuple[Source, Failure]]) -> None:
        super().__init__()
        self.failures = tuple(failures)

    @property
    def kinds(self) -> frozenset[FailureKind]:
        """What went wrong, of all sources."""
        return frozenset(failure.kind for _, failure in self.failures)

    def __str__(self) -> str:
        names = tuple(dict.fromkeys(failure.unresolved for _, failure in self.failures))
        if names and all(names):
            return no_network(names, self.failures[0][1].message)
        texts = dict.fromkeys(_told(source, failure) for source, failure in self.failures)
        return "; ".join(texts) or "no source is known for it"


@dataclass(frozen=True, slots=True)
class Refused(Generic[T]):
    """What an attempt gives where the source answered, but not with what was wanted."""

    failure: Failure


class Reader:
    """Asks sources in turn, from any number of threads; no host is asked by more of them at once than is polite."""

    def __init__(
        self,
        transport: Transport,
        policy: Policy = DEFAULTS,
        network: Reachability | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self._clock = AwakeClock(clock, policy.longest_step)
        self._transport = transport
        self._policy = policy
        self._network = network or Reachability()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._hosts: dict[str, threading.BoundedSemaphore] = {}
        self._exchanges: set[Exchange] = set()
        self._ready = threading.BoundedSemaphore(policy.connections)
        self._illness: dict[str, int] = {}
        self._best: float | None = None
        self._answers: set[_Answers] = set()
        self._here = _Here()
        self._pool = Pool("read")

    @property
    def network(self) -> Reachability:
        """What the run knows of the network."""
        return self._network

    @property
    def policy(self) -> Policy:
        """The numbers that it decides by."""
        return self._policy

    def stop(self) -> None:
        """End every request, now and from now on: a caller that waits for one gets Interrupted. Never raises."""
        self._stop.set()
        with self._lock:
            exchanges, waiting = [*self._exchanges], [*self._answers]
        for exchange in exchanges:
            exchange.abort()
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
        """What ``attempt`` gives for the first source that it works with; each has so many ``tries``.

        It may raise SourceError, which says the same as ``Refused``. It runs in threads of its own; with ``hedged`` in
        two at once, for two sources, where the first is slow. Once the policy's ``give_up_after`` is over, or
        ``within`` seconds if these are fewer, no source is asked again; an answer that is coming may still come.
        Raises Unanswered, Interrupted.
        """
        answers: _Answers = queue.SimpleQueue()
        under_way: list[_UnderWay] = []
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
        under_way: list[_UnderWay],
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
            if self._clock.slept > slept:  # nothing could have answered in a sleep: all patience anew
                ends, slept = now + patience, self._clock.slept
            requests = [one.request for one in under_way]
            with self._lock:
                step = next_step(
                    states,
                    requests,
                    now,
                    self._illness,
                    ends=ends,
                    tries=tries,
                    hedged=hedged,
                    best=self._best,
                    policy=self._policy,
                )
                over = self._network.is_over({state.host for state in states if state.usable}, now, self._policy)
            if step is None or over:
                told = [(source, state.last_failure) for source, state in zip(sources, states, strict=True)]
                raise Unanswered([(source, failure) for source, failure in told if failure is not None])
            if isinstance(step, Drop):
                one = next(each for each in under_way if each.request.source == step.source)
                found: Any = Refused(step.failure)
                one.cancel()
            elif isinstance(step, Ask):
                request = SmallRequest(step.source, now, step.patience)
                one = _UnderWay(request, sources[step.source], alone=len(sources) == 1, doubles=bool(under_way))
                under_way.append(one)
                self._start(one, attempt, answers)
                continue
            else:
                try:
                    first, found = answers.get(timeout=max(0.0, min(step.until - now, threading.TIMEOUT_MAX)))
                except queue.Empty:
                    continue
                if first is None or first not in under_way:
                    continue  # stopped, or an answer that is wanted no more
                one = first
                if found is _BEGUN:
                    if len(under_way) == 1:
                        ends += self._clock.now() - one.request.asked_at  # waiting for a turn is no source's silence
                    one.request.begin(self._clock.now())
                    continue
            under_way.remove(one)
            if found is _PASSED:
                continue
            if isinstance(found, SourceError):
                self._check()
                found = Refused(failure_of(found))
            elif isinstance(found, BaseException):
                raise found
            if not isinstance(found, Refused):
                self._won(one, under_way)
                answer: T = found
                return answer
            self._lost(one, states[one.request.source], found.failure)

    def _start(self, one: _UnderWay, attempt: Callable[[Source], Any], answers: _Answers) -> None:
        """Make one attempt in another thread: however it ends, ``answers`` gets it."""
        self._pool.submit(
            lambda: answers.put((one, self._attempted(one, attempt, answers))),
            lambda error: answers.put((one, error)),  # raised where the answer is waited for
        )

    def _attempted(self, one: _UnderWay, attempt: Callable[[Source], Any], answers: _Answers) -> Any:
        host = one.source.url.host
        known = self._illness.get(host, 0)
        with self._host(one.source), contextlib.nullcontext() if one.doubles else self._ready:
            self._here.one = one
            self._check()
            if not one.alone and self._illness.get(host, 0) > known:
                return _PASSED  # others have found out, while we waited for our turn, that it does not answer
            answers.put((one, _BEGUN))
            return attempt(one.source)

    def _lost(self, one: _UnderWay, state: SourceState, failure: Failure) -> None:
        """Note a failure, of its source and of its host."""
        self._heard(one.source.url.host, well=failure.kind not in OF_THE_HOST, failure=failure)
        state.failed(failure, self._clock.now(), self._policy, random.random, whole=True)

    def _won(self, one: _UnderWay, others: Sequence[_UnderWay]) -> None:
        """Note how fast the answer came, and the hosts that it had to be doubled for: they come later next time."""
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

    def whole(
        self,
        sources: Sequence[Source],
        *,
        accept: str = "*/*",
        check: Callable[[Body], Failure | None] = lambda _: None,
        tries: int = TRIES,
    ) -> Body:
        """The file, whole, in memory; ``check`` refuses what is something else. Raises Unanswered, Interrupted."""

        def attempt(source: Source) -> Body | Refused[Body]:
            found = self.get(source, accept=accept)
            if isinstance(found, Failure):
                return Refused(found)
            failure = check(found)
            return found if failure is None else Refused(failure)

        return self.ask(sources, attempt, tries=tries)

    def get(self, source: Source, *, accept: str = "*/*", headers: Mapping[str, str] = NO_HEADERS) -> Body | Failure:
        """One request for the whole file, with further ``headers`` (conditional ones). Raises SourceError."""
        # In gzip a page of links shrinks to an eighth.
        request = RangeRequest(source.url, whole=True, headers={"accept": accept, **headers}, packed=True)
        with self._opened(request) as (response, head):
            if head.status != 200:
                failure = _failure_of_status(request, head)
                if failure.kind is FailureKind.UNCHANGED:
                    return Body(b"", "", head.final_url or source.url, source, head.headers, unchanged=True)
                return failure
            encoding = head.headers.get("content-encoding", "").strip().lower()
            if encoding not in {"", "identity", "gzip"}:
                return Failure(
                    FailureKind.CONTENT, f"the body is encoded in a way that was not asked for: {encoding[:20]}"
                )
            received = _Count()
            data = _joined(received.of(self._chunks(response)), packed=encoding == "gzip")
            self._check()  # a body that was stopped ends as if it were whole
            if data is None:
                return Failure(FailureKind.CONTENT, "the body is far longer than such a file, or cannot be unpacked")
            kind, url = head.headers.get("content-type", ""), head.final_url or source.url
            return Body(data, kind, url, source, head.headers, received.bytes)

    def file(
        self, source: Source, *, headers: Mapping[str, str] = NO_HEADERS, largest: int = MOST
    ) -> tuple[bytes, ResponseHead] | Failure:
        """One request for the whole file as it lies there, at most ``largest`` bytes; and the answer's head.

        Where ``headers`` ask for it only if it changed, an unchanged one is a failure of that kind. Raises SourceError.
        """
        request = RangeRequest(source.url, whole=True, headers={**source.headers, **headers})
        with self._opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                return verdict
            failure = check_length(verdict.size, largest)
            parts: list[bytes] = []
            length = 0
            for chunk in () if failure else self._chunks(response):
                parts.append(chunk)
                length += len(chunk)
                if failure := check_length(length, largest):
                    break
            self._check()
            return failure or (b"".join(parts), head)

    def size(self, sources: Sequence[Source]) -> int:
        """The length of a file in bytes; who does not answer is not asked again. Raises Unanswered, Interrupted."""

        def attempt(source: Source) -> int | Refused[int]:
            request = RangeRequest(source.url, 0, 1, headers=source.headers)
            with self._opened(request) as (_, head):
                verdict = check_head(replace(request, whole=True) if head.status == 200 else request, head, None)
            if isinstance(verdict, Failure):
                return Refused(verdict)
            if verdict.size is None:
                return Refused(Failure(FailureKind.CONTENT, "does not say how long the file is"))
            return verdict.size

        return self.ask(sources, attempt, tries=1)

    def copy(self, source: Source, target: IO[bytes]) -> Failure | None:
        """One request for the whole file, into ``target``. Raises SourceError."""
        request = RangeRequest(source.url, whole=True)
        with self._opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                return verdict
            for chunk in self._chunks(response):
                target.write(chunk)
            self._check()
            return None

    def part(self, url: RedactedUrl, start: int, end: int, *, if_range: str | None = None) -> Part | Failure:
        """Bytes ``[start, end)`` of a file, fewer where it is shorter. Raises SourceError."""
        request = RangeRequest(url, start, end, if_range=if_range)
        with self._opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                changed = verdict.kind is FailureKind.CHANGED  # it was replaced while we read: begin again
                return Failure(FailureKind.BROKEN, verdict.message) if changed else verdict
            data = b"".join(self._chunks(response))
            self._check()
            if verdict.end is None or len(data) != verdict.end - start or verdict.size is None:
                return Failure(FailureKind.BROKEN, "the body ended early")
            return Part(data, verdict.size, verdict.validator, head.final_host)

    def _check(self) -> None:
        one = self._here.one
        if self._stop.is_set() or (one is not None and one.cancelled):
            raise Interrupted("stopped")

    def _chunks(self, response: Response) -> Iterator[bytes]:
        one = self._here.one
        for chunk in response.chunks():
            if one is not None:
                one.request.received += len(chunk)
            yield chunk

    def _host(self, source: Source) -> threading.BoundedSemaphore:
        most = source.connections
        if most is None or self._policy.per_host_is_explicit:
            most = self._policy.per_host
        with self._lock:
            return self._hosts.setdefault(source.url.host, threading.BoundedSemaphore(max(1, most)))

    def _opened(self, request: RangeRequest) -> _Opened:
        one = self._here.one
        patience = None if one is None else one.request.patience
        return _Opened(self, self._transport.exchange(replace(request, patience=patience)))

    def _enter(self, exchange: Exchange) -> Response:
        with self._lock:
            self._exchanges.add(exchange)
        if self._here.one is not None:
            self._here.one.exchange = exchange
        self._check()  # after it was added: a stop that came in between has seen it
        return exchange.open()

    def _leave(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.discard(exchange)


@dataclass(slots=True, eq=False)
class _UnderWay:
    """One attempt at one source; ``cancel`` works from any thread, and nothing that it gives is wanted after it."""

    request: SmallRequest
    source: Source
    alone: bool
    """It is the only source."""
    doubles: bool
    """It is asked beside another one, and takes no turn from other pages."""
    exchange: Exchange | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """End its request. Never raises."""
        self.cancelled = True
        if self.exchange is not None:
            self.exchange.abort()


_Answers = queue.SimpleQueue[tuple["_UnderWay | None", Any]]
_BEGUN = object()
_PASSED = object()


class _Here(threading.local):
    """The attempt that this thread makes."""

    one: _UnderWay | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file, its whole size, and what binds further ones to the same version."""

    data: bytes
    size: int
    validator: str | None
    answered_by: str = ""
    """The host that gave them, redirects followed."""


class _Opened:
    """An answer that is closed, and forgotten, at the end of its block."""

    def __init__(self, reader: Reader, exchange: Exchange) -> None:
        self._reader = reader
        self._exchange = exchange
        self._response: Response | None = None

    def __enter__(self) -> tuple[Response, ResponseHead]:
        try:
            self._response = self._reader._enter(self._exchange)  # noqa: SLF001 - two halves of one thing
        except BaseException:
            self._reader._leave(self._exchange)  # noqa: SLF001 - one of its own
            raise
        return self._response, self._response.head

    def __exit__(self, *_: object) -> None:
        if self._response is not None:
            self._response.close()
        self._reader._leave(self._exchange)  # noqa: SLF001 - one of its own


def _told(source: Source, failure: Failure) -> str:
    where = source.url.host or "this machine"
    return failure.message if failure.message.startswith(where) else f"{where}: {failure.message}"


def _failure_of_status(request: RangeRequest, head: ResponseHead) -> Failure:
    verdict = check_head(request, head, None)
    if isinstance(verdict, Failure):
        return verdict
    return Failure(FailureKind.CONTENT, f"an answer that was not asked for (status {head.status})")


class _Count:
    """How many bytes have passed."""

    def __init__(self) -> None:
        self.bytes = 0

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.bytes += len(chunk)
            yield chunk


def _joined(chunks: Iterable[bytes], *, packed: bool) -> bytes | None:
    """The body, unpacked; None for one that is damaged, or longer than ``MOST``."""
    unpack = zlib.decompressobj(wbits=31)  # 31: with gzip's header
    parts: list[bytes] = []
    length = 0
    for chunk in chunks:
        try:
            part = unpack.decompress(chunk, MOST - length + 1) if packed else chunk
        except zlib.error:
            return None
        length += len(part)
        if length > MOST:
            return None
        parts.append(part)
    if packed and not unpack.eof:
        return None
    return b"".join(parts)

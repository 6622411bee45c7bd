"""Small things from the network as a whole or in parts: index pages, metadata. One request after another, no part file.

Who is asked, and when again, is decided in ``core.asking``; this only does it.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import IO, Generic, TypeVar

from resume_dl.core.asking import TRIES, Ask, Rest, next_to_ask
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS, Policy
from resume_dl.core.responses import check_head
from resume_dl.core.sources import OF_THE_HOST, SourceState
from resume_dl.engine.worker import failure_of
from resume_dl.errors import Interrupted, SourceError
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Exchange, Response, Transport

MOST = 64 * 1024 * 1024
"""Bytes of one page or metadata file; the largest that are known have a tenth. What is longer is no such thing."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Body:
    """A whole answer. ``url`` is where it came from in the end, which relative links in it start from."""

    data: bytes
    content_type: str
    url: RedactedUrl
    source: Source


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
        texts = dict.fromkeys(_told(source, failure) for source, failure in self.failures)
        return "; ".join(texts) or "there is no source for it"


@dataclass(frozen=True, slots=True)
class Refused(Generic[T]):
    """What an attempt gives where the source answered, but not with what was wanted."""

    failure: Failure


class Reader:
    """Asks sources in turn, from any number of threads; no host is asked by more of them at once than is polite."""

    def __init__(self, transport: Transport, policy: Policy = DEFAULTS) -> None:
        self._transport = transport
        self._policy = policy
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._hosts: dict[str, threading.BoundedSemaphore] = {}
        self._exchanges: set[Exchange] = set()
        self._ready = threading.BoundedSemaphore(policy.connections)
        self._illness: dict[str, int] = {}
        self._attempt = _Attempt()

    def stop(self) -> None:
        """End every request, now and from now on: whoever waits for one gets Interrupted. Never raises."""
        self._stop.set()
        with self._lock:
            exchanges = [*self._exchanges]
        for exchange in exchanges:
            exchange.abort()

    def ask(self, sources: Sequence[Source], attempt: Callable[[Source], T | Refused[T]], *, tries: int = TRIES) -> T:
        """What ``attempt`` gives for the first source that it works with; each has so many ``tries``.

        It may raise SourceError, which says the same as ``Refused``. Once the policy's ``give_up_after`` is over,
        nobody is asked again; an answer that is coming may still come. Raises Unanswered, Interrupted.
        """
        states = [SourceState(str(source.url), source.url.host) for source in sources]
        ends = time.monotonic() + self._policy.give_up_after
        while True:
            now = time.monotonic()
            with self._lock:
                step = next_to_ask(states, now, self._illness, ends=ends, tries=tries, policy=self._policy)
                known = None if not isinstance(step, Ask) else self._illness.get(states[step.source].host, 0)
            if step is None:
                told = [(source, state.last_failure) for source, state in zip(sources, states, strict=True)]
                raise Unanswered([(source, failure) for source, failure in told if failure is not None])
            if isinstance(step, Rest):
                self._stop.wait(step.until - now)
                self._check()
                continue
            host = states[step.source].host
            with self._host(sources[step.source]), self._ready:
                ends += time.monotonic() - now  # the wait for our turn is nobody's silence
                self._check()
                if len(sources) > 1 and self._illness.get(host, 0) > (known or 0):
                    continue  # others have found out, while we waited for our turn, that it does not answer
                self._attempt.patience = step.patience
                try:
                    found = attempt(sources[step.source])
                except SourceError as error:
                    self._check()
                    found = Refused(failure_of(error))
                finally:
                    self._attempt.patience = None
            if not isinstance(found, Refused):
                self._heard(host, well=True)
                return found
            self._heard(host, well=found.failure.kind not in OF_THE_HOST)
            states[step.source].failed(found.failure, time.monotonic(), self._policy, random.random, whole=True)

    def _heard(self, host: str, *, well: bool) -> None:
        with self._lock:
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

    def get(self, source: Source, *, accept: str = "*/*") -> Body | Failure:
        """One request for the whole file. Raises SourceError."""
        # In gzip a page of links shrinks to an eighth.
        request = RangeRequest(source.url, whole=True, headers={"accept": accept}, packed=True)
        with self._opened(request) as (response, head):
            if head.status != 200:
                return _failure_of_status(request, head)
            encoding = head.headers.get("content-encoding", "").strip().lower()
            if encoding not in {"", "identity", "gzip"}:
                return Failure(
                    FailureKind.CONTENT, f"the body is encoded in a way that was not asked for: {encoding[:20]}"
                )
            data = _joined(response, packed=encoding == "gzip")
            self._check()  # a body that was stopped ends as if it were whole
            if data is None:
                return Failure(FailureKind.CONTENT, "the body is far longer than such a file, or cannot be unpacked")
            return Body(data, head.headers.get("content-type", ""), head.final_url or source.url, source)

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
            for chunk in response.chunks():
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
            data = b"".join(response.chunks())
            self._check()
            if verdict.end is None or len(data) != verdict.end - start or verdict.size is None:
                return Failure(FailureKind.BROKEN, "the body ended early")
            return Part(data, verdict.size, verdict.validator)

    def _check(self) -> None:
        if self._stop.is_set():
            raise Interrupted("stopped")

    def _host(self, source: Source) -> threading.BoundedSemaphore:
        most = source.connections
        if most is None or self._policy.per_host_is_explicit:
            most = self._policy.per_host
        with self._lock:
            return self._hosts.setdefault(source.url.host, threading.BoundedSemaphore(max(1, most)))

    def _opened(self, request: RangeRequest) -> _Opened:
        return _Opened(self, self._transport.exchange(replace(request, patience=self._attempt.patience)))

    def _enter(self, exchange: Exchange) -> Response:
        with self._lock:
            self._exchanges.add(exchange)
        self._check()  # after it was added: a stop that came in between has seen it
        return exchange.open()

    def _leave(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.discard(exchange)


class _Attempt(threading.local):
    """The attempt that this thread makes: its requests end after so many seconds of silence."""

    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Some bytes of a file, its whole size, and what binds further ones to the same version."""

    data: bytes
    size: int
    validator: str | None


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


def _joined(response: Response, *, packed: bool) -> bytes | None:
    """The body, unpacked; None for one that is damaged, or longer than ``MOST``."""
    unpack = zlib.decompressobj(wbits=31)  # 31: with gzip's header
    parts: list[bytes] = []
    length = 0
    for chunk in response.chunks():
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

"""The worker of one connection: requests a range, checks the response, receives the body. Subclasses use the bytes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from resume_dl.core.actions import OpenRange
from resume_dl.core.events import ConnectionClosed, Event, LeaseShortened, LocalFailed, LookupFailed, ResponseStarted
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.responses import cache_headers, check_head, check_length, check_magic, gives_ranges
from resume_dl.core.scheduling.leases import NO_END
from resume_dl.engine.limiter import RateLimiter
from resume_dl.errors import ContentError, NetworkError, ResumeDLError, SourceError, StalledError
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest
from resume_dl.ports import Clock, Exchange, PartFile, Transport

REPORT_BYTES = 1024 * 1024
REPORT_SECONDS = 0.05
"""Counts are posted when one of these is reached: an event costs as much as reading and writing 64 KiB."""


class Worker(ABC):
    """One request; ``run`` belongs to one thread, ``shut`` and ``shorten`` to the main thread.

    ``post`` takes its events, the last is ConnectionClosed; it must not block.
    """

    def __init__(
        self,
        order: OpenRange,
        *,
        source: Source,
        filename: str,
        part: PartFile,
        transport: Transport,
        post: Callable[[Event], None],
        clock: Clock,
        limiter: RateLimiter | None = None,
        conditions: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        largest: int | None = None,
    ) -> None:
        self._order = order
        self._id = order.connection
        self._filename = filename
        self._largest = largest
        self._part = part
        self._post = post
        self._clock = clock
        self._limiter = limiter
        every = {**source.headers, **(headers or {}), **((conditions or {}) if order.whole else {})}
        self._request = RangeRequest(source.url, order.start, order.end, order.whole, order.if_range, every)
        self._exchange: Exchange = transport.exchange(self._request)
        self._fence = threading.Lock()
        self._closed = threading.Event()
        self._answered = False
        self._reported = False
        self._at = order.start
        """The position of the stream: all bytes below it were taken."""
        self._limit = NO_END if order.end is None else order.end
        """The end of what is taken."""
        self._body_end = NO_END
        self._received = 0

    # ------------------------------------------------------------------ from the main thread

    def shut(self) -> None:
        """Fence all further writes and wake the thread.

        Before the head arrives the thread may be in a connect that cannot be interrupted, so ConnectionClosed is posted
        on its behalf.
        """
        with self._fence:
            self._closed.set()
            if not self._answered:
                self._say_closed()
        self._exchange.abort()

    def shorten(self, end: int) -> None:
        """Take nothing from ``end`` on, or from the current position if that is higher; posts LeaseShortened."""
        with self._fence:
            if self._reported or self._closed.is_set():
                return
            self._limit = max(self._at, min(end, self._limit))
            over = self._at == self._limit
            self._post(LeaseShortened(self._id, self._limit))
            if over and not self._answered:
                self._closed.set()
                self._say_closed()
            wake = over and self._at != self._body_end  # at the body's end its thread waits for nothing
        if wake:
            self._exchange.abort()

    # ------------------------------------------------------------------ the thread

    def run(self) -> None:
        """Fetch the lease. However this call ends, ConnectionClosed has been posted."""
        failure: Failure | None = None
        size: int | None = None
        try:
            failure, size = self._fetch()
            if failure is None and not self._closed.is_set():
                self._finish()
        except SourceError as error:
            failure = failure_of(error)
        except ResumeDLError as error:
            self._post(LocalFailed(error))
        except Exception as error:  # noqa: BLE001 - a bug in a thread must reach the user, not vanish with it
            self._post(LocalFailed(error))
        with self._fence:
            shortened = self._limit <= self._at < self._body_end
            late = self._reported
            self._say_closed(None if shortened or self._closed.is_set() else failure, size)
        if late and failure is not None and failure.unresolved:
            self._post(LookupFailed(self._request.url.host, failure))

    def _say_closed(self, failure: Failure | None = None, size: int | None = None) -> None:
        """Post ConnectionClosed, once; the caller holds the fence, so that nothing is posted after it."""
        if not self._reported:
            self._reported = True
            self._post(ConnectionClosed(self._id, self._position, self._received, failure, size))

    def _fetch(self) -> tuple[Failure | None, int | None]:
        response = self._exchange.open()
        try:
            verdict = check_head(self._request, response.head, self._order.size)
            if isinstance(verdict, Failure):
                return replace(verdict, answered_by=response.head.final_host), None
            too_long = check_length(verdict.size, self._largest)
            if too_long is not None:
                return too_long, None
            with self._fence:
                if self._closed.is_set():
                    return None, None
                self._answered = True
                if verdict.end is not None:
                    self._body_end = verdict.end
            head = response.head
            said = cache_headers(head)
            self._post(
                ResponseStarted(self._id, verdict.size, verdict.validator, head.final_host, said, gives_ranges(head))
            )
            failure = None
            try:
                failure = self._receive(response.chunks())
            finally:
                with self._fence:
                    self._end_body()
            if failure is not None or self._closed.is_set() or self._at >= self._limit:
                return failure, None
            if verdict.end is None:
                return None, self._at if verdict.size is None else None
            if self._at < verdict.end:
                return Failure(FailureKind.BROKEN, f"the body ended {verdict.end - self._at} bytes early"), None
            return None, None
        finally:
            response.close()

    def _receive(self, chunks: Iterator[bytes]) -> Failure | None:
        limiter, now = self._limiter, self._clock.now
        reported, reported_at = 0, now()
        for chunk in chunks if limiter is None else limiter.portions(chunks):
            self._received += len(chunk)
            if self._at == 0:
                failure = check_magic(self._filename, chunk[:8])
                if failure is not None:
                    return failure
            failure = check_length(self._at + len(chunk), self._largest)  # the body may have no announced length
            if failure is not None:
                return failure
            if not self._store(chunk):
                return None
            moment = now()
            if self._received - reported >= REPORT_BYTES or moment - reported_at >= REPORT_SECONDS:
                reported, reported_at = self._received, moment
                self._post(self._report())
            if limiter is not None:
                limiter.pay(len(chunk), self._closed)
        return None

    def _store(self, chunk: bytes) -> bool:
        """Take the bytes of ``chunk`` below the limit; whether to go on reading this body."""
        with self._fence:
            if self._closed.is_set():
                return False
            at, limit = self._at, self._limit
            end = at + len(chunk)
            if end > self._body_end:
                raise ContentError("received more bytes than announced", retryable=True)
            if end <= limit:
                self._take(chunk, at, end)
                self._at = end
            elif at < limit:
                self._take(memoryview(chunk)[: limit - at], at, limit)
                self._at = limit
            # At the body's own end, read on to the end of the response, so that its connection can be reused.
            return self._at < limit or self._at == self._body_end

    # ------------------------------------------------------------------ implemented by subclasses

    @property
    @abstractmethod
    def _position(self) -> int:
        """The position that ConnectionClosed reports."""

    @abstractmethod
    def _take(self, data: bytes | memoryview, start: int, end: int) -> None:
        """Use bytes ``[start, end)``; called under the fence."""

    @abstractmethod
    def _report(self) -> Event:
        """Return the event that reports progress."""

    @abstractmethod
    def _end_body(self) -> None:
        """Finish after the last byte; called under the fence, however the body ended."""

    def _finish(self) -> None:  # noqa: B027 - optional: most subclasses have nothing left to do
        """Finish after the whole lease was received and the connection released."""


def failure_of(error: SourceError) -> Failure:
    """Convert a transport's exception to the core's Failure."""
    if not error.retryable:
        kind = FailureKind.FATAL
    elif isinstance(error, StalledError):
        kind = FailureKind.STALLED
    elif isinstance(error, NetworkError) and not error.reached:
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.BROKEN
    if not isinstance(error, NetworkError):
        return Failure(kind, error.message)
    return Failure(kind, error.message, unresolved=error.unresolved, no_route=error.no_route)

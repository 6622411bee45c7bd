"""One connection's thread: asks for a range, checks the answer, writes and records what comes."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator

from resume_dl.core.actions import OpenRange
from resume_dl.core.events import BytesWritten, ConnectionClosed, Event, LocalFailed, ResponseStarted
from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import KIB
from resume_dl.core.rate import TokenBucket
from resume_dl.core.responses import Accepted, check_head, check_magic
from resume_dl.errors import ContentError, NetworkError, ResumeDLError, SourceError, StalledError
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest
from resume_dl.ports import Clock, Exchange, PartFile, Transport

RECORD_EVERY = 128 * 1024
"""A killed process loses what it had not recorded: this much a connection at most (invariant 2)."""
PORTIONS = 32
"""A limited second is shared in so many portions: eight connections hear of theirs four times in it."""
REPORT_BYTES = 256 * 1024
REPORT_SECONDS = 0.05
"""Counts go to the core at most this often: a queue entry a read would cost as much as the read."""


class RateLimiter:
    """One token bucket for all workers; they sleep what it says, awake to a close."""

    def __init__(self, rate: float, clock: Clock) -> None:
        self._bucket = TokenBucket(rate, clock.now())
        self._clock = clock
        self.portion = max(KIB, int(rate / PORTIONS))
        """Bytes to pay for at once: with all connections waiting for each other, none is silent for long."""
        self._lock = threading.Lock()

    def pay(self, count: int, closed: threading.Event) -> None:
        """Spend ``count`` bytes, then wait as long as the bucket says or until ``closed`` is set."""
        with self._lock:
            delay = self._bucket.take(count, self._clock.now())
        if delay > 0:
            closed.wait(delay)


class Worker(threading.Thread):
    """A daemon thread that lives for one request; ``post`` takes its events, the last is ConnectionClosed."""

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
        limiter: RateLimiter | None,
        known_validator: str | None = None,
    ) -> None:
        super().__init__(name=f"connection-{order.connection}", daemon=True)
        self._order = order
        self._filename = filename
        self._label = source.mirror
        self._part = part
        self._post = post
        self._clock = clock
        self._limiter = limiter
        headers = conditional(known_validator) if order.whole else {}
        self._request = RangeRequest(source.url, order.start, order.end, order.whole, order.if_range, headers)
        self._exchange: Exchange = transport.exchange(self._request)
        self._fence = threading.Lock()
        self._closed = threading.Event()
        self._answered = False
        self._reported = False
        self._position = order.start
        self._received = 0
        self._record_start = order.start
        self._crc = 0

    def shut(self) -> None:
        """Fence all further writes, wake the thread; from the main thread.

        Before the head is here the thread may sit in a connect that nothing can wake: its last word is said for it.
        """
        with self._fence:
            self._closed.set()
            if self._answered or self._reported:
                early = False
            else:
                early = self._reported = True
        self._exchange.abort()
        if early:
            self._post(ConnectionClosed(self._order.connection, self._position, self._received))

    def run(self) -> None:
        """Fetch the lease; every end of this thread has been reported as ConnectionClosed."""
        failure: Failure | None = None
        size: int | None = None
        try:
            failure, size = self._fetch()
        except SourceError as error:
            failure = failure_of(error)
        except ResumeDLError as error:
            self._post(LocalFailed(error))
        except Exception as error:  # noqa: BLE001 - a bug in a thread must reach the user, not vanish with it
            self._post(LocalFailed(error))
        with self._fence:
            if self._reported:
                return
            self._reported = True
            if self._closed.is_set():
                failure = None
        self._post(ConnectionClosed(self._order.connection, self._position, self._received, failure, size))

    def _fetch(self) -> tuple[Failure | None, int | None]:
        response = self._exchange.open()
        try:
            verdict = check_head(self._request, response.head, self._order.size)
            if isinstance(verdict, Failure):
                return verdict, None
            with self._fence:
                if self._closed.is_set():
                    return None, None
                self._answered = True
                self._position = self._record_start = verdict.start
            head = response.head
            self._post(ResponseStarted(self._order.connection, verdict.size, verdict.validator, head.final_host))
            failure = None
            try:
                failure = self._receive(response.chunks(), verdict)
            finally:
                self._record()
            if failure is not None or self._closed.is_set():
                return failure, None
            if verdict.end is not None and self._position < verdict.end:
                return Failure(FailureKind.BROKEN, f"the body ended {verdict.end - self._position} bytes early"), None
            return None, self._position if verdict.size is None else None
        finally:
            response.close()

    def _receive(self, chunks: object, verdict: Accepted) -> Failure | None:
        reported, reported_at = 0, self._clock.now()
        for chunk in self._portions(chunks):
            self._received += len(chunk)
            if self._position == 0:
                failure = check_magic(self._filename, chunk[:8])
                if failure is not None:
                    return failure
            if not self._store(chunk, verdict):
                return None
            now = self._clock.now()
            if self._received - reported >= REPORT_BYTES or now - reported_at >= REPORT_SECONDS:
                reported, reported_at = self._received, now
                self._post(BytesWritten(self._order.connection, self._position, self._received))
            if self._limiter is not None:
                self._limiter.pay(len(chunk), self._closed)
        return None

    def _portions(self, chunks: object) -> Iterator[bytes]:
        """The chunks as they come; with a rate limit cut small, or what is already here would count as a stall."""
        for chunk in chunks:  # type: ignore[attr-defined]
            step = len(chunk) if self._limiter is None else self._limiter.portion
            for at in range(0, len(chunk), max(1, step)):
                yield chunk[at : at + step]

    def _store(self, chunk: bytes, verdict: Accepted) -> bool:
        """Write what of ``chunk`` falls into the lease; False once the connection is fenced."""
        at, end = self._position, self._position + len(chunk)
        if verdict.end is not None and end > verdict.end:
            raise ContentError("more bytes came than were announced", retryable=True)
        with self._fence:
            if self._closed.is_set():
                return False
            view = memoryview(chunk)
            for start, stop in self._order.gaps:
                lo, hi = max(start, at), end if stop is None else min(stop, end)
                if lo >= hi:
                    continue
                piece = view[lo - at : hi - at]
                self._part.write(lo, piece)
                if self._record_end != lo:
                    self._record_unlocked()
                    self._record_start = lo
                self._crc = zlib.crc32(piece, self._crc)
                self._record_end = hi
                if hi - self._record_start >= RECORD_EVERY:
                    self._record_unlocked()
            self._position = end
        return True

    _record_end = 0

    def _record(self) -> None:
        with self._fence:
            if not self._reported:
                self._record_unlocked()

    def _record_unlocked(self) -> None:
        if self._record_end > self._record_start:
            self._part.record_written(self._record_start, self._record_end, self._crc, self._label)
        self._record_start = self._record_end
        self._crc = 0


def conditional(validator: str | None) -> dict[str, str]:
    """The headers that ask for a file only if it is not the one with ``validator`` (RFC 9110 13.1.2, 13.1.3)."""
    if validator is None:
        return {}
    return {"If-None-Match": validator} if validator.startswith('"') else {"If-Modified-Since": validator}


def failure_of(error: SourceError) -> Failure:
    """The core's value for a transport's exception."""
    if not error.retryable:
        kind = FailureKind.FATAL
    elif isinstance(error, StalledError):
        kind = FailureKind.STALLED
    elif isinstance(error, NetworkError) and not error.reached:
        kind = FailureKind.UNREACHABLE
    else:
        kind = FailureKind.BROKEN
    return Failure(kind, error.message)

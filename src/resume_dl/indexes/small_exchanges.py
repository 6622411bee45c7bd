"""Active requests of any number of threads, which can be cancelled from other threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from resume_dl.core.small_requests import SmallRequest
from resume_dl.errors import Interrupted
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.ports import Exchange, Response, Transport


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt at one source; after ``cancel``, which is thread-safe, its result is ignored."""

    request: SmallRequest
    source: Source
    alone: bool
    """Whether it is the only source."""
    doubles: bool
    """Whether it runs beside another attempt, outside the limit per host."""
    exchange: Exchange | None = None
    cancelled: bool = False

    def cancel(self) -> None:
        """Cancel its request. Never raises."""
        self.cancelled = True
        if self.exchange is not None:
            self.exchange.abort()


class _Here(threading.local):
    attempt: Attempt | None = None


class Exchanges:
    """Opens requests over ``transport``, on behalf of the calling thread's ``attempt``."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._open: set[Exchange] = set()
        self._here = _Here()

    @property
    def attempt(self) -> Attempt | None:
        """The attempt of this thread."""
        return self._here.attempt

    @attempt.setter
    def attempt(self, attempt: Attempt) -> None:
        self._here.attempt = attempt

    def stop(self) -> None:
        """End every request, including future ones. Never raises."""
        self._stop.set()
        with self._lock:
            exchanges = [*self._open]
        for exchange in exchanges:
            exchange.abort()

    def check(self) -> None:
        """Raise Interrupted if ``stop`` was called or this thread's attempt was cancelled."""
        one = self.attempt
        if self._stop.is_set() or (one is not None and one.cancelled):
            raise Interrupted("stopped")

    @contextmanager
    def opened(self, request: RangeRequest) -> Iterator[tuple[Response, ResponseHead]]:
        """Provide the answer to ``request``, closed at the end of the block. Raises SourceError, Interrupted."""
        one = self.attempt
        patience = None if one is None else one.request.patience
        exchange = self._transport.exchange(replace(request, patience=patience))
        with self._lock:
            self._open.add(exchange)
        try:
            if one is not None:
                one.exchange = exchange
            self.check()  # after adding it, so that a concurrent ``stop`` cannot miss it
            response = exchange.open()
            try:
                yield response, response.head
            finally:
                response.close()
        finally:
            with self._lock:
                self._open.discard(exchange)

    def chunks(self, response: Response) -> Iterator[bytes]:
        """Yield the body, counted for this thread's attempt."""
        one = self.attempt
        for chunk in response.chunks():
            if one is not None:
                one.request.received += len(chunk)
            yield chunk

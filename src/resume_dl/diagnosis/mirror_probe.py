"""Ask mirrors for a bounded part of their indexes, several at once, in bounded time."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timezone
from email.utils import parsedate_to_datetime
from functools import partial

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.responses import check_head
from resume_dl.diagnosis.mirror_row import MirrorRow, Place, newest_timestamp
from resume_dl.diagnosis.sync_status import synced_at
from resume_dl.engine.worker import failure_of
from resume_dl.errors import Interrupted, ResumeDLError, SourceError
from resume_dl.indexes.small_answers import Sample
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.url import RedactedUrl
from resume_dl.threads import start_thread

AT_ONCE = 8
"""Mirrors asked at once; each has one connection at a time, because some block clients that open more."""
SAMPLES_AT_ONCE = 2
"""Samples measured at once: more would share one line, and all look alike."""
SAMPLE_SECONDS = 10.0
"""Longest time for one sample; a slower mirror is measured by what came."""
LEAST = 32 << 10
"""Bytes from which a sample that ended by itself has a speed: a shorter one fits into the first packets."""
LARGEST_STATUS = 1 << 20
"""Bytes of a status file; tunasync's has 100 kB."""
_WAKE = 0.1
"""Seconds after which a waiting call looks whether it was stopped."""
_CONNECTION_FAILURES = {FailureKind.UNREACHABLE, FailureKind.FATAL}


class MirrorProbe:
    """Measures places in background threads; ``rows`` collects the results."""

    def __init__(
        self,
        reader: Reader,
        places: Sequence[Place],
        *,
        sample: int,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader = reader
        self._places = list(places)
        self._clock = clock
        self._deadline = clock() + seconds
        self._seconds = seconds
        self._slots = threading.BoundedSemaphore(SAMPLES_AT_ONCE)
        self._stopped = threading.Event()
        self._ended: queue.SimpleQueue[tuple[int, MirrorRow] | BaseException] = queue.SimpleQueue()
        self._waiting: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        by_mirror: dict[str, list[int]] = {}
        for number, place in enumerate(self._places):
            by_mirror.setdefault(place.mirror, []).append(number)
        self._sample = {name: max(2 * LEAST, sample // len(numbers)) for name, numbers in by_mirror.items()}
        for numbers in by_mirror.values():
            self._waiting.put(numbers)
        for number in range(min(AT_ONCE, len(by_mirror))):
            start_thread(self._work, self._failed, name=f"mirror-test-{number}")

    def rows(self, cancelled: Callable[[], bool]) -> list[MirrorRow]:
        """The results in the order of the places; a place without one has a row that says so. Raises Interrupted.

        Call it once; it ends all requests.
        """
        found: dict[int, MirrorRow] = {}
        try:
            while len(found) < len(self._places) and self._clock() < self._deadline:
                if cancelled():
                    raise Interrupted("stopped")
                with suppress(queue.Empty):
                    ended = self._ended.get(timeout=_WAKE)
                    if isinstance(ended, BaseException):
                        raise ended
                    found[ended[0]] = ended[1]
        finally:
            self._stopped.set()
            self._reader.stop()
        late = f"not tested within {self._seconds:g} s"
        return [
            found.get(number) or MirrorRow(place, failure=FailureKind.UNASKED.value, text=late)
            for number, place in enumerate(self._places)
        ]

    # ------------------------------------------------------------------ in the threads

    def _work(self) -> None:
        while not self._stopped.is_set():
            try:
                numbers = self._waiting.get_nowait()
            except queue.Empty:
                return
            self._mirror(numbers)

    def _failed(self, error: BaseException) -> None:
        """End the test: what a thread with a defect had to do would be missing."""
        self._ended.put(error)

    def _mirror(self, numbers: Sequence[int]) -> None:
        """All places of one mirror: whether they answer, then how fast they are."""
        status = self._status(self._places[numbers[0]].sync_status)
        broken: dict[str, MirrorRow] = {}
        answered: list[tuple[int, MirrorRow]] = []
        for number in numbers:
            place = self._places[number]
            host = place.source.url.host
            known = broken.get(host)
            row = replace(known, place=place) if known else self._row(number, partial(self._first, place))
            if status and row.ok:
                row = replace(row, synced=synced_at(status, place.origin))
            if row.ok:
                answered.append((number, row))
                continue
            if row.failure in {kind.value for kind in _CONNECTION_FAILURES}:
                broken[host] = row
            self._ended.put((number, row))
        for number, row in answered:
            self._ended.put((number, self._row(number, partial(self._measured, row))))

    def _row(self, number: int, call: Callable[[], MirrorRow]) -> MirrorRow:
        place = self._places[number]
        try:
            return call()
        except SourceError as error:
            return _failed(MirrorRow(place), failure_of(error))
        except ResumeDLError as error:
            return MirrorRow(place, failure=FailureKind.UNASKED.value, text=error.message)

    def _status(self, url: str) -> bytes:
        """The mirror's status file; empty without one."""
        if not url:
            return b""
        try:
            found = self._reader.file(Source("status", RedactedUrl(url)), largest=LARGEST_STATUS)
        except ResumeDLError:
            return b""
        return b"" if isinstance(found, Failure) else found[0]

    def _first(self, place: Place) -> MirrorRow:
        """One byte of the file: whether it is there, with ranges, and after what time."""
        sample = self._reader.sample(place.source, 1, ranged=True, until=self._deadline, clock=self._clock)
        head = sample.head
        host = head.final_host if head.final_host != place.source.url.host else ""
        row = MirrorRow(place, head.status, host=host, first_byte=sample.first_byte, modified=_modified(sample))
        ranged = head.status == 206
        request = RangeRequest(place.source.url, 0, 1 if ranged else None, whole=not ranged)
        verdict = check_head(request, _without_type(sample) if place.is_page else head, None)
        if isinstance(verdict, Failure):
            return _failed(row, verdict)
        return replace(row, ranges=ranged)

    def _measured(self, row: MirrorRow) -> MirrorRow:
        """The same with the speed of a sample, and what the sample says about the age."""
        place = row.place
        most = self._sample[place.mirror]
        while not self._slots.acquire(timeout=_WAKE):
            if self._stopped.is_set():
                return row
        try:
            until = min(self._deadline, self._clock() + SAMPLE_SECONDS)
            sample = self._reader.sample(place.source, most, ranged=bool(row.ranges), until=until, clock=self._clock)
        finally:
            self._slots.release()
        count = len(sample.data)
        row = replace(row, received=count, modified=_modified(sample) or row.modified)
        if sample.head.status not in {200, 206}:
            return _failed(row, Failure(FailureKind.BROKEN, f"a second request got status {sample.head.status}"))
        if sample.failure is not None:
            return _failed(row, sample.failure)
        if not _looks_right(sample.data, page=place.is_page):
            return _failed(row, Failure(FailureKind.CONTENT, "what came is not an index"))
        is_whole = sample.whole and (not row.ranges or _is_all(sample))
        if not place.is_page and is_whole:
            row = replace(row, newest=_newest(sample.data))
        if count >= LEAST or not sample.whole:
            row = replace(row, speed=count / max(sample.seconds, 0.001))
        return row


def _failed(row: MirrorRow, failure: Failure) -> MirrorRow:
    return replace(row, failure=failure.kind.value, text=failure.message)


def _without_type(sample: Sample) -> ResponseHead:
    headers = {name: value for name, value in sample.head.headers.items() if name != "content-type"}
    return replace(sample.head, headers=headers)


def _is_all(sample: Sample) -> bool:
    """Whether a partial answer is the whole file."""
    total = sample.head.headers.get("content-range", "").rpartition("/")[2]
    return total == str(len(sample.data))


def _looks_right(data: bytes, *, page: bool) -> bool:
    """Whether this is the start of a channel's index, or of a page with packages; a login page is neither."""
    if page:
        lower = data.lower()
        return any(suffix in lower for suffix in (b".whl", b".tar.gz"))
    return data.lstrip()[:1] == b"{"


def _newest(data: bytes) -> float | None:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return newest_timestamp(document) if isinstance(document, dict) else None


def _modified(sample: Sample) -> float | None:
    try:
        date = parsedate_to_datetime(sample.head.headers.get("last-modified", ""))
        return (date if date.tzinfo else date.replace(tzinfo=timezone.utc)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None

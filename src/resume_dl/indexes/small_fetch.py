"""Download of small files without a part file: index pages, metadata, shards; whole or in ranges."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TypeVar

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS, Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.responses import check_head, check_length
from resume_dl.core.small_requests import TRIES
from resume_dl.engine.worker import failure_of
from resume_dl.errors import SourceError
from resume_dl.indexes.hashed_file import HashedFile
from resume_dl.indexes.small_answers import Body, Part, Refused, Sample
from resume_dl.indexes.small_attempts import Attempts
from resume_dl.indexes.small_body import MOST, ByteCount, joined
from resume_dl.indexes.small_exchanges import Exchanges
from resume_dl.model.artifact import Source
from resume_dl.model.http import RangeRequest, ResponseHead
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Clock, Transport

NO_HEADERS: Mapping[str, str] = {}

T = TypeVar("T")


class Reader:
    """Asks sources in turn, from any number of threads, within a limit of requests per host."""

    def __init__(
        self,
        transport: Transport,
        policy: Policy = DEFAULTS,
        network: Reachability | None = None,
        *,
        clock: Clock | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Once ``cancelled`` returns true, callers that wait for an answer get Interrupted."""
        self.policy = policy
        """The policy with its time limits and numbers of attempts."""
        self.network = network or Reachability()
        """The run's knowledge of reachable hosts."""
        self._exchanges = Exchanges(transport)
        self._attempts = Attempts(self._exchanges, policy, self.network, clock, cancelled)

    def stop(self) -> None:
        """End every request, including future ones; waiting callers get Interrupted. Never raises."""
        self._attempts.stop()

    def ask(
        self,
        sources: Sequence[Source],
        attempt: Callable[[Source], T | Refused[T]],
        *,
        tries: int = TRIES,
        hedged: bool = True,
        within: float | None = None,
    ) -> T:
        """Return the result of ``attempt`` for the first source with which it succeeds; each gets ``tries`` attempts.

        ``attempt`` may raise SourceError, equivalent to ``Refused``. It runs in separate threads; with ``hedged``, for
        two sources in parallel if the first is slow. After the policy's ``give_up_after`` or ``within`` seconds,
        whichever is less, no new request is sent; an answer in progress may still arrive. Raises Unanswered,
        Interrupted.
        """
        return self._attempts.ask(sources, attempt, tries=tries, hedged=hedged, within=within)

    def whole(
        self,
        sources: Sequence[Source],
        *,
        accept: str = "*/*",
        check: Callable[[Body], Failure | None] = lambda _: None,
        tries: int = TRIES,
    ) -> Body:
        """Fetch a whole file into memory; ``check`` may refuse its content. Raises Unanswered, Interrupted."""

        def attempt(source: Source) -> Body | Refused[Body]:
            found = self.get(source, accept=accept)
            if isinstance(found, Failure):
                return Refused(found)
            failure = check(found)
            return found if failure is None else Refused(failure)

        return self.ask(sources, attempt, tries=tries)

    def get(self, source: Source, *, accept: str = "*/*", headers: Mapping[str, str] = NO_HEADERS) -> Body | Failure:
        """Send one request for the whole file; ``headers`` may make it conditional. Raises SourceError."""
        # gzip shrinks a page of links to an eighth.
        request = RangeRequest(source.url, whole=True, headers={"accept": accept, **headers}, packed=True)
        with self._exchanges.opened(request) as (response, head):
            if head.status != 200:
                failure = _failure_of_status(request, head)
                if failure.kind is FailureKind.UNCHANGED:
                    return Body(b"", "", head.final_url or source.url, source, head.headers, unchanged=True)
                return failure
            encoding = head.headers.get("content-encoding", "").strip().lower()
            if encoding not in {"", "identity", "gzip"}:
                return Failure(FailureKind.CONTENT, f"the body has an encoding that was not requested: {encoding[:20]}")
            received = ByteCount()
            data = joined(received.of(self._exchanges.chunks(response)), packed=encoding == "gzip")
            self._exchanges.check()  # a body that was stopped ends as if it were whole
            if data is None:
                return Failure(FailureKind.CONTENT, "the body is too long, or cannot be decompressed")
            kind, url = head.headers.get("content-type", ""), head.final_url or source.url
            return Body(data, kind, url, source, head.headers, received.bytes)

    def file(
        self, source: Source, *, headers: Mapping[str, str] = NO_HEADERS, largest: int = MOST
    ) -> tuple[bytes, ResponseHead] | Failure:
        """Send one request for the whole file, at most ``largest`` bytes; return it with the response's head.

        With conditional ``headers``, an unchanged file is a failure of that kind. Raises SourceError.
        """
        request = RangeRequest(source.url, whole=True, headers={**source.headers, **headers})
        with self._exchanges.opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                return verdict
            failure = check_length(verdict.size, largest)
            parts: list[bytes] = []
            length = 0
            for chunk in () if failure else self._exchanges.chunks(response):
                parts.append(chunk)
                length += len(chunk)
                if failure := check_length(length, largest):
                    break
            self._exchanges.check()
            return failure or (b"".join(parts), head)

    def hashed(self, source: Source, file: HashedFile) -> bytes | Refused[bytes]:
        """Send one request for the missing bytes of ``file``; return all of it, verified. Raises SourceError."""
        return file.read(self._exchanges, source)

    def size(self, sources: Sequence[Source], headers: Mapping[str, str] = NO_HEADERS) -> int:
        """Return the length of a file in bytes; a source that does not answer is not asked again.

        With conditional ``headers``, an unchanged file is a failure of that kind. Raises Unanswered, Interrupted.
        """

        def attempt(source: Source) -> int | Refused[int]:
            request = RangeRequest(source.url, 0, 1, headers={**source.headers, **headers})
            with self._exchanges.opened(request) as (_, head):
                verdict = check_head(replace(request, whole=True) if head.status == 200 else request, head, None)
            if isinstance(verdict, Failure):
                return Refused(verdict)
            if verdict.size is None:
                return Refused(Failure(FailureKind.CONTENT, "does not state the size of the file"))
            return verdict.size

        return self.ask(sources, attempt, tries=1)

    def copy(self, source: Source, target: IO[bytes]) -> Failure | None:
        """Send one request for the whole file and write it to ``target``. Raises SourceError."""
        request = RangeRequest(source.url, whole=True)
        with self._exchanges.opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                return verdict
            for chunk in self._exchanges.chunks(response):
                target.write(chunk)
            self._exchanges.check()
            return None

    def part(self, url: RedactedUrl, start: int, end: int, *, if_range: str | None = None) -> Part | Failure:
        """Fetch bytes ``[start, end)`` of a file, fewer if it is shorter. Raises SourceError."""
        request = RangeRequest(url, start, end, if_range=if_range)
        with self._exchanges.opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                changed = verdict.kind is FailureKind.CHANGED  # the file was replaced during the read: start again
                return Failure(FailureKind.BROKEN, verdict.message) if changed else verdict
            data = b"".join(self._exchanges.chunks(response))
            self._exchanges.check()
            if verdict.end is None or len(data) != verdict.end - start or verdict.size is None:
                return Failure(FailureKind.BROKEN, "the body ended early")
            return Part(data, verdict.size, verdict.validator, head.final_host)

    def sample(
        self, source: Source, most: int, *, ranged: bool, until: float, clock: Callable[[], float] = time.monotonic
    ) -> Sample:
        """Send one request for the first ``most`` bytes of a file, and measure the answer.

        Without ``ranged`` the whole file is requested. In either case the body is read up to ``most`` bytes and until
        ``clock`` shows ``until``; one that breaks off is a sample with a failure. Raises SourceError if there is no
        answer at all, and Interrupted.
        """
        request = RangeRequest(source.url, 0, None if not ranged else most, whole=not ranged, headers=source.headers)
        started = clock()
        with self._exchanges.opened(request) as (response, head):
            answered = clock()
            parts: list[bytes] = []
            received, whole, failure = 0, False, None
            try:
                for chunk in self._exchanges.chunks(response) if most else ():
                    parts.append(chunk)
                    received += len(chunk)
                    if received >= most or clock() >= until:
                        break
                else:
                    whole = True
            except SourceError as error:
                failure = failure_of(error)
            self._exchanges.check()
            return Sample(head, answered - started, b"".join(parts), clock() - answered, whole, failure)


def _failure_of_status(request: RangeRequest, head: ResponseHead) -> Failure:
    verdict = check_head(request, head, None)
    if isinstance(verdict, Failure):
        return replace(verdict, answered_by=head.final_host)
    return Failure(FailureKind.CONTENT, f"unexpected response (status {head.status})")

"""Small things from the network as a whole or in parts: index pages, metadata. No part file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import IO, TypeVar

from resume_dl.core.failures import Failure, FailureKind
from resume_dl.core.policy import DEFAULTS, Policy
from resume_dl.core.reachability import Reachability
from resume_dl.core.responses import check_head, check_length
from resume_dl.core.small_requests import TRIES
from resume_dl.indexes.hashed_file import HashedFile
from resume_dl.indexes.small_answers import Body, Part, Refused
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
    """Asks sources in turn, from any number of threads; no host is asked by more of them at once than is polite."""

    def __init__(
        self,
        transport: Transport,
        policy: Policy = DEFAULTS,
        network: Reachability | None = None,
        *,
        clock: Clock | None = None,
    ) -> None:
        self.policy = policy
        """The numbers that it decides by."""
        self.network = network or Reachability()
        """What the run knows of the network."""
        self._exchanges = Exchanges(transport)
        self._attempts = Attempts(self._exchanges, policy, self.network, clock)

    def stop(self) -> None:
        """End every request, now and from now on: a caller that waits for one gets Interrupted. Never raises."""
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
        """What ``attempt`` gives for the first source that it works with; each has so many ``tries``.

        It may raise SourceError, which says the same as ``Refused``. It runs in threads of its own; with ``hedged`` in
        two at once, for two sources, where the first is slow. Once the policy's ``give_up_after`` is over, or
        ``within`` seconds if these are fewer, no source is asked again; an answer that is coming may still come.
        Raises Unanswered, Interrupted.
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
        with self._exchanges.opened(request) as (response, head):
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
            received = ByteCount()
            data = joined(received.of(self._exchanges.chunks(response)), packed=encoding == "gzip")
            self._exchanges.check()  # a body that was stopped ends as if it were whole
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
        """One request for what is missing of ``file``; all of it, verified. Raises SourceError."""
        return file.read(self._exchanges, source)

    def size(self, sources: Sequence[Source], headers: Mapping[str, str] = NO_HEADERS) -> int:
        """The length of a file in bytes; a source that does not answer is not asked again.

        With conditional ``headers`` an unchanged file is a failure of that kind. Raises Unanswered, Interrupted.
        """

        def attempt(source: Source) -> int | Refused[int]:
            request = RangeRequest(source.url, 0, 1, headers={**source.headers, **headers})
            with self._exchanges.opened(request) as (_, head):
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
        with self._exchanges.opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                return verdict
            for chunk in self._exchanges.chunks(response):
                target.write(chunk)
            self._exchanges.check()
            return None

    def part(self, url: RedactedUrl, start: int, end: int, *, if_range: str | None = None) -> Part | Failure:
        """Bytes ``[start, end)`` of a file, fewer where it is shorter. Raises SourceError."""
        request = RangeRequest(url, start, end, if_range=if_range)
        with self._exchanges.opened(request) as (response, head):
            verdict = check_head(request, head, None)
            if isinstance(verdict, Failure):
                changed = verdict.kind is FailureKind.CHANGED  # it was replaced while we read: begin again
                return Failure(FailureKind.BROKEN, verdict.message) if changed else verdict
            data = b"".join(self._exchanges.chunks(response))
            self._exchanges.check()
            if verdict.end is None or len(data) != verdict.end - start or verdict.size is None:
                return Failure(FailureKind.BROKEN, "the body ended early")
            return Part(data, verdict.size, verdict.validator, head.final_host)


def _failure_of_status(request: RangeRequest, head: ResponseHead) -> Failure:
    verdict = check_head(request, head, None)
    if isinstance(verdict, Failure):
        return replace(verdict, answered_by=head.final_host)
    return Failure(FailureKind.CONTENT, f"an answer that was not asked for (status {head.status})")

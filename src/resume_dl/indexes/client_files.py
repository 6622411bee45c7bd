"""Download of index files for another client, each from the one URL that this client would request.

Mirrors are not used here (see ``substitutes``). One source and its validator bind the bytes (invariant 6), so a broken
download is resumed within and across runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from resume_dl.core.failures import FailureKind
from resume_dl.engine.job import NOTHING_SAID, Job, Outcome
from resume_dl.errors import LockedError
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.http import CacheHeaders, by_validator
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.repodata import LARGEST
from resume_dl.store.lock import FileLock
from resume_dl.store.part import PartStore
from resume_dl.store.platform import make_folder
from resume_dl.transfer.watched_engine import WatchedEngine

HANDOVER = 30.0
"""Seconds to wait for another process that has downloaded the file and unpacks it for the client."""
_PAUSE = 0.05
_REFUSALS = {FailureKind.LACKS.value, FailureKind.REFUSED.value}


class Answer(Enum):
    """The outcome for one file."""

    NEW = "new"
    UNCHANGED = "unchanged"  # 304: the client's copy is current
    ABSENT = "absent"  # 404 or 410: the client will get and report the same answer
    REFUSED = "refused"  # another 4xx answer: the same, but the file may exist
    ELSEWHERE = "elsewhere"  # another process has fetched it, or is about to
    FAILED = "failed"


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientFile:
    """A file that a client is about to request; ``url`` and ``headers`` are the client's own, login included.

    ``validator`` is that of the client's copy: an ETag or an HTTP date. ``is_settled`` returns whether another process
    has fetched the file meanwhile; it is called once we hold the file's lock. ``replaceable``: mirrors may have the
    file, so a server that sends no byte is given up after ``Policy.authority_give_up``.
    """

    url: RedactedUrl
    filename: str
    channel: str
    subdir: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    validator: str | None = None
    replaceable: bool = False
    is_settled: Callable[[], bool] = _never

    @property
    def artifact(self) -> Artifact:
        """The file, with the client's URL as its only source."""
        source = Source(self.url.host, self.url, headers=self.headers)
        return Artifact(
            kind="index",
            filename=self.filename,
            url=self.url,
            channel=self.channel,
            subdir=self.subdir,
            sources=(source,),
        )


@dataclass(frozen=True, slots=True)
class ClientAnswer:
    """The result for one file.

    For ``NEW``, ``path`` is the file as it was served, valid only during the call of ``take``, and ``said`` has the
    cache headers of these bytes, which may be incomplete if they came in an earlier run.
    """

    answer: Answer
    path: Path | None = None
    said: CacheHeaders = NOTHING_SAID
    error: Exception | None = None


Take = Callable[[ClientFile, ClientAnswer], None]


def fetch_client_files(
    engine: WatchedEngine,
    folder: Path,
    files: Sequence[ClientFile],
    take: Take,
    *,
    largest: int | None = None,
    cancelled: Callable[[], bool] = _never,
) -> list[ClientAnswer]:
    """Fetch ``files``, whose URLs differ; return one answer each, in order. ``largest`` is in bytes, per file.

    ``take`` is called for each new or unchanged file as soon as it is available, in another thread and under the file's
    lock; its exception becomes the answer's error. Raises OSError if ``folder`` cannot be created.
    """
    make_folder(folder)
    under_way = {file.artifact.key: _UnderWay(file, folder, cancelled) for file in files}
    answers: dict[str, Future[ClientAnswer]] = {}
    with ThreadPoolExecutor(1, thread_name_prefix="index") as pool:

        def done(outcome: Outcome) -> None:
            key = outcome.artifact.key
            answers[key] = pool.submit(under_way[key].finish, outcome, take)

        try:
            engine.run([each.job(LARGEST if largest is None else largest) for each in under_way.values()], done)
        finally:
            pool.shutdown(wait=True)
            for each in under_way.values():
                each.release()
    return [answers[key].result() for key in under_way]


class _UnderWay:
    """A file and its lock, which is held from before the first byte until the client has the file.

    The part file's own lock is not enough: it is released when the file is published, before the client has it.
    """

    def __init__(self, file: ClientFile, folder: Path, cancelled: Callable[[], bool]) -> None:
        self._file = file
        self._folder = folder
        self._cancelled = cancelled
        self._lock = FileLock(folder / f"{file.artifact.key}.handover")
        self._elsewhere = False

    def job(self, largest: int) -> Job:
        artifact = self._file.artifact
        return Job(
            artifact,
            PartStore(self._folder / "parts"),
            self._folder / f"{artifact.key}.served",
            is_published=self._is_elsewhere,
            known={} if self._file.validator is None else {self._file.url: by_validator(self._file.validator)},
            largest=largest,
            replaceable=self._file.replaceable,
        )

    def _is_elsewhere(self) -> bool:
        """Whether another process has done the work; called once we hold the part file's lock."""
        deadline = time.monotonic() + HANDOVER
        while not self._lock.held:
            with suppress(LockedError):
                self._lock.acquire()
                break
            if self._cancelled() or time.monotonic() >= deadline:
                self._elsewhere = True
                return True
            time.sleep(_PAUSE)
        self._elsewhere = self._file.is_settled()
        return self._elsewhere

    def finish(self, outcome: Outcome, take: Take) -> ClientAnswer:
        """Hand the file to the client, remove it and release the lock. Never raises."""
        answer = ClientAnswer(Answer.FAILED)
        try:
            with self._cleared():
                answer = self._answer(outcome)
                if answer.answer in {Answer.NEW, Answer.UNCHANGED}:
                    take(self._file, answer)
        except Exception as error:  # noqa: BLE001 - the exception is returned to the caller
            return ClientAnswer(Answer.FAILED, error=error)
        return answer

    def _answer(self, outcome: Outcome) -> ClientAnswer:
        if self._elsewhere:
            return ClientAnswer(Answer.ELSEWHERE)
        if outcome.reason == "unchanged":
            return ClientAnswer(Answer.UNCHANGED, said=outcome.said)
        if outcome.error is not None:
            kinds = {kind for report in outcome.sources for kind in report.failures}
            if outcome.reason == "lacking" or (kinds and kinds <= {FailureKind.LACKS.value}):
                return ClientAnswer(Answer.ABSENT, error=outcome.error)
            refused = bool(kinds) and kinds <= _REFUSALS
            return ClientAnswer(Answer.REFUSED if refused else Answer.FAILED, error=outcome.error)
        return ClientAnswer(Answer.NEW, self._folder / f"{outcome.artifact.key}.served", outcome.said)

    @contextmanager
    def _cleared(self) -> Iterator[None]:
        """Remove the served file and release the lock at the end of the block."""
        try:
            yield
        finally:
            if self._lock.held:
                with suppress(OSError):
                    (self._folder / f"{self._file.artifact.key}.served").unlink(missing_ok=True)
            self.release()

    def release(self) -> None:
        self._lock.release(remove=True)

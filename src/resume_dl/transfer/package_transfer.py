"""Planned artifacts to files: downloaded and verified by the engine, unpacked beside it, put in place."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.extraction_folders import sweep
from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.conda.partial_adoption import Adopted, adopt_partial, remove_adopted
from resume_dl.caches.conda.publish import publish_entry
from resume_dl.caches.package_caches import Cache, CondaCache
from resume_dl.core.failures import FailureKind
from resume_dl.core.policy import DEFAULTS
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import IntegrityError, Interrupted, ResumeDLError, TransferError
from resume_dl.model.artifact import Artifact
from resume_dl.model.units import show_bytes
from resume_dl.ports import Reporter
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import staged_path
from resume_dl.transfer.plan import Planned, measured
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.unpacking import Extractor
from resume_dl.transfer.watched_engine import WatchedEngine

_NO_RANGES = {FailureKind.RANGE_IGNORED.value, FailureKind.RANGE_WRONG.value}
_JOURNAL_FROM = DEFAULTS.journal_from
"""A smaller file has no part file that could hold what conda had of it."""


class Transfer:
    """Brings artifacts into ``folder``: a package cache where ``in_cache``, else plain files.

    ``cache`` says which client's; conda's where it is not given. ``place`` says where in a folder each plain file
    goes; under its own name where it is not given.
    """

    def __init__(
        self,
        folder: Path,
        engine: WatchedEngine,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        in_cache: bool,
        offline: bool,
        cache: Cache | None = None,
        place: Callable[[Artifact], Path] | None = None,
    ) -> None:
        self._folder = folder
        self._cache = cache or CondaCache(folder)
        self._place = place or self._cache.place_of
        self._reporter = reporter
        self._engine = engine
        self._cancelled = cancelled
        self._in_cache = in_cache
        self._is_offline = offline

    def run(
        self,
        planned: Sequence[Planned],
        *,
        unpack: bool,
        thorough: Container[str] = (),
        worker: RattlerWorker | None = None,
    ) -> list[ArtifactResult]:
        """One result for each, in order; with ``unpack`` they become complete entries.

        ``worker``: see ``Extractor``. Closed if there is nothing to unpack; left open if no archive came.
        ``thorough``: keys of those whose record cannot be had any fresher (``Job.thorough``).
        """
        results = {
            each.artifact.key: ArtifactResult(each.artifact, "cached", each.path)
            for each in planned
            if each.state != "missing"
        }
        if self._is_offline:
            for each in planned:
                if each.state == "missing":
                    results[each.artifact.key] = _failed(each.artifact, _offline_error(each.artifact))
        if self._in_cache:
            sweep(self._folder)
        if worker is not None and not (unpack and any(each.state != "cached" for each in planned)):
            worker.release()  # what it keeps of the indexes is of no use during a long download
        extractor = Extractor(self._cache, cancelled=self._cancelled, worker=worker)
        for each in planned:
            if each.state == "packed" and unpack:
                extractor.submit(each.artifact)
            elif each.state == "packed":
                self._leave_packed(results[each.artifact.key])

        def done(outcome: Outcome) -> None:
            results[outcome.artifact.key] = self._settle(outcome, extractor if unpack else None)

        wanted = [each.artifact for each in planned if each.artifact.key not in results]
        jobs = [self._job(artifact, thorough=artifact.key in thorough) for artifact in wanted]
        for job in jobs:
            if job.artifact.digest is None:
                results[job.artifact.key] = _failed(job.artifact, _undigested(job.artifact))
        jobs = [job for job in jobs if job.artifact.digest is not None]
        adopted = self._adopt([job.artifact for job in jobs])
        self._engine.run(jobs, done)
        for unpacked in extractor.finish():
            if unpacked.error is not None:
                self._leave_waiting(results[unpacked.artifact.key], unpacked.error)
        for key, partial in adopted.items():
            if results[key].error is None or _is_dead_end(results[key]):
                remove_adopted(partial)
        return [results[each.artifact.key] for each in planned]

    def _adopt(self, artifacts: Sequence[Artifact]) -> dict[str, Adopted]:
        """Go on from what an interrupted conda has left of these, where it is worth a journal."""
        adopted: dict[str, Adopted] = {}
        for artifact in artifacts if self._in_cache else ():
            if (artifact.size is None or artifact.size >= _JOURNAL_FROM) and not self._cancelled():
                partial = adopt_partial(self._folder, artifact, cancelled=self._cancelled)
                if partial is not None:
                    adopted[artifact.key] = partial
                    if partial.count:
                        text = f"{artifact.filename}: goes on from the {show_bytes(partial.count)} that conda had"
                        self._reporter.message(text, level="info")
        return adopted

    def _job(self, artifact: Artifact, *, thorough: bool = False) -> Job:
        place = self._place(artifact)
        destination = staged_path(self._folder, artifact) if self._in_cache else place

        def is_published() -> bool:
            digest = artifact.digest
            return digest is not None and any(verify_file(each, digest, artifact.size) for each in (destination, place))

        return Job(artifact, PartStore(self._folder / FOLDER), destination, is_published, thorough=thorough)

    def _settle(self, outcome: Outcome, extractor: Extractor | None) -> ArtifactResult:
        artifact = outcome.artifact
        path = self._place(artifact)
        arrived = self._job(artifact).destination if outcome.error is None else None
        result = ArtifactResult.of(outcome, path)
        result.artifact = measured(artifact, arrived)
        if outcome.error is None and extractor is not None:
            extractor.submit(artifact)
        elif outcome.error is None and self._in_cache:
            self._leave_packed(result)
        return result

    def _leave_waiting(self, result: ArtifactResult, error: ResumeDLError) -> None:
        """A verified archive that could not be unpacked, or was not because the run was stopped."""
        interrupted = self._cancelled() and result.error is None
        result.error = _stopped(result.artifact) if interrupted else error
        result.status, result.path = "failed", None
        if isinstance(error, IntegrityError):
            return  # the next run fetches it again
        artifact = result.artifact
        for archive in (staged_path(self._folder, artifact), self._place(artifact)):
            if fs.is_regular(archive, artifact.size):
                result.path, result.waits = archive, True
                result.error.resumable_bytes = archive.stat().st_size
                return

    def _leave_packed(self, result: ArtifactResult) -> None:
        """``--no-extract``: the verified archive gets its name, and conda will unpack it."""
        staged = staged_path(self._folder, result.artifact)
        try:
            publish_entry(self._folder, result.artifact, archive=staged if staged.is_file() else None, extracted=None)
        except ResumeDLError as error:
            result.status, result.error = "failed", error
        result.path = self._folder / result.artifact.filename


def _is_dead_end(result: ArtifactResult) -> bool:
    """Whether a source refuses to go on in the middle: conda would ask it for just that, for ever (416 to any Range).

    What its ``.partial`` held is ours by now and is kept.
    """
    return any(_NO_RANGES & source.failures.keys() for source in result.sources)


def _failed(artifact: Artifact, error: ResumeDLError) -> ArtifactResult:
    return ArtifactResult(artifact, "failed", error=error)


def _stopped(artifact: Artifact) -> Interrupted:
    hint = "run the same command again: what is on disk is kept"
    return Interrupted(f"{artifact.title}: verified, stopped before it was unpacked", hint=hint)


def _offline_error(artifact: Artifact) -> ResumeDLError:
    return TransferError(f"{artifact.filename} is not here, and this is --offline", hint="run it without --offline")


def _undigested(artifact: Artifact) -> ResumeDLError:
    return IntegrityError(
        f"{artifact.filename} has no digest, so it cannot be verified and is not put into a package cache",
        hint="add #<md5> or #sha256:<sha256> to its line",
    )

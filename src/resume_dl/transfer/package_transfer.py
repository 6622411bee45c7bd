"""Transfer of planned packages: they are downloaded and verified while earlier ones are unpacked and published."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.extraction_folders import sweep
from resume_dl.caches.conda.lookup import is_package, verify_file
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
from resume_dl.transfer.extraction import Extractor
from resume_dl.transfer.plan import Planned, measured
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine

_NO_RANGES = {FailureKind.RANGE_IGNORED.value, FailureKind.RANGE_WRONG.value}
_JOURNAL_FROM = DEFAULTS.journal_from
"""Smaller files have no journal, so conda's bytes could not be kept across runs."""


class Transfer:
    """Downloads artifacts to ``folder``: a package cache if ``in_cache``, else a folder of plain files.

    ``cache``: the client's package cache; default conda's. ``place``: the path of each plain file; default its own
    name in ``folder``.
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
        """Download and publish; one result per artifact, in order. With ``unpack`` they become complete entries.

        ``worker``: see ``Extractor``. It is closed if there is nothing to unpack, and left open if no archive was
        downloaded. ``thorough``: keys of artifacts whose record is the newest available (``Job.thorough``).
        """
        results = {
            each.artifact.key: ArtifactResult(
                each.artifact, "cached", each.path if each.state == "cached" else self._goal(each.artifact)
            )
            for each in planned
            if each.state != "missing"
        }
        if self._is_offline:
            for each in planned:
                if each.state == "missing":
                    results[each.artifact.key] = _failed(each.artifact, _offline_error(each.artifact))
        if self._in_cache:
            sweep(self._folder)
            PartStore(self._folder / FOLDER).sweep_locks()
        if worker is not None and not (unpack and any(each.state != "cached" for each in planned)):
            worker.release()  # it would hold the memory of the indexes during a long download
        extractor = Extractor(self._cache, cancelled=self._cancelled, worker=worker)
        for each in planned:
            if each.state != "packed" or self._stays_staged(each.artifact):
                continue
            if unpack:
                extractor.submit(each.artifact)
            else:
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
        """Take over what an interrupted conda left of files that are large enough for a journal."""
        adopted: dict[str, Adopted] = {}
        for artifact in artifacts if self._in_cache else ():
            if (artifact.size is None or artifact.size >= _JOURNAL_FROM) and not self._cancelled():
                partial = adopt_partial(self._folder, artifact, cancelled=self._cancelled)
                if partial is not None:
                    adopted[artifact.key] = partial
                    if partial.count:
                        text = f"{artifact.filename}: resuming from {show_bytes(partial.count)} that conda downloaded"
                        self._reporter.message(text, level="info")
        return adopted

    def _stays_staged(self, artifact: Artifact) -> bool:
        """Whether conda's cache has no place for this form of package (a wheel), so that the caller hands it over."""
        return self._in_cache and not is_package(artifact.filename)

    def _goal(self, artifact: Artifact) -> Path:
        """The path at the end: a staged archive is published under its own name, by this process or another one."""
        return staged_path(self._folder, artifact) if self._stays_staged(artifact) else self._place(artifact)

    def _job(self, artifact: Artifact, *, thorough: bool = False) -> Job:
        place = self._place(artifact)
        destination = staged_path(self._folder, artifact) if self._in_cache else place

        def is_published() -> bool:
            if (digest := artifact.digest) is None:
                return False
            return any(verify_file(each, digest, artifact.size, self._cancelled) for each in (destination, place))

        return Job(artifact, PartStore(self._folder / FOLDER), destination, is_published, thorough=thorough)

    def _settle(self, outcome: Outcome, extractor: Extractor | None) -> ArtifactResult:
        artifact = outcome.artifact
        path = self._goal(artifact)
        arrived = self._job(artifact).destination if outcome.error is None else None
        result = ArtifactResult.of(outcome, path)
        result.artifact = measured(artifact, arrived)
        if outcome.error is not None or self._stays_staged(artifact):
            return result
        if extractor is not None:
            extractor.submit(artifact)
        elif self._in_cache:
            self._leave_packed(result)
        return result

    def _leave_waiting(self, result: ArtifactResult, error: ResumeDLError) -> None:
        """Record that a verified archive was not unpacked, because of ``error`` or because the run was stopped."""
        interrupted = self._cancelled() and result.error is None
        result.error = _stopped(result.artifact) if interrupted else error
        result.status, result.path = "failed", None
        if isinstance(error, IntegrityError):
            return  # the next run downloads it again
        artifact = result.artifact
        for archive in (staged_path(self._folder, artifact), self._place(artifact)):
            if fs.is_regular(archive, artifact.size):
                result.path, result.is_still_packed = archive, True
                result.error.resumable_bytes = archive.stat().st_size
                return

    def _leave_packed(self, result: ArtifactResult) -> None:
        """Publish the verified archive packed (``--no-extract``); conda will unpack it."""
        staged = staged_path(self._folder, result.artifact)
        try:
            publish_entry(self._folder, result.artifact, archive=staged if staged.is_file() else None, extracted=None)
        except ResumeDLError as error:
            result.status, result.error = "failed", error
        result.path = self._folder / result.artifact.filename


def _is_dead_end(result: ArtifactResult) -> bool:
    """Whether a source does not serve ranges: conda would get 416 for its ``.partial`` in every later run.

    The bytes of the ``.partial`` are in our part file by then, and are kept.
    """
    return any(_NO_RANGES & source.failures.keys() for source in result.sources)


def _failed(artifact: Artifact, error: ResumeDLError) -> ArtifactResult:
    return ArtifactResult(artifact, "failed", error=error)


def _stopped(artifact: Artifact) -> Interrupted:
    hint = "run the same command again: what is on disk is kept"
    return Interrupted(f"{artifact.title}: verified, stopped before it was unpacked", hint=hint)


def _offline_error(artifact: Artifact) -> ResumeDLError:
    why = "is not on disk, and --offline forbids downloads"
    return TransferError(f"{artifact.filename} {why}", hint="run it without --offline")


def _undigested(artifact: Artifact) -> ResumeDLError:
    return IntegrityError(
        f"{artifact.filename} has no digest, so it cannot be verified and is not put into a package cache",
        hint="append #<md5> or #sha256:<sha256> to its line",
    )

"""The destination of ``get``: files at paths that the user chose."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from resume_dl.engine.job import Job
from resume_dl.errors import NotWritableError, TransferError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import PlannedFile
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.transfer.plan import Planned, Space, measured, plan_folder, planned_files, space_for
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine

_OPTIONS = "-o"

_Identity = tuple[int, int, int, int]


class SingleFiles:
    """Downloads each artifact to its path in ``paths`` (by key). Without ``force`` no other file is overwritten."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        *,
        force: bool,
        offline: bool,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._paths = paths
        self._force = force
        self._offline = offline
        self._cancelled = cancelled
        self._others: dict[str, _Identity | None] = {}
        """By key: an existing file with another digest, which need not be hashed again while it is unchanged."""

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Hash existing files, each once. Raises NotWritableError for a file that would be overwritten."""
        del touch  # nothing is copied from elsewhere
        planned = []
        for artifact in artifacts:
            path = self._paths[artifact.key]
            self._others[artifact.key] = _identity(path)
            (found,) = plan_folder([artifact], path.parent, cancelled=self._cancelled)
            if found.state != "cached" and path.exists() and not self._force:
                why = "with another digest" if artifact.digest else "and no digest is given to compare it with"
                hint = "name another file with -o, or overwrite it with --force"
                raise NotWritableError(f"{path} exists already, {why}", hint=hint)
            planned.append(found)
        return planned

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """Compute the space needed in each folder."""
        return [
            space_for(there, folder, unpack=False, options=_OPTIONS)
            for folder, there in self._by_folder(planned).items()
        ]

    def files(self, planned: Sequence[Planned]) -> list[PlannedFile]:
        """Return the planned files, in the order of ``planned``."""
        found = [planned_files(there, folder) for folder, there in self._by_folder(planned).items()]
        by_key = {file.artifact.key: file for files in found for file in files}
        return [by_key[each.artifact.key] for each in planned]

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """Download; one result per artifact, in order. Raises TransferError if a file is missing with ``--offline``."""
        missing = [each.artifact for each in planned if each.state != "cached"]
        if missing and self._offline:
            raise TransferError("--offline forbids downloads", hint="run it without --offline")
        results = {
            each.artifact.key: ArtifactResult(each.artifact, "cached", each.path)
            for each in planned
            if each.state == "cached"
        }
        for outcome in engine.run([self._job(artifact, thorough=artifact.key in thorough) for artifact in missing]):
            path = self._paths[outcome.artifact.key]
            result = ArtifactResult.of(outcome, path)
            if result.error is None:
                result.artifact = measured(result.artifact, path)
            results[outcome.artifact.key] = result
        for folder in {self._paths[each.artifact.key].parent / FOLDER for each in planned}:
            with suppress(OSError):  # not empty: something is unfinished there
                folder.rmdir()
        return [results[each.artifact.key] for each in planned]

    def _job(self, artifact: Artifact, *, thorough: bool) -> Job:
        path = self._paths[artifact.key]
        other = self._others[artifact.key]

        def is_published() -> bool:
            if _identity(path) == other:
                return False
            return plan_folder([artifact], path.parent, cancelled=self._cancelled)[0].state == "cached"

        def check_size(size: int) -> None:
            self.spaces([Planned(replace(artifact, size=size), "missing")])[0].check()

        store = PartStore(path.parent / FOLDER)
        return Job(artifact, store, path, is_published, thorough=thorough, check_size=check_size)

    def _by_folder(self, planned: Sequence[Planned]) -> dict[Path, list[Planned]]:
        folders: dict[Path, list[Planned]] = {}
        for each in planned:
            folders.setdefault(self._paths[each.artifact.key].parent, []).append(each)
        return folders


def _identity(path: Path) -> _Identity | None:
    """Return device, inode, size and mtime, which change if a file is replaced or written; None if it is missing."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

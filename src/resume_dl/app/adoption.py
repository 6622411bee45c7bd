"""``adopt``: files that a browser or a download manager has fetched become packages in the places of ``fetch``.

    files -> what their names and contents say -> records in the indexes -> a digest that matches, or a start
             model/download_name, caches/archive_identity   resolution/listed_*     transfer/adopted_files

A whole file, of a digest that an index states, is copied, verified and published as after a download. An unfinished or
damaged one becomes a part file, from which ``fetch`` goes on, or this run itself where there is no ``fetch``. The files
themselves are only read.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from resume_dl.app.fetch import FetchRequest, package_destination
from resume_dl.app.pipeline import Batch, run
from resume_dl.caches.archive_identity import Identity, identity
from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.downloads import Download, Refused, find_downloads
from resume_dl.errors import (
    ChannelUnavailableError,
    IntegrityError,
    Interrupted,
    PackageNotFoundError,
    ResumeDLError,
    StoreError,
)
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.model.artifact import Artifact
from resume_dl.model.download_name import normalized_project, shown_names
from resume_dl.model.url import scrub
from resume_dl.ports import Reporter
from resume_dl.resolution.conda_resolution import Resolver
from resume_dl.resolution.listed_packages import listed_packages, package_of
from resume_dl.resolution.listed_wheels import index_access, listed_wheels
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.shell_commands import Step
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.pins import Pins
from resume_dl.store.staged import staged_path
from resume_dl.store.unfinished_runs import UnfinishedFile, UnfinishedNotes, UnfinishedRun, environment_of
from resume_dl.transfer.adopted_files import artifact_of, file_label, opened, take_start, take_whole
from resume_dl.transfer.adoption_result import AdoptedFile, AdoptResult
from resume_dl.transfer.destination import Destination, check_folder
from resume_dl.transfer.package_destination import PackageDestination
from resume_dl.transfer.plan import Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import EngineAccess, Setup
from resume_dl.transfer.wheel_destination import WheelDestination
from resume_dl.transfer.wheel_transfer import WheelDir

__all__ = ["AdoptResult", "AdoptedFile", "adopt"]


def adopt(
    paths: Sequence[Path],
    request: FetchRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    worker: RattlerWorker | None = None,
    options: Sequence[str] = (),
    finishes: bool = False,
) -> AdoptResult:
    """Adopt files, and what is of use in folders. Errors of single files are in the result, others are raised.

    ``request``: channels, indexes, platforms and destinations, as of ``fetch``; ``options``: the words that give them,
    for the command that continues; ``finishes``: download what is missing instead of naming that command. ``worker`` is
    closed here.
    """
    started = time.monotonic()
    result = AdoptResult("adopt")
    with worker or RattlerWorker() as solver:
        adoption = _Adoption(request, setup, reporter, cancelled, worker=solver, options=options, finishes=finishes)
        adoption.run(paths, result)
    result.elapsed = time.monotonic() - started
    return result


class _Publish(Batch):
    """Packages whose archives are staged, or in their folder, are published without a download; others are finished."""

    def __init__(
        self,
        artifacts: Sequence[Artifact],
        destination: Destination,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        access: EngineAccess | None = None,
    ) -> None:
        super().__init__(setup, reporter, cancelled)
        self.destination = destination
        self._artifacts, self._access = artifacts, access

    @property
    def access(self) -> EngineAccess | None:
        return self._access

    def resolve(self) -> Wanted:
        return Wanted(self._artifacts)

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        del result
        for each in done:
            each.status = "adopted" if each.status == "cached" else each.status


@dataclass(slots=True)
class _Candidate:
    """A file, and what its name and its content say."""

    file: AdoptedFile
    download: Download
    identity: Identity | None

    @property
    def filenames(self) -> list[str]:
        said = self.identity.filename if self.identity is not None else ""
        return [name for name in dict.fromkeys((*self.download.name.names, said)) if name]

    @property
    def projects(self) -> set[str]:
        """The normalized names of the projects that it may be a wheel of."""
        said = self.identity.project if self.identity is not None else ""
        every = (normalized_project(name) for name in (self.download.name.project, said))
        return {name for name in every if name}


class _Adoption:
    """One run."""

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        worker: RattlerWorker,
        options: Sequence[str],
        finishes: bool,
    ) -> None:
        self._request, self._setup, self._reporter = request, setup, reporter
        self._cancelled, self._worker, self._options, self._finishes = cancelled, worker, options, finishes
        self._unavailable: list[ResumeDLError] = []
        """Why the packages or the wheels could not be looked up."""

    @cached_property
    def _packages(self) -> PackageDestination:
        return package_destination(self._request, self._setup, self._reporter, self._cancelled, self._worker)

    @cached_property
    def _wheels(self) -> Path:
        request = self._request
        return check_folder(request.pip.wheel_dir or request.dest or self._setup.paths.wheels, "--wheel-dir")

    def run(self, paths: Sequence[Path], result: AdoptResult) -> None:
        candidates = []
        for each in find_downloads(paths):
            if isinstance(each, Refused):
                result.files.append(AdoptedFile(each.path, error=each.error))
                continue
            file = AdoptedFile(each.path)
            result.files.append(file)
            try:
                with opened(each.path) as fd:
                    candidates.append(_Candidate(file, each, identity(fd)))
            except ResumeDLError as error:
                file.error = error
        listed = self._look_up(candidates, result)
        for candidate in candidates:
            try:
                self._take(candidate, listed)
            except Interrupted:
                self._conclude(result)
                raise
            except ResumeDLError as error:
                is_of_all = error in self._unavailable
                candidate.file.error = error if is_of_all else _about(candidate.file.path, error)
            except OSError as error:
                candidate.file.error = StoreError(
                    f"{candidate.file.path}: {error.strerror or error}", hint="check this file and its permissions"
                )
        self._publish(result)
        self._conclude(result)

    # ------------------------------------------------------------------ what the indexes say

    def _look_up(self, candidates: Sequence[_Candidate], result: AdoptResult) -> list[Artifact]:
        """Return the records of the packages that the candidates may be."""
        filenames = {name for each in candidates for name in each.filenames if package_of(name)}
        projects = {name for each in candidates for name in each.projects}
        listed: list[Artifact] = []
        with self._one_of_both(is_alone=not (filenames and projects)):
            listed += self._listed_packages(filenames, result)
        with self._one_of_both(is_alone=not (filenames and projects)):
            listed += self._listed_wheels(projects, result)
        return listed

    @contextmanager
    def _one_of_both(self, *, is_alone: bool) -> Iterator[None]:
        """Of channels and package indexes one may be unavailable: the files that the other lists are adopted."""
        try:
            yield
        except ChannelUnavailableError as error:
            if is_alone:
                raise
            self._unavailable.append(error)

    def _listed_packages(self, filenames: set[str], result: AdoptResult) -> list[Artifact]:
        listed: list[Artifact] = []
        if filenames:
            self._reporter.message("looking the packages up in the channels' indexes", level="info")
            batch = _Publish((), self._packages, self._setup, self._reporter, self._cancelled)
            try:
                resolver = Resolver(
                    self._request, self._setup, self._reporter, batch.engine, self._worker, cancelled=self._cancelled
                )
                try:
                    found = listed_packages(filenames, self._request, self._setup, resolver)
                    listed += [artifact for each in found.values() for artifact in each]
                finally:
                    resolver.close()
                result.indexes, result.index_bytes = resolver.indexes.report, resolver.indexes.downloaded
            finally:
                batch.close()
        return listed

    def _listed_wheels(self, projects: set[str], result: AdoptResult) -> list[Artifact]:
        listed: list[Artifact] = []
        if projects:
            self._reporter.message("looking the wheels up in the package indexes", level="info")
            notes = IndexNotes(lambda text, level: self._reporter.message(text, level=level))
            indexes = self._request.pip.indexes
            listed += listed_wheels(
                projects, indexes, self._setup, self._reporter, notes=notes, cancelled=self._cancelled
            )
            result.indexes = (*result.indexes, *notes.reports)
            result.index_bytes += notes.new_bytes()
        return listed

    def _take(self, candidate: _Candidate, listed: Sequence[Artifact]) -> None:
        """Find out which package a file is, and take it."""
        file, path = candidate.file, candidate.file.path
        names, projects = candidate.filenames, candidate.projects
        if not names and not projects:
            what = "neither its name nor its content says which package it is"
            hint = "give it the package's name, as the index has it, and run the same command again"
            raise PackageNotFoundError(f"{path}: {what}", hint=hint)
        named = [each for name in names for each in listed if each.filename == name]
        others = [each for each in listed if each.kind == "wheel" and each.name in projects and each not in named]
        if not named and not others:
            if self._unavailable:
                raise self._unavailable[0]
            hint = "name its channel with -c, its platform with --platform, or its package index with --index-url"
            raise PackageNotFoundError(f"{path}: no index lists {shown_names(names, projects)}", hint=hint)
        with opened(path) as fd:
            size = os.fstat(fd).st_size
            whole = artifact_of(fd, [*named, *others], self._cancelled)
            if whole is not None:
                self._take_whole(fd, file, whole)
                return
            able = [each for each in named if each.digest is not None]
            if not able:
                raise self._no_start(path, named, candidate)
            fits = [each for each in able if each.size is None or each.size >= size]
            self._take_start(fd, file, (fits or able)[0])

    def _no_start(self, path: Path, named: Sequence[Artifact], candidate: _Candidate) -> ResumeDLError:
        if named:
            why = f"no index states the digest of {named[0].filename}"
            return IntegrityError(f"{path}: {why}", hint="resume-dl fetch verifies such a wheel by its RECORD")
        what = ", ".join(sorted(candidate.projects))
        hint = "if it is unfinished or damaged, give it the wheel's name, as the index has it"
        return PackageNotFoundError(f"{path}: no index lists a wheel of {what} with its digest", hint=hint)

    # ------------------------------------------------------------------ taking

    def _store(self, artifact: Artifact) -> PartStore:
        folder = self._wheels if artifact.kind == "wheel" else self._packages.folder
        return PartStore(folder / FOLDER)

    def _goal(self, artifact: Artifact) -> Path:
        if artifact.kind == "wheel":
            return self._wheels / artifact.filename
        packages = self._packages
        return staged_path(packages.folder, artifact) if packages.in_cache else packages.folder / artifact.filename

    def _is_here(self, artifact: Artifact, *, packed: bool = False) -> bool:
        """Whether its destination has it; with ``packed`` the archive is enough where packages stay packed."""
        if artifact.kind != "wheel":
            packages = self._packages
            (planned,) = packages.plan([artifact], touch=False)
            is_left = packed and not packages.unpack and planned.path == packages.folder / artifact.filename
            return planned.state == "cached" or is_left
        digest = artifact.digest
        return digest is not None and verify_file(self._goal(artifact), digest, artifact.size, self._cancelled)

    def _take_whole(self, fd: int, file: AdoptedFile, artifact: Artifact) -> None:
        file.artifact, file.is_whole, file.bytes = artifact, True, os.fstat(fd).st_size
        if self._is_here(artifact):
            file.status = "here"
        elif self._request.dry_run:
            file.status = "planned"
        else:
            self._reporter.message(f"copying {artifact.filename} from {file.path}", level="info")
            goal, store = self._goal(artifact), self._store(artifact)
            take_whole(fd, artifact, store, goal, label=file_label(fd, file.path), cancelled=self._cancelled)
            file.status = "adopted"

    def _take_start(self, fd: int, file: AdoptedFile, artifact: Artifact) -> None:
        file.artifact = artifact
        if self._is_here(artifact, packed=True):
            file.status = "here"
            return
        store = None if self._request.dry_run else self._store(artifact)
        taken = take_start(fd, artifact, store, label=file_label(fd, file.path), cancelled=self._cancelled)
        file.bytes = taken.bytes
        file.status = "planned" if store is None else "started" if taken.new else "here"

    # ------------------------------------------------------------------ the end

    def _publish(self, result: AdoptResult) -> None:
        """Publish the packages that were copied whole, finish the others if that is wanted, and report all."""
        whole = result.adopted()
        taken = [
            (each, each.artifact)
            for each in result.files
            if each.artifact is not None
            and (each.status == "adopted" if each.artifact.key in whole else self._is_to_finish(each, each.artifact))
        ]
        of = {artifact.key: artifact for _, artifact in taken}
        packages = [artifact for artifact in of.values() if artifact.kind == "conda"]
        wheels = [artifact for artifact in of.values() if artifact.kind == "wheel" and artifact.key not in whole]
        common = self._setup, self._reporter, self._cancelled
        batches = [_Publish(packages, self._packages, *common)] if packages else []
        if wheels:
            access = index_access(self._request.pip.indexes, self._setup)
            batches.append(_Publish(wheels, self._wheel_dir(), *common, access=access))
        run(batches, result)
        for done in result.artifacts:
            for file, artifact in taken:
                if artifact.key == done.artifact.key:
                    failed = "failed" if file.is_whole else "started"
                    file.status, file.error = ("adopted", None) if done.error is None else (failed, done.error)
        for artifact in of.values():
            if artifact.kind == "wheel" and artifact.key in whole:
                result.artifacts.append(ArtifactResult(artifact, "adopted", self._goal(artifact)))

    def _is_to_finish(self, file: AdoptedFile, artifact: Artifact) -> bool:
        """Whether to download what a file lacks, also if an earlier run has taken what it has."""
        begun = file.status in {"started", "here"} and not file.is_whole
        return self._finishes and begun and not self._request.dry_run and not self._is_here(artifact, packed=True)

    def _wheel_dir(self) -> WheelDestination:
        setup = self._setup
        wheels = WheelDir(self._wheels, Pins(setup.paths.pins), self._reporter, cancelled=self._cancelled)
        offline = setup.options.offline or setup.conda.offline
        return WheelDestination(wheels, near=(), offline=offline, pack=False, options="--wheel-dir")

    def _conclude(self, result: AdoptResult) -> None:
        """Note the unfinished files for ``status`` and ``resume``, and name the command that continues them."""
        begun = result.unfinished()
        if self._finishes or not begun:
            return
        words = ["resume-dl", "fetch", *self._options]
        packages = [f"{one.name}={one.version}={one.build}" for one in begun if one.kind == "conda"]
        for one in begun:
            words += ["--pip", f"{one.name}=={one.version}"] if one.kind == "wheel" else []
        words += ["--no-deps", *packages]
        result.next_steps = (Step(tuple(scrub(word) for word in words)),)
        notes = UnfinishedNotes(self._setup.paths.unfinished)
        for folder in {self._store(one).folder for one in begun}:
            files = {
                one.key: UnfinishedFile(one.title, str(one.url), one.size)
                for one in begun
                if self._store(one).folder == folder
            }
            command = tuple(result.next_steps[0].words)
            notes.add(UnfinishedRun(folder, command, Path.cwd(), files, environment_of(self._setup.env)))


def _about(path: Path, error: ResumeDLError) -> ResumeDLError:
    """Return the error with the file's path in its message."""
    if str(path) not in error.message:
        error.message = f"{path}: {error.message}"
    return error

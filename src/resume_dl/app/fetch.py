"""The main job: specs to artifacts, artifacts to verified files, files into conda's package cache."""

from __future__ import annotations

import hashlib
import os
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.app.extract import Extractor, staged_path
from resume_dl.app.plan import Planned, plan_cache, plan_folder, space_for
from resume_dl.app.repodata import RepodataFetcher
from resume_dl.app.report import ArtifactResult, RunResult
from resume_dl.app.setup import Setup, engine_for
from resume_dl.engine.engine import Engine
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import (
    ConfigurationError,
    IntegrityError,
    Interrupted,
    NotWritableError,
    PackageNotFoundError,
    ResumeDLError,
)
from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import Channel
from resume_dl.ports import Reporter
from resume_dl.resolve.conda_solver import solve_with_conda
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.explicit import is_explicit, parse_explicit, write_explicit
from resume_dl.resolve.installed import Installed, read_installed
from resume_dl.resolve.request import RepodataFile, Solution, SolveRequest
from resume_dl.resolve.solve import check_specs, solve
from resume_dl.resolve.specs import channels_of_specs
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.channels import expand_channels, requested_channels
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.pkgs_dirs import check_pkgs_dir, first_writable_pkgs_dir
from resume_dl.store.condacache import publish_entry, sweep, verify_file
from resume_dl.store.part import FOLDER, PartStore


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What ``resume-dl fetch`` was asked for; names as its options'."""

    specs: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    channels: tuple[str, ...] = ()
    override_channels: bool = False
    platforms: tuple[str, ...] = ()
    no_deps: bool = False
    only_deps: bool = False
    virtual_packages: tuple[str, ...] = ()
    cuda: str | None = None
    channel_priority: str | None = None
    prefix: Path | None = None
    name: str | None = None
    solver: str = "rattler"
    pkgs_dir: Path | None = None
    dest: Path | None = None
    extract: bool = True
    dry_run: bool = False
    lock: Path | None = None


def fetch(
    request: FetchRequest, setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool] = lambda: False
) -> RunResult:
    """Resolve, download, verify, publish. Errors of single artifacts stand in the result, others are raised."""
    started = time.monotonic()
    with engine_for(setup, reporter, cancelled) as engine:
        result = _Fetch(request, setup, reporter, engine, cancelled).run()
    result.elapsed = time.monotonic() - started
    return result


class _Fetch:
    """One run of ``fetch``."""

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        engine: Engine,
        cancelled: Callable[[], bool],
    ) -> None:
        self.request = request
        self.setup = setup
        self.reporter = reporter
        self.engine = engine
        self.cancelled = cancelled
        self.told: set[str] = set()
        self.folder, self.in_cache = self._destination()
        self.repodata = RepodataFetcher(
            engine, setup.places, setup.paths.cache / "repodata", reporter, offline=self._offline
        )

    @property
    def _offline(self) -> bool:
        return self.setup.options.offline or self.setup.conda.offline

    def run(self) -> RunResult:
        """Resolve, then fetch; once more with fresher repodata where archives are nowhere to be had."""
        solutions, explicit = self._resolve(fresh=False)
        result = self._transfer(solutions, explicit)
        if any(self._is_stale(each) for each in result.artifacts) and not self._offline and solutions:
            self.reporter.message("asking the other mirrors for a newer index", level="info")
            newer, _ = self._resolve(fresh=True)
            if self._all_artifacts(newer, explicit) != self._all_artifacts(solutions, explicit):
                solutions = newer
                result = self._transfer(solutions, explicit)
        return self._conclude(result, solutions, explicit)

    # ------------------------------------------------------------------ resolve

    def _resolve(self, *, fresh: bool) -> tuple[list[tuple[str, Solution]], tuple[Artifact, ...]]:
        specs, channels, explicit = list(self.request.specs), list(self.request.channels), list[Artifact]()
        for path in self.request.files:
            self._read_file(path, specs, channels, explicit)
        if not specs and not explicit:
            raise ConfigurationError("nothing to fetch", hint="name a package, as in: resume-dl fetch pytorch=1.7")
        platforms = self._platforms()
        if not specs:
            return [], tuple(explicit)
        names = requested_channels(channels, self.setup.conda, override=self.request.override_channels)
        names = tuple(dict.fromkeys((*names, *channels_of_specs(tuple(specs)))))
        solutions = []
        with RattlerWorker() as worker:
            check_specs(specs, worker)
            for platform in platforms:
                expanded = expand_channels(names, self.setup.conda, self.setup.table, subdirs=(platform,))
                self._name_retired(expanded)
                request = self._solve_request(specs, expanded, platform)
                solutions.append((platform, self._solve(request, worker, fresh=fresh)))
        for _, solution in solutions:
            for note in solution.notes:
                self.reporter.message(note, level="info")
        return solutions, tuple(explicit)

    def _name_retired(self, channels: Sequence[Channel]) -> None:
        """Tell a user whose condarc names a mirror that is gone; its channels are served by the others."""
        gone = {mirror.name: mirror for c in channels if (mirror := self.setup.table.retired(c.client_base.reveal()))}
        for mirror in gone.values():
            if mirror.name not in self.told:
                self.told.add(mirror.name)
                text = f"your conda settings name {mirror.title or mirror.name}, which is retired: {mirror.note}"
                self.reporter.message(text.rstrip(": "), level="warning")

    def _read_file(self, path: Path, specs: list[str], channels: list[str], explicit: list[Artifact]) -> None:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"cannot read {path}: {error}", hint="name a text file that is there") from error
        if is_explicit(text):
            explicit += parse_explicit(text, canonical=self.setup.table.canonical, where=str(path))
        elif path.suffix in {".yml", ".yaml"} and path.name != "conda-lock.yml":
            environment = read_environment_file(path)
            specs += environment.specs
            channels += [name for name in environment.channels if name not in channels]
            if environment.pip:
                self.reporter.message(f"{path}: its pip part is left out", level="warning")
        else:
            raise ConfigurationError(
                f"{path} is neither an environment.yml nor an @EXPLICIT list", hint="other files cannot be read yet"
            )

    def _solve_request(self, specs: Sequence[str], channels: tuple[Channel, ...], platform: str) -> SolveRequest:
        conda = self.setup.conda
        prefix = self._prefix()
        installed = Installed() if prefix is None else read_installed(prefix)
        return SolveRequest(
            specs=tuple(specs),
            channels=channels,
            platform=platform,
            channel_priority=self.request.channel_priority or conda.channel_priority,
            virtual_packages=self.request.virtual_packages,
            cuda=self.request.cuda,
            pinned=conda.pinned_packages,
            add_pip=conda.add_pip_as_python_dependency,
            use_only_tar_bz2=conda.use_only_tar_bz2,
            installed=installed,
            aggressive_updates=conda.aggressive_update_packages,
            default_packages=conda.create_default_packages,
            no_deps=self.request.no_deps,
            only_deps=self.request.only_deps,
        )

    def _prefix(self) -> Path | None:
        if self.request.prefix is not None:
            return self.request.prefix
        if self.request.name is None:
            return None
        if self.request.name == "base" and self.setup.conda.root_prefix is not None:
            return self.setup.conda.root_prefix
        places = [folder / self.request.name for folder in self.setup.conda.envs_dirs]
        return next((place for place in places if place.is_dir()), places[0] if places else None)

    def _solve(self, request: SolveRequest, worker: RattlerWorker, *, fresh: bool) -> Solution:
        if self.request.solver == "conda":
            if not self.setup.conda.conda_command:
                raise ConfigurationError(
                    "--solver conda needs a conda, and none was found", hint="set RESUME_DL_CONDA, or leave it out"
                )
            return solve_with_conda(
                self.setup.conda.conda_command,
                request,
                prefix=self._prefix(),
                pkgs_dirs=self.setup.conda.pkgs_dirs,
                canonical=self.setup.table.canonical,
                offline=self._offline,
                env=self.setup.env,
            )
        files = self._indexes(request)
        if fresh:
            files = self.repodata.fresher(files)
        try:
            return solve(request, files, worker, env=self.setup.env)
        except PackageNotFoundError:
            # perhaps only this mirror's copy lacks it
            newer = self.repodata.fresher(files)
            if newer == files:
                raise
            return solve(request, newer, worker, env=self.setup.env)

    def _indexes(self, request: SolveRequest) -> list[RepodataFile]:
        subdirs = dict.fromkeys((request.platform, "noarch"))
        self.reporter.message(f"reading the index of {', '.join(c.name for c in request.channels)}", level="info")
        return self.repodata.fetch([(channel, subdir) for channel in request.channels for subdir in subdirs])

    # ------------------------------------------------------------------ transfer

    def _destination(self) -> tuple[Path, bool]:
        """Where finished files go, and whether that is a package cache; refused before anything is downloaded."""
        if self.request.dest is not None:
            folder = self.request.dest.absolute()
            place = folder
            while not place.exists() and place != place.parent:
                place = place.parent
            if not place.is_dir() or not os.access(place, os.W_OK):
                raise NotWritableError(f"{folder} cannot be written", hint="choose another folder with --dest")
            return folder, False
        create = not self.request.dry_run
        if self.request.pkgs_dir is not None:
            return check_pkgs_dir(self.request.pkgs_dir.absolute(), create=create), True
        return first_writable_pkgs_dir(self.setup.conda, create=create), True

    def _all_artifacts(
        self, solutions: Sequence[tuple[str, Solution]], explicit: tuple[Artifact, ...]
    ) -> dict[str, Artifact]:
        every = [artifact for _, solution in solutions for artifact in solution.artifacts] + list(explicit)
        places = self.setup.places
        _check_names(every)
        return {artifact.key: changed(artifact, sources=places.of(artifact.url)) for artifact in every}

    def _transfer(self, solutions: Sequence[tuple[str, Solution]], explicit: tuple[Artifact, ...]) -> RunResult:
        artifacts = list(self._all_artifacts(solutions, explicit).values())
        unpack = self.in_cache and self.request.extract
        if self.in_cache:
            others = [folder for folder in self.setup.conda.pkgs_dirs if folder != self.folder]
            if self.request.pkgs_dir is not None:
                others = []
            planned = plan_cache(artifacts, self.folder, others, touch=not self.request.dry_run)
        else:
            planned = plan_folder(artifacts, self.folder)
        space = space_for(planned, self.folder, unpack=unpack)
        self.reporter.message(f"{self.folder}: {space.describe()}", level="info")
        total = sum(artifact.size or 0 for artifact in artifacts)
        self.reporter.plan(artifacts, total, total - space.download)
        notes = tuple(note for _, solution in solutions for note in solution.notes)
        result = RunResult("fetch", notes=notes)
        if self.request.dry_run:
            result.artifacts = [
                ArtifactResult(each.artifact, "cached" if each.state == "cached" else "planned", each.path)
                for each in planned
            ]
            return result
        space.check(self.folder)
        result.artifacts = self._download(planned, unpack=unpack)
        return result

    def _download(self, planned: Sequence[Planned], *, unpack: bool) -> list[ArtifactResult]:
        results = {
            each.artifact.key: ArtifactResult(each.artifact, "cached", each.path)
            for each in planned
            if each.state != "missing"
        }
        if self._offline:
            for each in planned:
                if each.state == "missing":
                    results[each.artifact.key] = _failed(each.artifact, _offline_error(each.artifact))
        if self.in_cache:
            sweep(self.folder)
        extractor = Extractor(self.folder, cancelled=self.cancelled)
        for each in planned:
            if each.state == "packed" and unpack:
                extractor.submit(each.artifact)
            elif each.state == "packed":
                self._leave_packed(results[each.artifact.key])

        def done(outcome: Outcome) -> None:
            results[outcome.artifact.key] = self._settle(outcome, extractor if unpack else None)

        jobs = [self._job(each.artifact) for each in planned if each.artifact.key not in results]
        for job in jobs:
            if job.artifact.digest is None:
                results[job.artifact.key] = _failed(job.artifact, _undigested(job.artifact))
        self.engine.run([job for job in jobs if job.artifact.digest is not None], done)
        if unpack:
            self.reporter.message("unpacking", level="debug")
        for unpacked in extractor.finish():
            if unpacked.error is not None:
                result = results[unpacked.artifact.key]
                interrupted = self.cancelled() and result.error is None
                result.error = Interrupted("stopped before all was unpacked") if interrupted else unpacked.error
                result.status = "failed"
        return [results[each.artifact.key] for each in planned]

    def _job(self, artifact: Artifact) -> Job:
        destination = staged_path(self.folder, artifact) if self.in_cache else self.folder / artifact.filename

        def is_published() -> bool:
            digest = artifact.digest
            places = (destination, self.folder / artifact.filename)
            return digest is not None and any(verify_file(place, digest, artifact.size) for place in places)

        return Job(artifact, PartStore(self.folder / FOLDER), destination, is_published)

    def _settle(self, outcome: Outcome, extractor: Extractor | None) -> ArtifactResult:
        artifact = outcome.artifact
        path = self.folder / artifact.filename
        result = ArtifactResult(
            artifact,
            outcome.status,
            path if outcome.error is None else None,
            downloaded=outcome.downloaded,
            resumed=outcome.resumed,
            wasted=outcome.wasted,
            sources=outcome.sources,
            error=outcome.error,
        )
        if outcome.error is None and extractor is not None:
            extractor.submit(artifact)
        elif outcome.error is None and self.in_cache:
            self._leave_packed(result)
        return result

    def _leave_packed(self, result: ArtifactResult) -> None:
        """``--no-extract``: the verified archive gets its name, and conda will unpack it."""
        staged = staged_path(self.folder, result.artifact)
        try:
            publish_entry(self.folder, result.artifact, archive=staged if staged.is_file() else None, extracted=None)
        except ResumeDLError as error:
            result.status, result.error = "failed", error
        result.path = self.folder / result.artifact.filename

    @staticmethod
    def _is_stale(result: ArtifactResult) -> bool:
        return isinstance(result.error, IntegrityError) or (
            result.error is not None
            and bool(result.sources)
            and all("lacks the file" in source.failures for source in result.sources)
        )

    # ------------------------------------------------------------------ the end

    def _conclude(
        self, result: RunResult, solutions: Sequence[tuple[str, Solution]], explicit: tuple[Artifact, ...]
    ) -> RunResult:
        artifacts = tuple(artifact for _, solution in solutions for artifact in solution.artifacts) + explicit
        if result.exit_code != 0 or not artifacts:
            if result.exit_code == 0:
                self.reporter.message("nothing to fetch: all of it is installed", level="info")
            return result
        if len(solutions) > 1:
            return result  # a list, and the command that takes it, is for one platform
        lock, files = self.request.lock, self.request.files
        if lock is None and not solutions and len(files) == 1:
            lock = files[0]
        else:
            platform = solutions[0][0] if solutions else self._platforms()[0]
            text = write_explicit(artifacts, platform=platform)
            if lock is None and self.in_cache and not self.request.dry_run:
                name = hashlib.sha256(text.encode()).hexdigest()[:12]
                lock = self.setup.paths.state / "explicit" / f"{platform}-{name}.txt"
            if lock is not None:
                try:
                    lock.parent.mkdir(parents=True, exist_ok=True)
                    lock.write_text(text, encoding="utf-8")
                except OSError as error:
                    result.error = NotWritableError(
                        f"{lock} cannot be written: {error.strerror}", hint="choose another file with --lock"
                    )
                    return result
        if lock is not None and self.in_cache:
            result.next_command = self._conda_command(lock)
        return result

    def _platforms(self) -> tuple[str, ...]:
        return self.request.platforms or (self.setup.conda.subdir or native_subdir(),)

    def _conda_command(self, lock: Path) -> str:
        """The command that links exactly these files; no solve, so nothing else can be chosen."""
        prefix = self._prefix()
        exists = prefix is not None and (prefix / "conda-meta").is_dir()
        where = (
            f"--prefix {_quoted(prefix)}" if self.request.prefix and prefix else f"--name {self.request.name or 'NAME'}"
        )
        settings = "" if self.request.pkgs_dir is None else f"CONDA_PKGS_DIRS={_quoted(self.folder)} "
        if self._platforms()[0] != (self.setup.conda.subdir or native_subdir()):
            settings += f"CONDA_SUBDIR={self._platforms()[0]} "
        return f"{settings}conda {'install' if exists else 'create'} {where} --file {_quoted(lock)}"


def _quoted(path: Path) -> str:
    return shlex.quote(str(path)) if os.name != "nt" else f'"{path}"'


def _check_names(artifacts: Sequence[Artifact]) -> None:
    """Refuse other bytes under one name: platforms that are fetched together share a folder."""
    named: dict[str, Artifact] = {}
    for artifact in artifacts:
        other = named.setdefault(artifact.filename, artifact)
        if other.key != artifact.key:
            raise ConfigurationError(
                f"{artifact.subdir} of {artifact.channel} and {other.subdir} of {other.channel} each have another "
                f"{artifact.filename}, and one folder cannot hold both",
                hint="fetch them one after another, each into a folder of its own (--pkgs-dir or --dest)",
            )


def _failed(artifact: Artifact, error: ResumeDLError) -> ArtifactResult:
    return ArtifactResult(artifact, "failed", error=error)


def _offline_error(artifact: Artifact) -> ResumeDLError:
    from resume_dl.errors import TransferError  # noqa: PLC0415

    return TransferError(f"{artifact.filename} is not here, and this is --offline", hint="run it without --offline")


def _undigested(artifact: Artifact) -> ResumeDLError:
    return IntegrityError(
        f"{artifact.filename} has no digest, so it cannot be verified and is not put into a package cache",
        hint="add #<md5> or #sha256:<sha256> to its line",
    )

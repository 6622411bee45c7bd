"""The main job: specs to artifacts, artifacts to verified files, files into conda's package cache."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING

from resume_dl.caches.package_caches import CondaCache, RattlerCache
from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.progress.shell_command import quoted, setting
from resume_dl.resolution.conda_and_pip import has_pip_part, is_pip_file, pythons_of
from resume_dl.resolution.conda_resolution import Resolver
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.explicit import write_explicit
from resume_dl.resolve.request import Solution
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.pkgs_dirs import check_pkgs_dir, first_writable_pkgs_dir
from resume_dl.settings.rattler_cache import rattler_packages_dir
from resume_dl.store.part import FOLDER
from resume_dl.transfer.cache_plan import plan_cache, plan_rattler
from resume_dl.transfer.destination import channel_path, check_folder, check_lock, clash, refuse_others_link, write_list
from resume_dl.transfer.outdated_records import disputes, is_stale, merged, renamed
from resume_dl.transfer.package_transfer import Transfer
from resume_dl.transfer.plan import ANY_FOLDER, plan_folder, planned_files, space_for
from resume_dl.transfer.report import ArtifactResult, Resolved, RunResult
from resume_dl.transfer.setup import Setup, engine_for
from resume_dl.transfer.watched_engine import WatchedEngine

if TYPE_CHECKING:
    from resume_dl.app.pip_fetch import FetchPip

__all__ = ["FetchRequest", "fetch"]


def fetch(
    request: FetchRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    worker: RattlerWorker | None = None,
    leave_out: Callable[[Artifact], bool] = lambda _: False,
    begin: Callable[[], None] = lambda: None,
) -> RunResult:
    """Resolve, download, verify, publish. Errors of single artifacts stand in the result, others are raised.

    ``worker``: one that was started already; closed here after its use. ``leave_out``: what is not to be fetched,
    because the machine that it is for has it. ``begin`` is called before the first file is put anywhere, once what is
    wanted is known; perhaps more than once.
    """
    started = time.monotonic()
    of_pip = tuple(path for path in request.files if is_pip_file(path))
    parts = tuple(path for path in request.files if has_pip_part(path))
    pip: FetchPip | None = None
    if of_pip or parts or request.pip.requirements:
        from resume_dl.app.pip_fetch import FetchPip

        of_pips = changed(request, files=of_pip + parts)
        pip = FetchPip(of_pips, setup, reporter, cancelled, leave_out=leave_out, begin=begin)
        request = changed(request, files=tuple(path for path in request.files if path not in of_pip))
    has_conda = pip is None or bool(request.specs or request.files)
    _check_kind_of_lock(request, has_conda=has_conda, has_pip=pip is not None)
    with worker or RattlerWorker() as solver:
        if pip is not None and not has_conda:
            pip.resolve(_pythons_of_machines(request))
            result = pip.fetch(RunResult("fetch"))
        else:
            with engine_for(setup, reporter, cancelled) as engine:
                job = _Fetch(
                    request,
                    setup,
                    reporter,
                    engine,
                    cancelled,
                    worker=solver,
                    pip=pip,
                    leave_out=leave_out,
                    begin=begin,
                )
                try:
                    result = job.run()
                finally:
                    job.tidy()
    result.elapsed = time.monotonic() - started
    return result


class _Fetch:
    """One run of ``fetch``."""

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        engine: WatchedEngine,
        cancelled: Callable[[], bool],
        *,
        worker: RattlerWorker,
        pip: FetchPip | None,
        leave_out: Callable[[Artifact], bool],
        begin: Callable[[], None],
    ) -> None:
        self.request = request
        self.leave_out = leave_out
        self.begin = begin
        self.pip = pip
        self.setup = setup
        self.reporter = reporter
        if setup.conda.problem:
            reporter.message(f"conda's settings are not all read: {setup.conda.problem}", level="warning")
        self.folder, self.in_cache = self._destination()
        self.rattler = None if request.rattler_cache is None else RattlerCache(self.folder, cancelled)
        if request.lock is not None:
            check_lock(request.lock.absolute())
        self._planned: set[str] = set()
        """The keys of the plan that the reporter was told last."""
        self._worker = worker
        self.resolver = Resolver(request, setup, reporter, engine, worker, cancelled=cancelled)
        self.transfer = Transfer(
            self.folder,
            engine,
            reporter,
            cancelled,
            in_cache=self.in_cache,
            offline=self.resolver.offline,
            cache=self.rattler,
            place=self._place,
        )

    def run(self) -> RunResult:
        """Resolve, then fetch; once more with fresher repodata where archives are nowhere to be had or denied by it."""
        solutions, explicit = self.resolver.resolve(fresh=False)
        if self.pip is not None:  # before anything is downloaded: it may have no answer
            by_conda = pythons_of(solutions, explicit, self.resolver.platforms(), self.resolver.prefix())
            self._check_python(by_conda)
            self.pip.resolve({**_pythons_of_machines(self.request), **by_conda})
        listed = {artifact.key for artifact in explicit}  # a list has no index that could be asked for
        result = self._transfer(solutions, explicit, thorough=listed)
        if any(is_stale(each) for each in result.artifacts) and not self.resolver.offline and solutions:
            self.reporter.message("asking the other mirrors for a newer index", level="info")
            newer, _ = self.resolver.resolve(fresh=True, disputes=disputes(result.artifacts))
            before, after = self._all_artifacts(solutions, explicit), self._all_artifacts(newer, explicit)
            for old, new in renamed(result.artifacts, after.values()):
                if self.transfer.take_over(old, new):
                    text = f"{new.filename}: the newer index knows the bytes that came; they are kept"
                    self.reporter.message(text, level="info")
            if after != before or any(each.reason == "disputed" for each in result.artifacts):
                solutions = newer
                again = self._transfer(solutions, explicit, thorough=after)
                again.artifacts = merged(result.artifacts, again.artifacts)
                again.transfer_seconds += result.transfer_seconds
                result = again
        result = self._conclude(result, solutions, explicit)
        result.resolved = Resolved(tuple(solutions), explicit)
        result.index_bytes = self.resolver.indexes.downloaded
        result.indexes = self.resolver.indexes.report
        return result if self.pip is None else self.pip.fetch(result, environment=self._environment())

    def _check_python(self, by_conda: Mapping[str, str]) -> None:
        """Refuse a bundle whose wheels would be for another Python than the one in it."""
        named = self.request.pip.python
        if self.request.bundle is None or named is None:
            return
        for platform, version in by_conda.items():
            if named.split(".")[:2] != version.split(".")[:2]:
                raise ConfigurationError(
                    f"the conda packages bring Python {version} for {platform}, and --python asks for {named}",
                    hint=f"leave --python out, or ask for python={named} as a conda package",
                )

    def tidy(self) -> None:
        """Leave no empty folder of ours among the user's plain files, or rattler's, and no subset of an index."""
        self.resolver.close()
        if not self._is_condas:
            with suppress(OSError):  # not there, or not empty: something is unfinished
                (self.folder / FOLDER).rmdir()

    def _destination(self) -> tuple[Path, bool]:
        """Where finished files go, and whether that is a package cache; refused before anything is downloaded."""
        if self.request.bundle is not None:
            return check_folder(self.request.bundle, "-o"), False
        if self.request.dest is not None:
            return check_folder(self.request.dest, "--dest"), False
        if self.request.rattler_cache is not None:
            root = Path(self.request.rattler_cache) if self.request.rattler_cache else None
            return check_folder(rattler_packages_dir(self.setup.env, root), "--rattler-cache"), True
        create = not self.request.dry_run
        if self.request.pkgs_dir is not None:
            pkgs_dir = self.request.pkgs_dir.absolute()
            refuse_others_link(pkgs_dir, "choose another folder with --pkgs-dir")
            return check_pkgs_dir(pkgs_dir, create=create), True
        return first_writable_pkgs_dir(self.setup.conda, create=create), True

    def _place(self, artifact: Artifact) -> Path:
        """Where it lies in the end."""
        if self.request.bundle is not None:
            return channel_path(self.folder, artifact)
        return (self.rattler or CondaCache(self.folder)).place_of(artifact)

    @property
    def _is_condas(self) -> bool:
        """Whether conda will find the files by itself."""
        return self.in_cache and self.rattler is None

    def _all_artifacts(
        self, solutions: Sequence[tuple[str, Solution]], explicit: tuple[Artifact, ...]
    ) -> dict[str, Artifact]:
        every = [artifact for _, solution in solutions for artifact in solution.artifacts] + list(explicit)
        places = self.setup.places
        _check_names(every, by_subdir=self.request.bundle is not None)
        return {artifact.key: changed(artifact, sources=places.of(artifact.url)) for artifact in every}

    def _transfer(
        self,
        solutions: Sequence[tuple[str, Solution]],
        explicit: tuple[Artifact, ...],
        *,
        thorough: Container[str],
    ) -> RunResult:
        wanted = self._all_artifacts(solutions, explicit).values()
        artifacts = [artifact for artifact in wanted if not self.leave_out(artifact)]
        left = [ArtifactResult(artifact, "left-out") for artifact in wanted if self.leave_out(artifact)]
        unpack = self.in_cache and self.request.extract
        if not self.request.dry_run:
            self.begin()
        if self.rattler is not None:
            planned = plan_rattler(artifacts, self.folder)
        elif self.in_cache:
            others = [folder for folder in self.setup.conda.pkgs_dirs if folder != self.folder]
            if self.request.pkgs_dir is not None:
                others = []
            planned = plan_cache(artifacts, self.folder, others, touch=not self.request.dry_run)
        else:
            near = [] if self.request.bundle is None else self.setup.conda.pkgs_dirs
            touch = not self.request.dry_run
            planned = plan_folder(artifacts, self.folder, place=self._place, near=near, touch=touch)
        options = ANY_FOLDER if self.request.bundle is None else "-o"
        space = space_for(planned, self.folder, unpack=unpack, pack=self.request.packs, options=options)
        self.reporter.message(f"{self.folder}: {space.describe()}", level="info")
        now = {each.artifact.key for each in planned}
        self.reporter.plan(planned_files(planned, self.folder), replaces=self._planned - now)
        self._planned = now
        notes = tuple(note for _, solution in solutions for note in solution.notes)
        result = RunResult("fetch", notes=notes)
        if self.request.dry_run:
            result.artifacts = [
                ArtifactResult(each.artifact, "cached" if each.state == "cached" else "planned", each.path)
                for each in planned
            ] + left
            return result
        space.check()
        began = time.monotonic()
        moved = self.transfer.run(planned, unpack=unpack, thorough=thorough, worker=self._worker)
        result.artifacts = moved + left
        result.transfer_seconds = time.monotonic() - began
        return result

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
            platform = solutions[0][0] if solutions else self.resolver.platforms()[0]
            text = write_explicit(artifacts, platform=platform)
            if automatic := lock is None and self._is_condas and not self.request.dry_run:
                name = hashlib.sha256(text.encode()).hexdigest()[:12]
                lock = self.setup.paths.state / "explicit" / f"{platform}-{name}.txt"
            if lock is not None and (error := write_list(lock, text)) is not None:
                if automatic:
                    said = f"no list of exactly these files was kept: {error.message}"
                    self.reporter.message(said, level="warning")
                else:
                    result.error = error
                return result
        if lock is not None and self._is_condas:
            result.next_command = self._conda_command(lock)
        return result

    def _conda_command(self, lock: Path) -> str:
        """The command that links exactly these files; no solve, so nothing else can be chosen."""
        prefix = self.resolver.prefix()
        exists = prefix is not None and (prefix / "conda-meta").is_dir()
        settings = "" if self.request.pkgs_dir is None else setting("CONDA_PKGS_DIRS", str(self.folder))
        if self.resolver.platforms()[0] != (self.setup.conda.subdir or native_subdir()):
            settings += setting("CONDA_SUBDIR", self.resolver.platforms()[0])
        return f"{settings}conda {'install' if exists else 'create'} {self._environment()} --file {quoted(lock)}"

    def _environment(self) -> str:
        """The environment that is solved for, as conda's options name it."""
        if self.request.prefix is not None:
            return f"--prefix {quoted(self.request.prefix)}"
        return f"--name {self.request.name or 'NAME'}"


def _check_kind_of_lock(request: FetchRequest, *, has_conda: bool, has_pip: bool) -> None:
    """Refuse a list that nothing would be written to. Raises ConfigurationError."""
    if request.lock is not None and not has_conda:
        raise ConfigurationError(
            f"{request.lock} would be a list for conda, and only pip packages are asked for",
            hint="name it pylock.toml or pylock.NAME.toml: so pip's lock files are called (PEP 751)",
        )
    if request.pip.lock is not None and not has_pip:
        raise ConfigurationError(
            f"{request.pip.lock} would be a lock file for pip, and no pip package is asked for",
            hint="call conda's list otherwise, as explicit.txt",
        )


def _pythons_of_machines(request: FetchRequest) -> dict[str, str]:
    """Platform -> version of the Python that is known to be there."""
    return {name: machine.python for name, machine in request.machines.items() if machine.python is not None}


def _check_names(artifacts: Sequence[Artifact], *, by_subdir: bool) -> None:
    """Refuse other bytes under one name: platforms that are fetched together share a folder, but in a channel."""
    if (two := clash(artifacts, by_subdir=by_subdir)) is not None:
        artifact, other = two
        raise ConfigurationError(
            f"{artifact.subdir} of {artifact.channel} and {other.subdir} of {other.channel} each have another "
            f"{artifact.filename}, and one folder cannot hold both",
            hint="make a bundle of each, or name the channel that both are to come from: CHANNEL::NAME"
            if by_subdir
            else "fetch them one after another, each into a folder of its own (--pkgs-dir or --dest)",
        )

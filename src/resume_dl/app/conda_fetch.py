"""The conda part of ``fetch``: resolve specs and lists, put packages into a cache, print the command that uses them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed

from resume_dl.app.pipeline import Batch
from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.resolution.conda_and_pip import pythons_of
from resume_dl.resolution.conda_resolution import Resolver
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.explicit import write_explicit
from resume_dl.resolve.request import Solution
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.condarc import native_subdir
from resume_dl.shell_commands import Step
from resume_dl.transfer.destination import check_lock, clash, write_list
from resume_dl.transfer.outdated_records import disputes, is_stale, renamed
from resume_dl.transfer.package_destination import PackageDestination
from resume_dl.transfer.plan import Plan, Wanted
from resume_dl.transfer.report import ArtifactResult, Resolved, RunResult
from resume_dl.transfer.setup import Setup

Solutions = Sequence[tuple[str, Solution]]
"""A platform and its solution."""


class FetchConda(Batch):
    """The conda packages of one request; refreshes indexes if files are missing everywhere or contradict the index."""

    destination: PackageDestination

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        destination: PackageDestination,
        worker: RattlerWorker,
        leave_out: Callable[[Artifact], bool] = lambda _: False,
        begin: Callable[[], None] = lambda: None,
    ) -> None:
        """``worker`` solves and may then unpack for the destination. Raises NotWritableError for ``--lock``."""
        super().__init__(setup, reporter, cancelled, dry_run=request.dry_run, leave_out=leave_out, begin=begin)
        self.destination = destination
        self._request = request
        self._worker = worker
        if request.lock is not None:
            check_lock(request.lock.absolute())
        self._solutions: Solutions = ()
        self._explicit: tuple[Artifact, ...] = ()

    def resolve(self) -> Wanted:
        """Solve. Raises a ResolutionError, ConfigurationError or IntegrityError."""
        self._open.callback(self.destination.tidy)
        self._resolver = Resolver(
            self._request, self.setup, self.reporter, self.engine, self._worker, cancelled=self.cancelled
        )
        self._open.callback(self._resolver.close)
        self._solutions, self._explicit = self._resolver.resolve(fresh=False)
        wanted = self._all_artifacts(self._solutions)
        listed = {artifact.key for artifact in self._explicit}  # a list has no index that could be refreshed
        return Wanted([*wanted.values()], thorough=listed)

    def pythons(self) -> dict[str, str]:
        """Platform -> version of the Python that wheels are for; valid after ``resolve``.

        Raises ConfigurationError if a bundle's wheels would be for another Python than the one in it.
        """
        resolver, named = self._resolver, self._request.pip.python
        by_conda = pythons_of(self._solutions, self._explicit, resolver.platforms(), resolver.prefix())
        if self._request.bundle is not None and named is not None:
            _check_python(named, by_conda)
        return {**pythons_of_machines(self._request), **by_conda}

    def announce(self, plan: Plan, before: Plan | None = None) -> None:
        """Report the plan, and the disk space that it needs."""
        for space in plan.spaces:
            self.reporter.message(f"{space.folder}: {space.describe()}", level="info")
        super().announce(plan, before)

    def renew(self, results: Sequence[ArtifactResult]) -> Wanted | None:
        """Resolve again with refreshed indexes if those may explain ``results``; bytes that they confirm are kept."""
        if self._resolver.offline or not self._solutions or not any(map(is_stale, results)):
            return None
        self.reporter.message("checking the other mirrors for a newer index", level="info")
        newer, _ = self._resolver.resolve(fresh=True, disputes=disputes(results))
        before, after = self._all_artifacts(self._solutions), self._all_artifacts(newer)
        for old, new in renamed(results, after.values()):
            if self.destination.take_over(old, new):
                text = f"{new.filename}: the newer index confirms the downloaded bytes; they are kept"
                self.reporter.message(text, level="info")
        if after == before and not any(each.reason == "disputed" for each in results):
            return None
        self._solutions = newer
        return Wanted([*after.values()], thorough=after)

    def _all_artifacts(self, solutions: Solutions) -> dict[str, Artifact]:
        every = [*_artifacts(solutions), *self._explicit]
        places = self.setup.places
        _check_names(every, by_subdir=self._request.bundle is not None)
        return {artifact.key: changed(artifact, sources=places.of(artifact.url)) for artifact in every}

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Write the explicit list, and give the command that uses exactly these files."""
        del done
        result.notes += tuple(note for _, solution in self._solutions for note in solution.notes)
        self._conclude(result)
        result.resolved = Resolved(tuple(self._solutions), self._explicit)
        result.index_bytes = self._resolver.indexes.downloaded
        result.indexes = self._resolver.indexes.report

    def _conclude(self, result: RunResult) -> None:
        solutions, artifacts = self._solutions, (*_artifacts(self._solutions), *self._explicit)
        if result.exit_code == 0 and not artifacts:
            self.reporter.message("nothing to fetch: everything is installed", level="info")
        # a list and the command that reads it are for one platform
        several = len(solutions) > 1 or (self._resolver.has_locks and len(self._resolver.platforms()) > 1)
        if result.exit_code != 0 or not artifacts or several:
            return
        lock, files = self._request.lock, self._request.files
        if lock is None and not solutions and len(files) == 1 and not self._resolver.has_locks:
            lock = files[0]
        else:
            platform = solutions[0][0] if solutions else self._resolver.platforms()[0]
            text = write_explicit(artifacts, platform=platform)
            if automatic := lock is None and self.destination.is_condas and not self.dry_run:
                name = hashlib.sha256(text.encode()).hexdigest()[:12]
                lock = self.setup.paths.state / "explicit" / f"{platform}-{name}.txt"
            if lock is not None and (error := write_list(lock, text)) is not None:
                if automatic:
                    text = f"the explicit list of these files was not written: {error.message}"
                    self.reporter.message(text, level="warning")
                else:
                    result.error = error
                return
        if lock is not None and self.destination.is_condas:
            result.next_steps = (self._conda_command(str(lock)),)

    def _conda_command(self, lock: str) -> Step:
        """The command that links exactly these files, without a solve that could choose others."""
        prefix, platform = self._resolver.prefix(), self._resolver.platforms()[0]
        exists = prefix is not None and (prefix / "conda-meta").is_dir()
        folder = self.destination.folder
        variables = [] if self._request.pkgs_dir is None else [("CONDA_PKGS_DIRS", str(folder))]
        if platform != (self.setup.conda.subdir or native_subdir()):
            variables.append(("CONDA_SUBDIR", platform))
        verb = "install" if exists else "create"
        return Step(("conda", verb, *environment_options(self._request), "--file", lock), variables)


def environment_options(request: FetchRequest) -> tuple[str, str]:
    """The target environment, as conda's options name it."""
    if request.prefix is not None:
        return "--prefix", str(request.prefix)
    return "--name", request.name or "NAME"


def pythons_of_machines(request: FetchRequest) -> Mapping[str, str]:
    """Platform -> version of the Python that the target machine has."""
    return {name: machine.python for name, machine in request.machines.items() if machine.python is not None}


def _check_python(named: str, by_conda: Mapping[str, str]) -> None:
    for platform, version in by_conda.items():
        if named.split(".")[:2] != version.split(".")[:2]:
            raise ConfigurationError(
                f"the conda packages include Python {version} for {platform}, but --python requests {named}",
                hint=f"omit --python, or request python={named} as a conda package",
            )


def _artifacts(solutions: Solutions) -> list[Artifact]:
    return [artifact for _, solution in solutions for artifact in solution.artifacts]


def _check_names(artifacts: Sequence[Artifact], *, by_subdir: bool) -> None:
    """Refuse two different files of the same name: except in a channel, all platforms share a folder."""
    if (two := clash(artifacts, by_subdir=by_subdir)) is not None:
        artifact, other = two
        raise ConfigurationError(
            f"{artifact.subdir} of {artifact.channel} and {other.subdir} of {other.channel} have different files named "
            f"{artifact.filename}, and one folder cannot hold both",
            hint="make a bundle of each, or name one channel for both: CHANNEL::NAME"
            if by_subdir
            else "fetch them one after another, each into a folder of its own (--pkgs-dir or --dest)",
        )

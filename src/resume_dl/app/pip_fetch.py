"""The pip part of ``fetch``: resolve requirements, put wheels into the wheel dir, print the command to install them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from resume_dl.app.pipeline import Batch
from resume_dl.errors import ConfigurationError, ResumeDLError, required
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.model.artifact import Artifact
from resume_dl.model.exclude_newer import UploadCutoff
from resume_dl.model.network import NetworkSettings
from resume_dl.model.pip import PipIndexes, PipRequest, PipSolution
from resume_dl.ports import Reporter
from resume_dl.resolution.cutoff import upload_cutoff
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolution.pip_request import ExpandedRequest
from resume_dl.resolution.pip_request_files import read_request
from resume_dl.resolution.pip_resolution import resolve_pip
from resume_dl.resolution.pip_solution import with_digests
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.shell_commands import Step
from resume_dl.store.pins import Pins
from resume_dl.transfer.destination import check_folder, check_lock, check_names, write_list
from resume_dl.transfer.plan import Plan, Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.shared_folders import shared_folders
from resume_dl.transfer.wheel_destination import WheelDestination
from resume_dl.transfer.wheel_transfer import WheelDir, first_seen


def index_notes(reporter: Reporter) -> IndexNotes:
    """The notes on the indexes of one run, printed by ``reporter``."""
    return IndexNotes(lambda text, level: reporter.message(text, level=level))


def _nothing_to_resolve(wanted: ExpandedRequest) -> ConfigurationError:
    left = "; ".join(each.shown for each in wanted.left if not each.constraint)
    if not left:
        return ConfigurationError("no requirement is left to resolve", hint="name one, as in --pip 'torch==1.6.0'")
    return ConfigurationError(
        f"no requirement is left to resolve: only packages of an index or a URL are fetched, not these lines: {left}",
        hint="build wheels of them with pip wheel, then name them with --pip and their folder with --find-links",
    )


class FetchPip(Batch):
    """The files of one request."""

    destination: WheelDestination

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        pythons: Callable[[], Mapping[str, str]] = dict,
        environment: tuple[str, ...] = (),
        indexes: PipIndexes | None = None,
        leave_out: Callable[[Artifact], bool] = lambda _: False,
        begin: Callable[[], None] = lambda: None,
        notes: IndexNotes | None = None,
    ) -> None:
        """``request.files`` has pip's files only; ``indexes`` replaces all configured ones. Raises NotWritableError.

        ``pythons`` is called by ``resolve``: platform -> version of the Python that conda installs. ``environment``:
        conda's options for it. ``notes``: shared notes, if a run has several batches.
        """
        if environment:  # a trace file holds the events of one engine, here that of the conda part
            setup = changed(setup, options=changed(setup.options, debug_trace=None))
        super().__init__(setup, reporter, cancelled, dry_run=request.dry_run, leave_out=leave_out, begin=begin)
        self._request = request
        self._pythons = pythons
        self._environment = environment
        self.installed: Mapping[str, str] = {}
        """Project -> installed version; files of these versions are left out."""
        self.destination = self._wheel_dir()
        if request.pip.lock is not None:
            check_lock(request.pip.lock.absolute())
        python = find_python(setup.env)
        self._settings = load_pip_settings(setup.env, prefix=python.prefix)
        self._indexes = indexes or self._settings.indexes.then(request.pip.indexes)
        self._asked: ExpandedRequest | None = None
        self._notes = notes or index_notes(reporter)
        self._solutions: tuple[PipSolution, ...] = ()

    def _wheel_dir(self) -> WheelDestination:
        request, setup = self._request, self.setup
        for_bundle = request.bundle is not None
        folder = check_folder(request.pip.wheel_dir or request.dest or setup.paths.wheels, "--wheel-dir")
        pins = Pins(setup.paths.pins)
        return WheelDestination(
            WheelDir(folder, pins, self.reporter, cancelled=self.cancelled, by_digest=setup.places.of),
            near=[setup.paths.wheels] if for_bundle else [],
            offline=setup.options.offline or setup.conda.offline,
            pack=request.packs,
            options="-o" if for_bundle else "--wheel-dir",
            shared=shared_folders(request.pip.shared_wheel_dirs, self.reporter),
        )

    @property
    def network(self) -> NetworkSettings:
        """Pip's settings, merged over conda's."""
        setup, indexes = self.setup, required(self._asked, "what resolve found").indexes
        return pip_network(setup.load_network(), self._settings, indexes)

    def read(self) -> ExpandedRequest:
        """Read the request's files. Raises what ``read_request`` does."""
        self._asked = read_request(self._pip_request(None, ()), self.setup, self.reporter, self.cancelled)
        return self._asked

    def resolve(self) -> Wanted:
        """Resolve the requirements. Raises a ResolutionError, IntegrityError or ConfigurationError."""
        setup, reporter = self.setup, self.reporter
        requests = [self._pip_request(python, platforms) for python, platforms in self._targets(self._pythons())]
        wanted = self._asked or self.read()  # the requests differ only in their target
        if not wanted.solvable:
            raise _nothing_to_resolve(wanted)
        self._solutions = tuple(
            solution
            for request in requests
            for solution in resolve_pip(
                request, setup, reporter, wanted=wanted, notes=self._notes, cancelled=self.cancelled
            )
        )
        has = {canonicalize_name(name): version for name, version in self.installed.items()}
        every = [
            artifact
            for solution in self._solutions
            for artifact in solution.artifacts
            if has.get(canonicalize_name(artifact.name)) != artifact.version
        ]
        chosen = list({artifact.key: artifact for artifact in every}.values())
        check_names(chosen, of_bundle=self._request.bundle is not None)
        return Wanted(chosen)

    def plan(self, wanted: Wanted) -> Plan:
        """Plan, and check the disk space before conda packages are downloaded. Raises OutOfSpaceError."""
        plan = super().plan(wanted)
        if not self.dry_run:
            plan.check()
        return plan

    def asked_for(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Requirements and constraints as lines of requirements files, without indexes and URLs."""
        wanted = required(self._asked, "what resolve found")
        hashes = wanted.wanted.hashes

        def line(text: str) -> str:
            allowed = hashes.get(canonicalize_name(Requirement(text).name), ())
            return " ".join((text, *(f"--hash={each}" for each in sorted(allowed))))

        lines = [line(text) for text in wanted.lines]
        if wanted.locks:  # lock files name exactly these files
            lines += [f"{each.name}=={each.version}" for one in self._solutions for each in one.artifacts]
        return tuple(lines), wanted.constraints

    def _targets(self, pythons: Mapping[str, str]) -> list[tuple[str | None, tuple[str, ...]]]:
        """Python version and platforms of each resolution."""
        named, platforms = self._request.pip.python, self._request.platforms
        if named is not None or not pythons:
            return [(named, platforms)]
        groups: dict[str | None, list[str]] = {}
        for platform in platforms or tuple(pythons):
            groups.setdefault(pythons.get(platform), []).append(platform)
        return [(python, tuple(group)) for python, group in groups.items()]

    def _pip_request(self, python: str | None, platforms: tuple[str, ...]) -> PipRequest:
        options = self._request.pip
        return PipRequest(
            requirements=options.requirements,
            files=self._request.files,
            constraints=(*self._settings.constraints, *options.constraints),
            indexes=self._indexes,
            platforms=platforms,
            python=python,
            environments=self._request.environments,
            machines=self._request.machines,
            allow_sdist=options.allow_sdist,
            no_deps=self._request.no_deps,
            cutoff=self._cutoff,
        )

    @cached_property
    def _cutoff(self) -> UploadCutoff:
        """One for the whole run, because durations count from now."""
        return upload_cutoff(self._request, self._settings, self.setup.env, Path.cwd(), datetime.now(timezone.utc))

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Add the solution, first-seen hashes, the lock file and the command that installs the files."""
        notes = [note for solution in self._solutions for note in solution.notes]  # printed during resolve()
        for note in first_seen(done):
            self.reporter.message(note, level="info")
            notes.append(note)
        result.resolved = changed(result.resolved, pip=self._solutions)
        result.notes = (*result.notes, *notes)
        result.indexes = tuple(dict.fromkeys((*result.indexes, *self._notes.reports)))
        result.index_bytes += self._notes.new_bytes()
        if result.exit_code == 0 and len(self._solutions) == 1 and self._request.bundle is None:
            self._conclude(result, done, self._solutions[0])

    def _conclude(self, result: RunResult, done: Sequence[ArtifactResult], solution: PipSolution) -> None:
        """Write the lock file, and give the command that installs exactly these files on this machine."""
        if self._request.pip.lock is not None:
            result.error = _write_lock(self._request.pip.lock, solution, [each.artifact for each in done])
        if result.error is not None or self.dry_run or not done or solution.platform != native_subdir():
            return
        text = "".join(
            f"{each.artifact.name}=={each.artifact.version} --hash=sha256:{each.artifact.sha256}\n" for each in done
        )
        name = f"{solution.platform}-py{solution.python}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.txt"
        exact = self.setup.paths.state / "pip" / name
        if (error := write_list(exact, text)) is not None:
            self.reporter.message(f"the list of these files was not written: {error.message}", level="warning")
            return
        pip = ("pip", "install", "--no-index", "--find-links", str(self.destination.folder), "-r", str(exact))
        runner = ("conda", "run", *self._environment, "python", "-m") if self._environment else ()
        result.next_steps += (Step((*runner, *pip)),)


def _write_lock(lock: Path, solution: PipSolution, files: Sequence[Artifact]) -> ResumeDLError | None:
    """Write the solution as a pylock.toml, with the hashes of ``files``; return the error if that fails."""
    if not solution.lock_text:
        return ConfigurationError(
            "several lock files and requirements cannot become one lock file", hint="omit --lock, or use one file"
        )
    if unknown := [each.filename for each in files if each.digest is None and not each.record.get("hashes")]:
        return ConfigurationError(
            f"{lock} is not written: no index has a hash for {', '.join(unknown)}, and a lock needs one (PEP 751)",
            hint="omit --dry-run: the hash is known once the file is downloaded",
        )
    return write_list(lock, with_digests(solution, {each.filename: each.sha256 for each in files if each.sha256}))

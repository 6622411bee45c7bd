"""The pip side of ``fetch``: requirements to wheels, wheels into the wheel dir, and the command that installs them."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from resume_dl.errors import ConfigurationError, ResumeDLError, required
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.model.artifact import Artifact
from resume_dl.model.pip import PipIndexes, PipRequest, PipSolution
from resume_dl.ports import Reporter
from resume_dl.progress.shell_command import quoted
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolution.pip_request import Asked
from resume_dl.resolution.pip_request_files import read_request
from resume_dl.resolution.pip_resolution import resolve_pip
from resume_dl.resolution.pip_solution import with_digests
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.network import load_network
from resume_dl.settings.pip_find import find_python
from resume_dl.settings.pip_network import pip_network
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.store.pins import Pins
from resume_dl.transfer.destination import check_folder, check_lock, clash, write_list
from resume_dl.transfer.plan import Planned, planned_files, space_for
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup, engine_for
from resume_dl.transfer.wheel_transfer import WheelDir, first_seen


def index_notes(reporter: Reporter) -> IndexNotes:
    """Notes on the indexes of one run, told by ``reporter``."""
    return IndexNotes(lambda text, level: reporter.message(text, level=level))


def _nothing_to_resolve(wanted: Asked) -> ConfigurationError:
    left = "; ".join(each.shown for each in wanted.left if not each.constraint)
    if not left:
        return ConfigurationError("no requirement is left to resolve", hint="name one, as in --pip 'torch==1.6.0'")
    return ConfigurationError(
        f"no requirement is left to resolve: only what an index or an address offers is fetched, which is none of "
        f"these lines: {left}",
        hint="let pip wheel make wheels of them, name these with --pip, and their folder with --find-links",
    )


class FetchPip:
    """One run of it: ``resolve``, then ``fetch``."""

    def __init__(
        self,
        request: FetchRequest,
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        indexes: PipIndexes | None = None,
        leave_out: Callable[[Artifact], bool] = lambda _: False,
        begin: Callable[[], None] = lambda: None,
        notes: IndexNotes | None = None,
    ) -> None:
        """``request.files`` are pip's alone; ``indexes`` take the place of all others. Raises NotWritableError.

        ``notes``: what the run knows of indexes, where it has several of these.

        ``leave_out``: what is not to be fetched, because the machine that it is for has it. ``begin`` is called
        before the first file is put into the wheel dir.
        """
        self._request = request
        self._leave_out = leave_out
        self._begin = begin
        self._setup = setup
        self._reporter = reporter
        self._cancelled = cancelled
        place = request.pip.wheel_dir or request.dest or setup.paths.wheels
        self._wheels = WheelDir(
            check_folder(place, "--wheel-dir"),
            Pins(setup.paths.pins),
            reporter,
            cancelled=cancelled,
            by_digest=setup.places.of,
        )
        if request.pip.lock is not None:
            check_lock(request.pip.lock.absolute())
        python = find_python(setup.env)
        self._settings = load_pip_settings(setup.env, prefix=python.prefix)
        self._indexes = indexes or self._settings.indexes.then(request.pip.indexes)
        self._asked: Asked | None = None
        self._notes = notes or index_notes(reporter)
        self._solutions: tuple[PipSolution, ...] = ()
        self._planned: list[Planned] = []
        self._left: list[Artifact] = []

    def read(self) -> Asked:
        """What the request comes to with its files read. Raises what ``read_request`` does."""
        self._asked = read_request(self._pip_request(None, ()), self._setup, self._reporter)
        return self._asked

    def resolve(self, pythons: Mapping[str, str] | None = None, *, installed: Mapping[str, str] | None = None) -> None:
        """Find the files and what of them is here. ``pythons``: platform -> version, where conda brings the Python.

        ``installed``: project -> version; files of just these are left out.
        Raises a ResolutionError, IntegrityError, ConfigurationError or OutOfSpaceError.
        """
        setup, reporter = self._setup, self._reporter
        requests = [self._pip_request(python, platforms) for python, platforms in self._targets(pythons or {})]
        wanted = self._asked or self.read()  # the requests differ in their target alone
        if not wanted.solvable:
            raise _nothing_to_resolve(wanted)
        self._solutions = tuple(
            solution
            for request in requests
            for solution in resolve_pip(
                request, setup, reporter, wanted=wanted, notes=self._notes, cancelled=self._cancelled
            )
        )
        has = {canonicalize_name(name): version for name, version in (installed or {}).items()}
        every = [
            artifact
            for solution in self._solutions
            for artifact in solution.artifacts
            if has.get(canonicalize_name(artifact.name)) != artifact.version
        ]
        chosen = list({artifact.key: artifact for artifact in every}.values())
        _check_names(chosen, of_bundle=self._request.bundle is not None)
        self._left = [artifact for artifact in chosen if self._leave_out(artifact)]
        artifacts = [artifact for artifact in chosen if not self._leave_out(artifact)]
        if not self._request.dry_run:
            self._begin()
        near = [] if self._request.bundle is None else [setup.paths.wheels]
        self._planned = self._wheels.plan(artifacts, near=near, touch=not self._request.dry_run)
        options = "-o" if self._request.bundle is not None else "--wheel-dir"
        space = space_for(self._planned, self._wheels.folder, unpack=False, pack=self._request.packs, options=options)
        if not self._request.dry_run:
            space.check()

    def asked_for(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Requirements and constraints as lines of requirements files, without indexes and addresses."""
        wanted = required(self._asked, "what resolve found")
        hashes = wanted.wanted.hashes

        def line(text: str) -> str:
            allowed = hashes.get(canonicalize_name(Requirement(text).name), ())
            return " ".join((text, *(f"--hash={each}" for each in sorted(allowed))))

        lines = [line(text) for text in wanted.lines]
        if wanted.locks:  # they name files, which are these
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
            machines=self._request.machines,
            allow_sdist=options.allow_sdist,
            no_deps=self._request.no_deps,
        )

    def fetch(self, result: RunResult, *, environment: str = "") -> RunResult:
        """Bring the files; what came of them is added to ``result``. ``environment``: conda's options that name it."""
        planned = self._planned
        self._reporter.plan(planned_files(planned, self._wheels.folder))
        notes = [note for solution in self._solutions for note in solution.notes]  # they were told when it resolved
        if self._request.dry_run:
            done = [
                ArtifactResult(each.artifact, "cached" if each.state == "cached" else "planned", each.path)
                for each in planned
            ]
        else:
            began = time.monotonic()
            done = self._bring(planned, traced=not environment)
            result.transfer_seconds += time.monotonic() - began
            for note in first_seen(done):
                self._reporter.message(note, level="info")
                notes.append(note)
        result.artifacts += [*done, *(ArtifactResult(artifact, "left-out") for artifact in self._left)]
        result.resolved = changed(result.resolved, pip=self._solutions)
        result.notes = (*result.notes, *notes)
        result.indexes = tuple(dict.fromkeys((*result.indexes, *self._notes.reports)))
        result.index_bytes += self._notes.new_bytes()
        return self._conclude(result, done, environment)

    def _bring(self, planned: Sequence[Planned], *, traced: bool) -> list[ArtifactResult]:
        setup = self._setup
        offline = setup.options.offline or setup.conda.offline
        if not traced:  # one file holds the story of one engine, and conda's has it
            setup = changed(setup, options=changed(setup.options, debug_trace=None))
        indexes = required(self._asked, "what resolve found").indexes
        network = pip_network(load_network(setup.env, setup.conda), self._settings, indexes)
        with engine_for(setup, self._reporter, self._cancelled, network=network) as engine:
            return self._wheels.fetch(planned, engine, offline=offline)

    # ------------------------------------------------------------------ the end

    def _conclude(self, result: RunResult, done: Sequence[ArtifactResult], environment: str) -> RunResult:
        """The lock that was asked for, and the command that installs exactly these files on this machine."""
        if result.exit_code != 0 or len(self._solutions) != 1 or self._request.bundle is not None:
            return result
        solution = self._solutions[0]
        if self._request.pip.lock is not None:
            result.error = _write_lock(self._request.pip.lock, solution, [each.artifact for each in done])
            if result.error is not None:
                return result
        if self._request.dry_run or not done or solution.platform != native_subdir():
            return result
        text = "".join(
            f"{each.artifact.name}=={each.artifact.version} --hash=sha256:{each.artifact.sha256}\n" for each in done
        )
        name = f"{solution.platform}-py{solution.python}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.txt"
        exact = self._setup.paths.state / "pip" / name
        if (error := write_list(exact, text)) is not None:
            self._reporter.message(f"no list of exactly these files was kept: {error.message}", level="warning")
            return result
        install = f"pip install --no-index --find-links {quoted(self._wheels.folder)} -r {quoted(exact)}"
        if environment:
            install = f"conda run {environment} python -m {install}"
        result.next_command = " && ".join(filter(None, (result.next_command, install)))
        return result


def _write_lock(lock: Path, solution: PipSolution, files: Sequence[Artifact]) -> ResumeDLError | None:
    """Write the solution as a pylock.toml, with the hashes that ``files`` have; the error if it cannot be."""
    if not solution.lock_text:
        return ConfigurationError(
            "several lock files and requirements make no one lock file", hint="leave out --lock, or take one file"
        )
    if unknown := [each.filename for each in files if each.digest is None and not each.record.get("hashes")]:
        return ConfigurationError(
            f"{lock} is not written: nobody publishes a hash for {', '.join(unknown)}, and a lock needs one (PEP 751)",
            hint="leave out --dry-run: the hash is known when the file is here",
        )
    return write_list(lock, with_digests(solution, {each.filename: each.sha256 for each in files if each.sha256}))


def _check_names(artifacts: Sequence[Artifact], *, of_bundle: bool) -> None:
    """Refuse other bytes under one name: platforms that are fetched together share a folder."""
    if (two := clash(artifacts)) is not None:
        artifact, other = two
        raise ConfigurationError(
            f"{artifact.url} and {other.url} are two files of one name, and one folder cannot hold both",
            hint="make a bundle of each"
            if of_bundle
            else "fetch them one after another, each into a folder of its own (--wheel-dir)",
        )

"""Resolution of pip requirements into artifacts: uv solves, and reads indexes through our gateway.

Rationale: docs/adr/pip-resolver.md.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from packaging.tags import Tag

from resume_dl.errors import (
    IntegrityError,
    InternalError,
    Interrupted,
    PackageNotFoundError,
    ResumeDLError,
    UnsatisfiableError,
    internal_error,
)
from resume_dl.indexes.copies import Freshness
from resume_dl.indexes.pip.catalogue import Catalogue
from resume_dl.indexes.pip.gateway import Gateway
from resume_dl.indexes.pip.index_notes import IndexNotes
from resume_dl.indexes.pip.kept_pages import KeptPages
from resume_dl.indexes.pip.page_sources import PageSources
from resume_dl.indexes.pip.pages import Pages
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.pip import PipRequest, PipSolution
from resume_dl.ports import Reporter
from resume_dl.resolution.lock_files import exported, is_conda_lock, read_conda_locks
from resume_dl.resolution.pip_explanation import refusal, too_new, version_of
from resume_dl.resolution.pip_index_places import index_places
from resume_dl.resolution.pip_request import ExpandedRequest
from resume_dl.resolution.pip_request_files import index_reader, is_offline, read_request
from resume_dl.resolution.pip_solution import Chosen, joined, pylock_of, solution_of
from resume_dl.resolve.index_page import ListedFile
from resume_dl.resolve.locks.locked_files import check_sdists
from resume_dl.resolve.pylock import read_lock
from resume_dl.resolve.target import ASSUMED_GLIBC, accepts_python, tags_for, tags_of
from resume_dl.resolve.uv import LockedFile, UvRefusedError, UvRequest, assumed, lock
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.pip_find import TargetPython, find_python
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.transfer.setup import Setup

_T = TypeVar("_T")
_OLDEST = (3, 10)
_SILENCE = 3.0
"""Seconds between progress messages."""
_POLL = 0.1
"""Seconds between two checks for cancellation."""
_AT_ONCE = 8
"""Concurrent requests for sizes and metadata; the reader limits connections per host."""


def resolve_pip(
    request: PipRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    wanted: ExpandedRequest | None = None,
    notes: IndexNotes | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[PipSolution, ...]:
    """Return a solution for each platform of ``request``, in order; ``wanted``: the request's files, if already read.

    ``notes`` collects messages about indexes and reports each once a run.
    Raises InvalidSpecError, ConfigurationError, PackageNotFoundError and UnsatisfiableError (with the resolver's own
    explanation), ChannelUnavailableError if an index cannot be reached, DigestMismatchError if a requested hash
    contradicts the index's, Interrupted.
    """
    python = find_python(setup.env)
    settings = load_pip_settings(setup.env, prefix=python.prefix)
    wanted = wanted or read_request(request, setup, reporter, cancelled)
    # files may add trusted hosts
    with index_reader(setup, settings, wanted.indexes, reporter, cancelled) as reader:
        job = _PipResolution(
            request,
            wanted,
            python=python,
            setup=setup,
            reporter=reporter,
            reader=reader,
            notes=notes or IndexNotes(lambda text, level: reporter.message(text, level=level)),
            cancelled=cancelled,
        )
        return job.run()


class _PipResolution:
    """One call of ``resolve_pip``."""

    def __init__(
        self,
        request: PipRequest,
        wanted: ExpandedRequest,
        *,
        python: TargetPython,
        setup: Setup,
        reporter: Reporter,
        reader: Reader,
        notes: IndexNotes,
        cancelled: Callable[[], bool],
    ) -> None:
        self._request = request
        self._expanded = wanted
        self._python = python
        self._setup = setup
        self._reporter = reporter
        self._reader = reader
        self._cancelled = cancelled
        self._started = self._last_message = time.monotonic()
        self._notes = notes
        # A lock file needs no index, so the default one is not looked up.
        self._where = index_places(wanted.indexes, python, setup, reporter) if wanted.lines else (setup.places, ())
        self._pages, self._catalogue = self._open_indexes(thorough=False)

    def _open_indexes(self, *, thorough: bool) -> tuple[Pages, Catalogue]:
        places, indexes = self._where
        options = self._setup.options
        pages = Pages(
            self._reader,
            places,
            offline=is_offline(self._setup),
            thorough=thorough,
            kept=KeptPages(self._setup.paths.cache / "pip"),
            named=self._setup.index_from,
            freshness=Freshness(options.refresh, options.index_max_age),
            notes=self._notes,
        )
        find_links = self._expanded.indexes.find_links
        return pages, Catalogue(pages, indexes=indexes, find_links=find_links, wanted=self._expanded.wanted)

    def run(self) -> tuple[PipSolution, ...]:
        for note in self._expanded.notes:
            self._reporter.message(note, level="warning")
        if self._expanded.lines:
            self._reporter.message("resolving pip packages: reading package indexes", level="info")
        try:
            solutions = self._solve_all()
        except (PackageNotFoundError, UnsatisfiableError):
            if not self._pages.has_more:
                raise
            # a kept page, a cache or one of the agreeing mirrors may be out of date
            self._reporter.message("not found in the kept pages; fetching newer ones", level="info")
            self._pages, self._catalogue = self._open_indexes(thorough=True)
            solutions = self._solve_all()
        for note in dict.fromkeys(note for solution in solutions for note in solution.notes):
            self._reporter.message(note, level="info")
        self._notes.tell_each()
        return tuple(replace(solution, artifacts=self._with_sources(solution.artifacts)) for solution in solutions)

    def _with_sources(self, artifacts: Sequence[Artifact]) -> tuple[Artifact, ...]:
        """Return the artifacts with their sources: any with a digest, only their own URL without one."""
        sources = PageSources(self._where[0])
        return tuple(replace(artifact, sources=_sources_of(artifact, sources)) for artifact in artifacts)

    def _solve_all(self) -> list[PipSolution]:
        solutions = []
        for platform in self._platforms():
            parts = [self._read(path, platform) for path in self._expanded.locks]
            parts += [self._solve(platform)] if self._expanded.lines else []
            solutions.append(replace(joined(parts), glibc=self._assumed_glibc(platform)))
        return solutions

    def _read(self, path: Path, platform: str) -> PipSolution:
        """Return a lock file's solution for a platform."""
        if is_conda_lock(path):
            return self._read_pip_part(path, platform)
        native = not self._is_elsewhere(platform)
        return read_lock(
            path,
            text=exported(path, self._request.environments, self._setup.env, self._is_cancelled),
            platform=platform,
            tags=self._tags(platform),
            python=self._request.python or (self._python.full_version if native else self._python.version),
            allow_sdist=self._request.allow_sdist,
            canonical=self._setup.table.canonical,
        )

    def _read_pip_part(self, path: Path, platform: str) -> PipSolution:
        """Return pip's packages of a lock file for conda, which are for the Python in it."""
        environments, python = self._request.environments, self._request.python or self._python.version
        canonical = self._setup.table.canonical
        (lock,) = read_conda_locks(path, platforms=(platform,), environments=environments, canonical=canonical)
        check_sdists(path, lock.pip, allowed=self._request.allow_sdist)
        return PipSolution(platform=platform, python=python, artifacts=lock.pip, lock_text=pylock_of(lock.pip, python))

    def _platforms(self) -> tuple[str, ...]:
        for platform in self._request.platforms:
            assumed(platform)  # raises for a platform without wheels
        return self._request.platforms or (native_subdir(),)

    # ------------------------------------------------------------------ one platform

    def _is_elsewhere(self, platform: str) -> bool:
        """Whether the target is another machine, so that properties of this one do not apply."""
        return platform != native_subdir() or platform in self._request.machines

    def _glibc(self, platform: str) -> tuple[int, int] | None:
        machine = self._request.machines.get(platform)
        return None if machine is None else machine.glibc

    def _assumed_glibc(self, platform: str) -> tuple[int, int] | None:
        """Return the glibc version to assume for another Linux machine."""
        if not platform.startswith("linux-") or not self._is_elsewhere(platform):
            return None
        return self._glibc(platform) or ASSUMED_GLIBC

    def _target_note(self, platform: str, python: str) -> str:
        """Return the note about another machine's assumed properties."""
        if not self._is_elsewhere(platform):
            return ""
        taken = assumed(platform, self._glibc(platform))
        where = "another machine" if platform == native_subdir() else "not this machine"
        how = "assumed" if self._glibc(platform) is None else "resolved for"
        return f"{platform} is {where}: {how} Python {python}{f' and {taken}' if taken else ''}"

    def _solve(self, platform: str) -> PipSolution:
        foreign = self._is_elsewhere(platform)
        python = self._request.python or (self._python.version if foreign else None)
        target = python or self._python.full_version
        with Gateway(
            self._catalogue, python=target, with_files=self._request.allow_sdist, cutoff=self._request.cutoff
        ) as gateway:
            request = self._uv_request(platform, python, gateway)
            while True:
                try:
                    locked = lock(request, env=self._setup.env, cancelled=self._is_cancelled)
                except UvRefusedError as refused:
                    raise self._refusal(gateway, refused, target) from None
                for error in gateway.errors:
                    # uv may have found a solution without that page
                    if isinstance(error, (InternalError, IntegrityError)):
                        raise error
                files = [(each, _file(gateway, each)) for each in locked]
                for _, file in files:
                    self._catalogue.check(file)
                if not self._exclude_incompatible(files, gateway, target):
                    return self._solution(platform, python or self._python.version, files)

    def _uv_request(self, platform: str, python: str | None, gateway: Gateway) -> UvRequest:
        foreign = self._is_elsewhere(platform)
        interpreter = self._python.executable
        if not _uv_supports(self._python.version):  # uv cannot inspect it: our own Python stands in for it
            python, interpreter = python or self._python.version, Path(sys.executable)
        indexes = gateway.indexes()
        return UvRequest(
            requirements=self._expanded.lines,
            constraints=self._expanded.constraints,
            index=indexes[-1] if indexes else None,
            extra=indexes[:-1],
            find_links=gateway.find_links(),
            refusal=gateway.proxy,
            platform=platform if foreign else None,
            glibc=self._glibc(platform),
            python=python,
            interpreter=interpreter,
            tags=tuple(self._tags(platform)),
            allow_sdist=self._request.allow_sdist,
            pre=self._expanded.indexes.pre,
            no_deps=self._request.no_deps,
        )

    def _tags(self, platform: str) -> list[Tag]:
        """Return the wheel tags of a platform, best first; for this machine those of the selected Python."""
        python = self._request.python or self._python.version
        if self._is_elsewhere(platform):
            return tags_for(python, platform, self._glibc(platform))
        own = [] if self._request.python else tags_of(self._python.executable, self._setup.env)
        return own or tags_for(python, None)

    def _exclude_incompatible(
        self, files: Sequence[tuple[LockedFile, ListedFile]], gateway: Gateway, python: str
    ) -> bool:
        """Exclude versions whose METADATA, unlike their page, refuses this Python; return whether there were any."""
        found = self._for_each(self._catalogue.requires_python, [file for _, file in files])
        wrong = [
            (*each, requires)
            for each, requires in zip(files, found, strict=True)
            if not accepts_python(requires, python)
        ]
        for locked, file, requires in wrong:
            text = f"skipped: {locked.name} {locked.version} requires Python {requires}, the target has {python}"
            self._reporter.message(text, level="info")
            same = [each for each in self._catalogue.listed(locked.name) if version_of(each) == version_of(file)]
            gateway.left_out.update({each.url: requires for each in (file, *same)})
        return bool(wrong)

    def _is_cancelled(self) -> bool:
        if self._cancelled():
            self._reader.stop()
            return True
        now = time.monotonic()
        if now - self._last_message >= _SILENCE:
            self._last_message = now
            text = f"resolving: {self._pages.read} index pages and metadata files read"
            self._reporter.message(f"{text} in {now - self._started:.0f} s", level="info")
        return False

    def _refusal(self, gateway: Gateway, refused: UvRefusedError, python: str) -> BaseException:
        """Return the error to raise: the gateway's own errors take precedence over uv's explanation."""
        found = [error for error in gateway.errors if not isinstance(error, Interrupted)]
        if found:
            return found[0]
        silent = self._notes.hint(self._expanded.names)
        if gateway.stray:
            strays = ", ".join(sorted(gateway.stray))
            silent = "; ".join(filter(None, (silent, f"{strays}: URLs in package metadata are not followed")))

        def listed(name: str) -> list[ListedFile]:
            return [
                replace(file, requires_python=gateway.left_out.get(file.url, file.requires_python))
                for file in self._catalogue.listed(name)
                if self._request.cutoff.allows(name, file.uploaded)
            ]

        left_out = too_new(self._expanded.names, self._catalogue.listed, self._request.cutoff)
        silent = "; ".join(filter(None, (left_out, silent)))
        return refusal(gateway.shown(refused.explanation), listed, python=python, unreached=silent)

    def _solution(self, platform: str, python: str, files: Sequence[tuple[LockedFile, ListedFile]]) -> PipSolution:
        sizes = self._for_each(self._catalogue.size, [file for _, file in files])
        return solution_of(
            [Chosen(each, file, size) for (each, file), size in zip(files, sizes, strict=True)],
            self._expanded,
            platform=platform,
            python=python,
            read_whole=self._catalogue.read_whole,
            target_note=self._target_note(platform, python),
            cutoff=self._request.cutoff,
        )

    def _for_each(self, ask: Callable[[ListedFile], _T], files: Sequence[ListedFile]) -> list[_T]:
        """Call ``ask`` for each file in parallel; return the results in order. Can be cancelled by the user."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            futures = [pool.submit(_with_file_name, ask, file) for file in files]
            while wait(futures, timeout=_POLL).not_done and not self._is_cancelled():
                pass
            return [each.result() for each in futures]  # cancelled ones raise Interrupted


def _sources_of(artifact: Artifact, sources: PageSources) -> tuple[Source, ...]:
    """Return an artifact's sources; its own URL first if its only digests are ones that the engine does not check."""
    known = {**artifact.record.get("hashes", {}), **dict(each.split(":", 1) for each in artifact.record["allowed"])}
    file = ListedFile(artifact.filename, artifact.url.reveal(), hashes=known)
    own, every = sources.own(file), sources.places.of(artifact.url)
    if not file.is_identified:
        return own
    return every if artifact.digest is not None else (*own, *(source for source in every if source not in own))


def _with_file_name(ask: Callable[[ListedFile], _T], file: ListedFile) -> _T:
    """Call ``ask`` for a file; an unexpected exception is raised with the file's name."""
    try:
        return ask(file)
    except ResumeDLError:
        raise
    except Exception as error:
        raise internal_error(error, file.filename) from error


def _file(gateway: Gateway, locked: LockedFile) -> ListedFile:
    try:
        return gateway.file_of(locked.url)
    except KeyError:
        raise ResumeDLError(
            f"uv chose a file for {locked.name} that no index listed", hint="this is a bug: please report it"
        ) from None


def _uv_supports(version: str) -> bool:
    """Whether uv can inspect a Python of this version; newer versions of uv drop old ones."""
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) >= _OLDEST

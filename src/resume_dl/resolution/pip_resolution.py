"""Pip requirements to artifacts: uv solves, behind a gateway that reads indexes by our own rule of trust.

docs/adr/pip-resolver.md says why it is done so.
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
from resume_dl.resolution.pip_explanation import refusal, version_of
from resume_dl.resolution.pip_index_places import index_places
from resume_dl.resolution.pip_request import Asked
from resume_dl.resolution.pip_request_files import index_reader, is_offline, read_request
from resume_dl.resolution.pip_solution import Chosen, joined, solution_of
from resume_dl.resolve.index_page import ListedFile
from resume_dl.resolve.pylock import read_lock
from resume_dl.resolve.target import ASSUMED_GLIBC, tags_for, tags_of, takes
from resume_dl.resolve.uv import LockedFile, UvRefusedError, UvRequest, assumed, lock
from resume_dl.settings.condarc import native_subdir
from resume_dl.settings.pip_find import TargetPython, find_python
from resume_dl.settings.pip_settings import load_pip_settings
from resume_dl.transfer.setup import Setup

_T = TypeVar("_T")
_OLDEST = (3, 10)
_SILENCE = 3.0
"""Seconds after which people want to know that it goes on."""
_POLL = 0.1
"""Seconds between two looks at whether the user has stopped us."""
_AT_ONCE = 8
"""Sizes and metadata that are asked for at a time; how many connections a host gets is the reader's matter."""


def resolve_pip(
    request: PipRequest,
    setup: Setup,
    reporter: Reporter,
    *,
    wanted: Asked | None = None,
    notes: IndexNotes | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> tuple[PipSolution, ...]:
    """A solution for each platform of ``request``, in their order; ``wanted``: its files, where they were read already.

    ``notes`` takes what is to be said of the indexes, and tells each thing once a run.
    Raises InvalidSpecError, ConfigurationError, PackageNotFoundError and UnsatisfiableError (with the resolver's own
    explanation), ChannelUnavailableError where an index can be reached nowhere, DigestMismatchError where a hash that
    was asked for contradicts the index's, Interrupted.
    """
    python = find_python(setup.env)
    settings = load_pip_settings(setup.env, prefix=python.prefix)
    wanted = wanted or read_request(request, setup, reporter)
    with index_reader(setup, settings, wanted.indexes, reporter) as reader:  # files may trust more hosts
        job = _Resolving(
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


class _Resolving:
    """One call of ``resolve_pip``."""

    def __init__(
        self,
        request: PipRequest,
        wanted: Asked,
        *,
        python: TargetPython,
        setup: Setup,
        reporter: Reporter,
        reader: Reader,
        notes: IndexNotes,
        cancelled: Callable[[], bool],
    ) -> None:
        self._request = request
        self._asked = wanted
        self._python = python
        self._setup = setup
        self._reporter = reporter
        self._reader = reader
        self._cancelled = cancelled
        self._started = self._told = time.monotonic()
        self._notes = notes
        # A lock file asks no index: what the default one is need not be found out for it.
        self._where = index_places(wanted.indexes, python, setup, reporter) if wanted.lines else (setup.places, ())
        self._pages, self._catalogue = self._look(thorough=False)

    def _look(self, *, thorough: bool) -> tuple[Pages, Catalogue]:
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
        find_links = self._asked.indexes.find_links
        return pages, Catalogue(pages, indexes=indexes, find_links=find_links, wanted=self._asked.wanted)

    def run(self) -> tuple[PipSolution, ...]:
        for note in self._asked.notes:
            self._reporter.message(note, level="warning")
        if self._asked.lines:
            self._reporter.message("resolving pip packages: reading package indexes", level="info")
        try:
            solutions = self._solve_all()
        except (PackageNotFoundError, UnsatisfiableError):
            if not self._pages.has_more:
                raise
            # perhaps only a kept page, a cache on the way, or one of the mirrors that vouch for each other lacks it
            self._reporter.message("not found in the pages at hand; asking for newer ones", level="info")
            self._pages, self._catalogue = self._look(thorough=True)
            solutions = self._solve_all()
        for note in dict.fromkeys(note for solution in solutions for note in solution.notes):
            self._reporter.message(note, level="info")
        self._notes.tell_each()
        return tuple(replace(solution, artifacts=self._placed(solution.artifacts)) for solution in solutions)

    def _placed(self, artifacts: Sequence[Artifact]) -> tuple[Artifact, ...]:
        """With the places where each may be asked for: by a digest anywhere, without one at its own address."""
        sources = PageSources(self._where[0])
        return tuple(replace(artifact, sources=_sources_of(artifact, sources)) for artifact in artifacts)

    def _solve_all(self) -> list[PipSolution]:
        solutions = []
        for platform in self._platforms():
            parts = [self._read(path, platform) for path in self._asked.locks]
            parts += [self._solve(platform)] if self._asked.lines else []
            solutions.append(replace(joined(parts), glibc=self._chosen_for(platform)))
        return solutions

    def _read(self, path: Path, platform: str) -> PipSolution:
        """What a pylock.toml has for a platform."""
        native = not self._is_elsewhere(platform)
        return read_lock(
            path,
            platform=platform,
            tags=self._tags(platform),
            python=self._request.python or (self._python.full_version if native else self._python.version),
            allow_sdist=self._request.allow_sdist,
            canonical=self._setup.table.canonical,
        )

    def _platforms(self) -> tuple[str, ...]:
        for platform in self._request.platforms:
            assumed(platform)  # refuses one that there are no wheels for
        return self._request.platforms or (native_subdir(),)

    # ------------------------------------------------------------------ one platform

    def _is_elsewhere(self, platform: str) -> bool:
        """Whether it is resolved for another machine: nothing that this one has counts there."""
        return platform != native_subdir() or platform in self._request.machines

    def _glibc(self, platform: str) -> tuple[int, int] | None:
        machine = self._request.machines.get(platform)
        return None if machine is None else machine.glibc

    def _chosen_for(self, platform: str) -> tuple[int, int] | None:
        """The C library that the wheels for another Linux may want."""
        if not platform.startswith("linux-") or not self._is_elsewhere(platform):
            return None
        return self._glibc(platform) or ASSUMED_GLIBC

    def _about(self, platform: str, python: str) -> str:
        """What to tell of another machine."""
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
        with Gateway(self._catalogue, python=target, with_files=self._request.allow_sdist) as gateway:
            request = self._uv_request(platform, python, gateway)
            while True:
                try:
                    locked = lock(request, env=self._setup.env, cancelled=self._stopped)
                except UvRefusedError as refused:
                    raise self._refusal(gateway, refused, target) from None
                for error in gateway.errors:
                    # uv may have found an answer without that page
                    if isinstance(error, (InternalError, IntegrityError)):
                        raise error
                files = [(each, _file(gateway, each)) for each in locked]
                for _, file in files:
                    self._catalogue.check(file)
                if not self._leave_out(files, gateway, target):
                    return self._solution(platform, python or self._python.version, files)

    def _uv_request(self, platform: str, python: str | None, gateway: Gateway) -> UvRequest:
        foreign = self._is_elsewhere(platform)
        interpreter = self._python.executable
        if not _knows_uv(self._python.version):  # for its version ours stands, which uv can ask about this machine
            python, interpreter = python or self._python.version, Path(sys.executable)
        indexes = gateway.indexes()
        return UvRequest(
            requirements=self._asked.lines,
            constraints=self._asked.constraints,
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
            pre=self._asked.indexes.pre,
            no_deps=self._request.no_deps,
        )

    def _tags(self, platform: str) -> list[Tag]:
        """The wheel tags that count for a platform, the best first; for this machine those of the very Python."""
        python = self._request.python or self._python.version
        if self._is_elsewhere(platform):
            return tags_for(python, platform, self._glibc(platform))
        own = [] if self._request.python else tags_of(self._python.executable, self._setup.env)
        return own or tags_for(python, None)

    def _leave_out(self, files: Sequence[tuple[LockedFile, ListedFile]], gateway: Gateway, python: str) -> bool:
        """Take the versions away whose METADATA, which their page does not repeat, refuses this Python."""
        found = self._each(self._catalogue.requires_python, [file for _, file in files])
        wrong = [(*each, requires) for each, requires in zip(files, found, strict=True) if not takes(requires, python)]
        for locked, file, requires in wrong:
            text = f"passed over: {locked.name} {locked.version} is for Python {requires}, this is {python}"
            self._reporter.message(text, level="info")
            same = [each for each in self._catalogue.listed(locked.name) if version_of(each) == version_of(file)]
            gateway.left_out.update({each.url: requires for each in (file, *same)})
        return bool(wrong)

    def _stopped(self) -> bool:
        if self._cancelled():
            self._reader.stop()
            return True
        now = time.monotonic()
        if now - self._told >= _SILENCE:
            self._told = now
            text = f"resolving: {self._pages.read} index pages and metadata files read"
            self._reporter.message(f"{text} in {now - self._started:.0f} s", level="info")
        return False

    def _refusal(self, gateway: Gateway, refused: UvRefusedError, python: str) -> BaseException:
        """The error that people should see: what went wrong behind the gateway comes before what uv makes of it."""
        told = [error for error in gateway.errors if not isinstance(error, Interrupted)]
        if told:
            return told[0]
        silent = self._notes.hint(self._asked.names)
        if gateway.stray:
            strays = ", ".join(sorted(gateway.stray))
            silent = "; ".join(filter(None, (silent, f"{strays}: addresses count only in the request itself")))

        def listed(name: str) -> list[ListedFile]:
            return [
                replace(file, requires_python=gateway.left_out.get(file.url, file.requires_python))
                for file in self._catalogue.listed(name)
            ]

        return refusal(gateway.shown(refused.explanation), listed, python=python, unreached=silent)

    def _solution(self, platform: str, python: str, files: Sequence[tuple[LockedFile, ListedFile]]) -> PipSolution:
        sizes = self._each(self._catalogue.size, [file for _, file in files])
        return solution_of(
            [Chosen(each, file, size) for (each, file), size in zip(files, sizes, strict=True)],
            self._asked,
            platform=platform,
            python=python,
            read_whole=self._catalogue.read_whole,
            told=self._about(platform, python),
        )

    def _each(self, ask: Callable[[ListedFile], _T], files: Sequence[ListedFile]) -> list[_T]:
        """What is asked about each of them, several at a time, while the user may stop it."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = [pool.submit(_named, ask, file) for file in files]
            while wait(asked, timeout=_POLL).not_done and not self._stopped():
                pass
            return [each.result() for each in asked]  # those that were stopped say so


def _sources_of(artifact: Artifact, sources: PageSources) -> tuple[Source, ...]:
    """Where it may be asked for; its own address first where the engine knows no digest of it before its end."""
    known = {**artifact.record.get("hashes", {}), **dict(each.split(":", 1) for each in artifact.record["allowed"])}
    file = ListedFile(artifact.filename, artifact.url.reveal(), hashes=known)
    own, every = sources.own(file), sources.places.of(artifact.url)
    if not file.is_identified:
        return own
    return every if artifact.digest is not None else (*own, *(source for source in every if source not in own))


def _named(ask: Callable[[ListedFile], _T], file: ListedFile) -> _T:
    """What is asked about a file; an exception that nothing expected names it."""
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


def _knows_uv(version: str) -> bool:
    """Whether uv can run a Python of this version to learn of its machine; a new uv may stop with any old one."""
    major, _, minor = version.partition(".")
    return (int(major), int(minor)) >= _OLDEST

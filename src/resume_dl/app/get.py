"""Any URL, resumable: verified by a digest that the user gives, or said to be unverified."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from resume_dl import fs
from resume_dl.app.pipeline import Batch, run
from resume_dl.errors import (
    ConfigurationError,
    DigestMismatchError,
    NoNetworkError,
    NotWritableError,
    SourcesExhaustedError,
)
from resume_dl.model.artifact import Artifact, Source, safe_filename
from resume_dl.model.digest import Digest
from resume_dl.model.mirror import GIVEN
from resume_dl.model.units import show_bytes
from resume_dl.model.url import RedactedUrl, redact
from resume_dl.ports import ArtifactProgress, Reporter
from resume_dl.store.part import hash_file
from resume_dl.transfer.destination import refuse_others_link
from resume_dl.transfer.plan import Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.single_files import SingleFiles

FIRST_WORD = 0.8
"""Seconds without an answer until that is said: the engine tells of each file once a second at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """What ``resume-dl get`` was asked for."""

    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    output: Path | None = None
    """The file to write."""
    folder: Path | None = None
    """The folder to write into, made if it is not there; else the current one."""
    force: bool = False
    """Overwrite another file that is there."""
    mirror_urls: tuple[str, ...] = ()
    """The same bytes elsewhere; only with one URL."""


def get(
    request: GetRequest, setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool] = lambda: False
) -> RunResult:
    """Download each URL to where ``request`` says. Raises ConfigurationError or StoreError."""
    started = time.monotonic()
    result = run([Addresses(request, setup, reporter, cancelled)], RunResult("get"))
    result.elapsed = time.monotonic() - started
    return result


class Addresses(Batch):
    """The files at the addresses of one request."""

    def __init__(self, request: GetRequest, setup: Setup, reporter: Reporter, cancelled: Callable[[], bool]) -> None:
        super().__init__(setup, reporter, cancelled)
        self._request = request

    def resolve(self) -> Wanted:
        """Each address as an artifact with its place. Raises ConfigurationError or NotWritableError."""
        request = self._request
        _check(request)
        if request.folder is not None:
            _make(request.folder)
        paths: dict[str, Path] = {}
        artifacts: list[Artifact] = []
        for url in dict.fromkeys(request.urls):
            path, artifact = _target(url, request, self.setup)
            if path in paths.values():
                hint = "get them one at a time with -o"
                raise ConfigurationError(f"two of the addresses would become {path}", hint=hint)
            paths[artifact.key] = path
            artifacts.append(artifact)
        self.destination = SingleFiles(paths, force=request.force, offline=self.setup.options.offline)
        self.reporter = Narrator(self.reporter, artifacts)
        # no newer record can be asked for: sources that seem to agree against a digest are compared to the end
        return Wanted(artifacts, thorough={*paths})

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Name the files that nothing was verified by, and what may help where one failed."""
        for each in done:
            _advise(each, self.setup)
        result.notes = tuple(
            f"{each.artifact.filename} is not verified: no digest was given; "
            f"its sha256 is {hash_file(each.path, 'sha256')}"
            for each in done
            if each.error is None and each.artifact.digest is None and each.path is not None
        )
        for note in result.notes:
            self.reporter.message(note, level="warning")


def _check(request: GetRequest) -> None:
    """Refuse options that contradict each other, and what is no address."""
    if request.sha256 and request.md5:
        raise ConfigurationError("--sha256 and --md5 are two digests of one file", hint="give the sha256 alone")
    if len(request.urls) > 1 and (request.output or request.sha256 or request.md5 or request.mirror_urls):
        raise ConfigurationError(
            "-o FILE, --sha256, --md5 and --mirror-url are of one file",
            hint="get one URL at a time; several go into one folder with -o DIR/",
        )
    if strange := [url for url in request.urls if not url.lower().startswith(("http://", "https://", "file://"))]:
        raise ConfigurationError(
            f"{redact(strange[0])}: not an address", hint="it begins with https://, http:// or file://"
        )


def _target(url: str, request: GetRequest, setup: Setup) -> tuple[Path, Artifact]:
    """Where the file of ``url`` goes, and what is known of it."""
    try:
        name = unquote(urlsplit(url).path.rpartition("/")[2])
        wanted = request.output or (request.folder or Path()) / safe_filename(name)
        path = _place(wanted, named=request.output is not None)
        for algorithm, value in (("sha256", request.sha256), ("md5", request.md5)):
            if value:
                Digest(algorithm, value.lower())
        artifact = Artifact(
            kind="file",
            filename=path.name,
            url=RedactedUrl(url),
            sha256=request.sha256 and request.sha256.lower(),
            md5=request.md5 and request.md5.lower(),
            name=path.name,
            sources=_sources(url, request, setup),
        )
    except ValueError as error:
        raise ConfigurationError(f"{redact(url)}: {error}", hint="see resume-dl get --help") from None
    return path, artifact


def _make(folder: Path) -> None:
    refuse_others_link(folder, "name another folder with -o DIR/")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"{folder} cannot be made: {error.strerror or error}"
        raise NotWritableError(why, hint="name another folder with -o DIR/") from error


def _place(wanted: Path, *, named: bool) -> Path:
    """Where the file will be, links followed but another user's; only a regular, writable one is replaced.

    Raises NotWritableError.
    """
    refuse_others_link(wanted, "name another file with -o")
    try:
        path = fs.roomy(wanted.resolve())
        kind = path.stat().st_mode if path.exists() else None
        parent = path.parent.is_dir()
    except (OSError, RuntimeError) as error:
        raise NotWritableError(f"{wanted} is no place for a file: {error}", hint="name a file with -o") from error
    hint = "name another file with -o" if named else "name a file with -o"
    if not parent:
        missing = "is not a folder" if path.parent.exists() else "is not there"
        raise NotWritableError(f"{path.parent} {missing}", hint=hint)
    if kind is not None and not (stat.S_ISREG(kind) and kind & stat.S_IWUSR):
        raise NotWritableError(f"{path} is no regular file that may be written", hint=hint)
    return path


def _sources(url: str, request: GetRequest, setup: Setup) -> tuple[Source, ...]:
    found = {source.url.reveal(): source for source in setup.places.of(RedactedUrl(url))}
    for each in dict.fromkeys(request.mirror_urls):
        named = sum(source.mirror.partition("-")[0] == GIVEN for source in found.values())
        found.setdefault(each, Source(f"{GIVEN}-{named + 1}" if named else GIVEN, RedactedUrl(each)))
    if not found and not setup.rules.permit_file(RedactedUrl(url)):
        raise ConfigurationError(
            f"your conda settings do not allow the channel of {redact(url)}",
            hint="see allowlist_channels and denylist_channels in `conda config --show`",
        )
    return tuple(found.values())


class Narrator:
    """A reporter that also says where a file goes on, and that its hosts have not answered yet; once each.

    Where it goes on is what the engine believes of the part file. ``clock`` gives seconds.
    """

    def __init__(
        self, reporter: Reporter, artifacts: Sequence[Artifact], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._reporter = reporter
        self._clock = clock
        self._hosts = {
            each.key: ", ".join(dict.fromkeys(source.url.host for source in each.sources)) for each in artifacts
        }
        self._resumed: set[str] = set()
        self._asked_at: dict[str, float] = {}
        """By the key of each file: since when it waits for its first byte."""
        self._silent: set[str] = set()
        self.plan, self.message = reporter.plan, reporter.message
        self.event, self.close = reporter.event, reporter.close

    def progress(self, progress: ArtifactProgress) -> None:
        """Pass it on; before it, once, where the file goes on, or that nothing comes."""
        if progress.state == "downloading":
            if progress.resumed and progress.key not in self._resumed:
                self._resumed.add(progress.key)
                of = "" if progress.size is None else f" of {show_bytes(progress.size)}"
                self._reporter.message(f"{progress.filename}: resuming at {show_bytes(progress.resumed)}{of}")
            if progress.done <= progress.resumed:
                self._tell_silence(progress.key)
        self._reporter.progress(progress)

    def _tell_silence(self, key: str) -> None:
        now, hosts = self._clock(), self._hosts.get(key, "")
        if now - self._asked_at.setdefault(key, now) >= FIRST_WORD and hosts and hosts not in self._silent:
            self._silent.add(hosts)
            self._reporter.message(f"waiting for an answer from {hosts}")


def _advise(result: ArtifactResult, setup: Setup) -> None:
    """Give the error of a file a hint of options that ``get`` has, and that can help for an address of its own."""
    error = result.error
    of_no_mirror = setup.table.origin_of(result.artifact.url.reveal()) is None
    kept = "; what is on disk is kept" if error is not None and error.resumable_bytes else ""
    if isinstance(error, DigestMismatchError):
        error.hint = f"the digest that was given may be wrong, or try another place with --mirror-url{kept}"
    elif isinstance(error, NotWritableError):
        error.hint = error.hint.replace("choose another folder with --pkgs-dir", "name another place with -o")
    elif of_no_mirror and isinstance(error, SourcesExhaustedError) and not isinstance(error, NoNetworkError):
        first = f"{error.restarting}:" if error.restarting else "check the address, or"
        error.hint = f"{first} name another place of the same file with --mirror-url{kept}"

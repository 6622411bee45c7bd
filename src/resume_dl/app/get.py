"""``get``: download any URL, resumable; verified if the user gives a digest, else reported as unverified."""

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

SILENCE = 0.8
"""Seconds without an answer after which that is reported; the engine reports each file at least once a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """The arguments of ``resume-dl get``."""

    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    output: Path | None = None
    """The file to write."""
    folder: Path | None = None
    """The folder to write into, created if missing; the current one if None."""
    force: bool = False
    """Overwrite an existing file."""
    mirror_urls: tuple[str, ...] = ()
    """Other URLs of the same bytes; only with one URL."""


def get(
    request: GetRequest, setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool] = lambda: False
) -> RunResult:
    """Download each URL of ``request``. Raises ConfigurationError or StoreError."""
    return get_all([request], setup, reporter, cancelled=cancelled)


def get_all(
    requests: Sequence[GetRequest], setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool] = lambda: False
) -> RunResult:
    """Download the URLs of all requests together. Raises ConfigurationError or StoreError."""
    started = time.monotonic()
    result = run([UrlFiles(requests, setup, reporter, cancelled)], RunResult("get"))
    result.elapsed = time.monotonic() - started
    return result


class UrlFiles(Batch):
    """The files of the requests' URLs; ``force`` of one request is that of all."""

    def __init__(
        self, requests: Sequence[GetRequest], setup: Setup, reporter: Reporter, cancelled: Callable[[], bool]
    ) -> None:
        super().__init__(setup, reporter, cancelled)
        self._requests = requests

    def resolve(self) -> Wanted:
        """Turn each URL into an artifact with its path. Raises ConfigurationError or NotWritableError."""
        paths: dict[str, Path] = {}
        artifacts: list[Artifact] = []
        for request in self._requests:
            _check(request)
            if request.folder is not None:
                _make_folder(request.folder)
            for url in dict.fromkeys(request.urls):
                path, artifact = _target(url, request, self.setup)
                if path in paths.values():
                    hint = "get them one at a time with -o"
                    raise ConfigurationError(f"two URLs would be written to {path}", hint=hint)
                paths[artifact.key] = path
                artifacts.append(artifact)
        force = any(request.force for request in self._requests)
        self.destination = SingleFiles(paths, force=force, offline=self.setup.options.offline, cancelled=self.cancelled)
        self.reporter = WaitReporter(self.reporter, artifacts)
        # there is no newer record: sources that seem to agree against a digest are compared to the end
        return Wanted(artifacts, thorough={*paths})

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """List the files that could not be verified, and add hints to errors."""
        for each in done:
            _advise(each, self.setup)
        result.notes = tuple(
            f"{each.artifact.filename} is not verified: no digest was given; "
            f"its sha256 is {hash_file(each.path, 'sha256', self.cancelled)}"
            for each in done
            if each.error is None and each.artifact.digest is None and each.path is not None
        )
        for note in result.notes:
            self.reporter.message(note, level="warning")


def _check(request: GetRequest) -> None:
    """Refuse options that contradict each other, and arguments that are not URLs."""
    if request.sha256 and request.md5:
        raise ConfigurationError("--sha256 and --md5 exclude each other", hint="give the sha256 only")
    if len(request.urls) > 1 and (request.output or request.sha256 or request.md5 or request.mirror_urls):
        raise ConfigurationError(
            "-o FILE, --sha256, --md5 and --mirror-url need exactly one URL",
            hint="get one URL at a time, or several into one folder with -o DIR/",
        )
    if strange := [url for url in request.urls if not url.lower().startswith(("http://", "https://", "file://"))]:
        raise ConfigurationError(
            f"{redact(strange[0])} is not a URL", hint="a URL begins with https://, http:// or file://"
        )


def _target(url: str, request: GetRequest, setup: Setup) -> tuple[Path, Artifact]:
    """The path and the artifact of ``url``."""
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


def _make_folder(folder: Path) -> None:
    refuse_others_link(folder, "name another folder with -o DIR/")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        why = f"cannot create {folder}: {error.strerror or error}"
        raise NotWritableError(why, hint="name another folder with -o DIR/") from error


def _place(wanted: Path, *, named: bool) -> Path:
    """The path of the file, with links followed unless they are another user's; it may replace a regular file only.

    Raises NotWritableError.
    """
    refuse_others_link(wanted, "name another file with -o")
    try:
        path = fs.roomy(wanted.resolve())
        kind = path.stat().st_mode if path.exists() else None
        parent = path.parent.is_dir()
    except (OSError, RuntimeError) as error:
        raise NotWritableError(f"cannot write to {wanted}: {error}", hint="name a file with -o") from error
    hint = "name another file with -o" if named else "name a file with -o"
    if not parent:
        missing = "is not a folder" if path.parent.exists() else "does not exist"
        raise NotWritableError(f"{path.parent} {missing}", hint=hint)
    if kind is not None and not (stat.S_ISREG(kind) and kind & stat.S_IWUSR):
        raise NotWritableError(f"{path} is not a writable regular file", hint=hint)
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


class WaitReporter:
    """A reporter that also reports, once each, where a file is resumed and which hosts have not answered yet.

    A file is resumed after the bytes of the part file that the engine trusts. ``clock`` returns seconds.
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
        """Key of a file -> when it began to wait for its first byte."""
        self._silent: set[str] = set()
        self.plan, self.message = reporter.plan, reporter.message
        self.event, self.close = reporter.event, reporter.close

    def progress(self, progress: ArtifactProgress) -> None:
        """Forward ``progress``; report a resume or a silent host first."""
        if progress.state == "downloading":
            if progress.resumed and progress.key not in self._resumed:
                self._resumed.add(progress.key)
                of = "" if progress.size is None else f" of {show_bytes(progress.size)}"
                self._reporter.message(f"{progress.filename}: resuming at {show_bytes(progress.resumed)}{of}")
            if progress.done <= progress.resumed:
                self._report_silence(progress.key)
        self._reporter.progress(progress)

    def _report_silence(self, key: str) -> None:
        now, hosts = self._clock(), self._hosts.get(key, "")
        if now - self._asked_at.setdefault(key, now) >= SILENCE and hosts and hosts not in self._silent:
            self._silent.add(hosts)
            self._reporter.message(f"waiting for an answer from {hosts}")


def _advise(result: ArtifactResult, setup: Setup) -> None:
    """Replace an error's hint by one that names options of ``get``."""
    error = result.error
    of_no_mirror = setup.table.origin_of(result.artifact.url.reveal()) is None
    kept = "; what is on disk is kept" if error is not None and error.resumable_bytes else ""
    if isinstance(error, DigestMismatchError):
        error.hint = f"the given digest may be wrong, or give another URL of the file with --mirror-url{kept}"
    elif isinstance(error, NotWritableError):
        error.hint = error.hint.replace("choose another folder with --pkgs-dir", "choose another path with -o")
    elif of_no_mirror and isinstance(error, SourcesExhaustedError) and not isinstance(error, NoNetworkError):
        first = f"{error.restarting}:" if error.restarting else "check the URL, or"
        error.hint = f"{first} give another URL of the same file with --mirror-url{kept}"

"""The programming interface: ``from resume_dl import Artifact, Downloader, fetch`` (docs/api.md).

Settings are those of the commands: mirrors.toml, condarc, pip.conf, proxies, logins. Messages go to the logger
``resume_dl``. Errors are the classes of ``resume_dl.errors``. Ctrl-C ends a call cleanly with KeyboardInterrupt; what
is on disk is kept, and the same call continues with it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.model.url import redact
from resume_dl.ports import ArtifactProgress, PlannedFile
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup, TransferOptions, load_setup

__all__ = ["Artifact", "Downloaded", "Downloader", "Progress", "ProgressCallback", "fetch"]

_LEVELS = {"debug": logging.DEBUG, "warning": logging.WARNING, "error": logging.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One file's progress; counts in bytes."""

    filename: str
    done: int
    """On disk, those of earlier runs included."""
    resumed: int
    """How many of ``done`` are from earlier runs."""
    size: int | None
    """None while it is unknown."""
    state: str
    """``downloading``, ``verifying``, ``downloaded``, ``failed`` and the like, as in ``--progress json``."""


ProgressCallback = Callable[[Progress], object]
"""Called in the caller's thread, at most ten times a second for each file. Its exception ends the call."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file to download. Without a digest it is kept unverified, which ``Downloaded.verified_by`` says."""

    url: str = field(repr=False)
    """``https://``, ``http://`` or ``file://``."""
    sha256: str | None = None
    """In hex."""
    md5: str | None = None
    """In hex; used if no SHA-256 is known."""
    filename: str | None = None
    """Name below the downloader's folder; default: the last part of the URL."""
    mirrors: tuple[str, ...] = field(default=(), repr=False)
    """Other URLs of the same bytes, used at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Downloaded:
    """A finished file; counts in bytes."""

    filename: str
    url: str
    """The canonical URL without logins."""
    path: Path | None
    """Where it is; None after ``dry_run``."""
    size: int | None
    sha256: str | None
    """The digest of its index or of the ``Artifact``, if that has one."""
    verified_by: str | None
    """``digest``, ``record`` or ``pin`` as in docs/interface.md; None if it is unverified."""
    downloaded: int
    """Received in this call and kept."""
    resumed: int
    """On disk from earlier calls or runs."""
    status: str
    """``downloaded``, ``resumed``, ``cached``, or ``planned`` after ``dry_run``."""


class Downloader:
    """Downloads files into a folder, resumable, from all their mirrors at once; no connection is kept between calls."""

    def __init__(
        self,
        folder: str | os.PathLike[str] = ".",
        *,
        progress: ProgressCallback | None = None,
        overwrite: bool = False,
        connections: int | None = None,
        limit_rate: float | None = None,
        give_up_after: float | None = None,
        mirrors: Sequence[str] = (),
    ) -> None:
        """``folder`` is created if missing.

        ``limit_rate``: bytes per second. ``give_up_after``: seconds without a byte from any source. ``mirrors``: use
        only these mirrors of the table.
        """
        self._folder = Path(folder)
        self._progress = progress
        self._overwrite = overwrite
        self._options = TransferOptions(
            connections=connections, limit_rate=limit_rate, give_up_after=give_up_after, mirrors=tuple(mirrors)
        )

    def download(self, *artifacts: Artifact | str) -> list[Downloaded]:
        """Download the files, of which a string is the URL, and return them in order.

        If some fail, the others are finished first; then the first error is raised.
        """
        from resume_dl.app.get import GetRequest, get_all  # noqa: PLC0415 - loaded when used

        requests = [self._request_of(each, GetRequest) for each in artifacts]
        return _run(self._options, self._progress, lambda *call: get_all(requests, call[0], call[1], cancelled=call[2]))

    def _request_of(self, wanted: Artifact | str, request: type[Any]) -> Any:
        each = Artifact(wanted) if isinstance(wanted, str) else wanted
        output = None
        if each.filename is not None:
            output = self._folder / each.filename
            self._folder.mkdir(parents=True, exist_ok=True)
        return request(
            urls=(each.url,),
            sha256=each.sha256,
            md5=None if each.sha256 else each.md5,
            output=output,
            folder=None if output else self._folder,
            force=self._overwrite,
            mirror_urls=each.mirrors,
        )


def fetch(
    *specs: str,
    channels: Sequence[str] = (),
    pip: Sequence[str] = (),
    dest: str | os.PathLike[str] | None = None,
    platform: str | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
) -> list[Downloaded]:
    """Resolve conda ``specs`` and ``pip`` requirements, and download their packages, as ``resume-dl fetch`` does.

    conda packages come into conda's package cache and wheels into our cache, or both into the folder ``dest``.
    ``channels`` precede those of condarc. ``platform``: conda's subdir (``win-64``); default: this machine's.
    """
    from resume_dl.app import fetch as use_case  # noqa: PLC0415 - loaded when used
    from resume_dl.resolution.fetch_request import FetchRequest, PipOptions  # noqa: PLC0415 - as above

    request = FetchRequest(
        specs=specs,
        channels=tuple(channels),
        platforms=(platform,) if platform else (),
        dest=None if dest is None else Path(dest),
        dry_run=dry_run,
        pip=PipOptions(requirements=tuple(pip)),
    )
    return _run(TransferOptions(), progress, lambda *call: use_case.fetch(request, call[0], call[1], cancelled=call[2]))


_Call = Callable[[Setup, "_Reporter", Callable[[], bool]], RunResult]


def _run(options: TransferOptions, progress: ProgressCallback | None, call: _Call) -> list[Downloaded]:
    """Run ``call`` with the user's settings. Raises the callback's exception, KeyboardInterrupt, or a ResumeDLError."""
    stop = threading.Event()
    reporter = _Reporter(progress, stop)
    interrupted = threading.Event()

    def interrupt(number: int, frame: object) -> None:
        del number, frame
        interrupted.set()
        stop.set()

    result = error = None
    with _on_interrupt(interrupt):
        try:
            result = call(load_setup(options, os.environ), reporter, stop.is_set)
        except ResumeDLError as caught:
            error = caught
    if reporter.failure is not None:
        raise reporter.failure
    if interrupted.is_set():
        raise KeyboardInterrupt
    errors = [] if result is None else [result.error, *(each.error for each in result.artifacts)]
    failed = error or next((each for each in errors if each is not None and not isinstance(each, Interrupted)), None)
    if failed is not None:
        raise failed
    return [] if result is None else [_downloaded(each) for each in result.artifacts]


def _downloaded(result: ArtifactResult) -> Downloaded:
    artifact = result.artifact
    return Downloaded(
        filename=artifact.filename,
        url=redact(artifact.url.reveal()),
        path=result.path,
        size=artifact.size,
        sha256=artifact.sha256,
        verified_by=result.verified_by,
        downloaded=result.downloaded,
        resumed=result.resumed,
        status=result.status,
    )


@contextmanager
def _on_interrupt(handler: Callable[[int, object], None]) -> Iterator[None]:
    """Let ``handler`` receive Ctrl-C while the block runs, unless the program has a handler of its own."""
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class _Reporter:
    """A ``ports.Reporter`` that calls the user's function; its first exception stops the run."""

    def __init__(self, progress: ProgressCallback | None, stop: threading.Event) -> None:
        self._progress = progress
        self._stop = stop
        self._log = logging.getLogger("resume_dl")
        self.failure: BaseException | None = None

    def plan(self, files: Sequence[PlannedFile], *, replaces: Collection[str] = ()) -> None:
        """Not reported."""

    def progress(self, progress: ArtifactProgress) -> None:
        if self._progress is None or self.failure is not None or progress.index:
            return
        one = Progress(
            filename=progress.filename,
            done=progress.done,
            resumed=progress.resumed,
            size=progress.size,
            state=progress.state,
        )
        try:
            self._progress(one)
        except BaseException as error:  # noqa: BLE001 - the engine must end by itself; it is raised again then
            self.failure = error
            self._stop.set()

    def message(self, text: str, *, level: str = "info") -> None:
        self._log.log(_LEVELS.get(level, logging.INFO), "%s", text)

    def event(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Not reported."""

    def close(self) -> None:
        """Do nothing: nothing is open."""

"""Any URL, resumable: verified by a digest that the user gives, or said to be unverified."""

from __future__ import annotations

import stat
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from resume_dl.app.plan import measured, plan_folder
from resume_dl.app.report import ArtifactResult, RunResult
from resume_dl.app.setup import Setup, engine_for
from resume_dl.engine.job import Job
from resume_dl.errors import ConfigurationError, DigestMismatchError, NotWritableError, TransferError
from resume_dl.model.artifact import Artifact, Source, safe_filename
from resume_dl.model.digest import Digest
from resume_dl.model.mirror import GIVEN
from resume_dl.model.url import RedactedUrl, redact
from resume_dl.ports import Reporter
from resume_dl.store.part import FOLDER, PartStore, hash_file


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """What ``resume-dl get`` was asked for."""

    urls: tuple[str, ...]
    sha256: str | None = None
    md5: str | None = None
    output: Path | None = None
    mirror_urls: tuple[str, ...] = ()
    """The same bytes elsewhere; only with one URL."""


def get(
    request: GetRequest, setup: Setup, reporter: Reporter, *, cancelled: Callable[[], bool] = lambda: False
) -> RunResult:
    """Download each URL into the current folder (or ``output``). Raises ConfigurationError or StoreError."""
    started = time.monotonic()
    targets = _targets(request, setup)
    planned = {each.artifact.key: each for path, artifact in targets for each in plan_folder([artifact], path.parent)}
    artifacts = [artifact for _, artifact in targets]
    reporter.plan(artifacts, sum(a.size or 0 for a in artifacts), 0)
    result = RunResult("get")
    jobs, results = [], {}
    for path, artifact in targets:
        there = planned[artifact.key]
        if there.state == "cached":
            results[artifact.key] = ArtifactResult(measured(artifact, path), "cached", there.path)
        else:
            jobs.append(_job(path, artifact))
    if jobs and setup.options.offline:
        raise TransferError("nothing can be downloaded with --offline", hint="run it without --offline")
    with engine_for(setup, reporter, cancelled) as engine:
        for outcome in engine.run(jobs):
            path = next(path for path, artifact in targets if artifact.key == outcome.artifact.key)
            if isinstance(outcome.error, DigestMismatchError):
                own = "the digest that was given may be wrong, or try another place with --mirror-url"
                outcome.error.hint = f"{own}; {outcome.error.hint}"
            results[outcome.artifact.key] = ArtifactResult(
                measured(outcome.artifact, path) if outcome.error is None else outcome.artifact,
                outcome.status,
                path if outcome.error is None else None,
                outcome.downloaded,
                outcome.resumed,
                outcome.wasted,
                outcome.sources,
                outcome.error,
            )
    for folder in {path.parent / FOLDER for path, _ in targets}:
        with suppress(OSError):  # not empty: something is unfinished there
            folder.rmdir()
    result.artifacts = [results[artifact.key] for artifact in artifacts]
    unverified = [each for each in result.artifacts if each.error is None and each.artifact.digest is None]
    result.notes = tuple(
        f"{each.artifact.filename} is not verified: no digest was given; its sha256 is {hash_file(each.path, 'sha256')}"
        for each in unverified
        if each.path is not None
    )
    for note in result.notes:
        reporter.message(note, level="warning")
    result.elapsed = time.monotonic() - started
    return result


def _targets(request: GetRequest, setup: Setup) -> list[tuple[Path, Artifact]]:
    if request.sha256 and request.md5:
        raise ConfigurationError("--sha256 and --md5 are two digests of one file", hint="give the sha256 alone")
    if len(request.urls) > 1 and (request.output or request.sha256 or request.md5 or request.mirror_urls):
        raise ConfigurationError("-o, --sha256, --md5 and --mirror-url speak of one file", hint="get one URL at a time")
    targets: list[tuple[Path, Artifact]] = []
    if strange := [url for url in request.urls if not url.lower().startswith(("http://", "https://", "file://"))]:
        raise ConfigurationError(
            f"{redact(strange[0])}: not an address", hint="it begins with https://, http:// or file://"
        )
    for url in dict.fromkeys(request.urls):
        try:
            parts = urlsplit(url)
            name = unquote(parts.path.rpartition("/")[2])
            path = _place(request.output or Path(safe_filename(name)), named=request.output is not None)
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
        if any(path == other for other, _ in targets):
            raise ConfigurationError(f"two of the addresses would become {path}", hint="get them one at a time with -o")
        there = plan_folder([artifact], path.parent)[0].state == "cached"
        if request.output is None and path.exists() and not there:
            raise NotWritableError(f"{path} is there already", hint="name a file with -o; the same to replace it")
        targets.append((path, artifact))
    return targets


def _place(wanted: Path, *, named: bool) -> Path:
    """Where the file will be, links followed; only a regular, writable one is replaced. Raises NotWritableError."""
    try:
        path = wanted.resolve()
        kind = path.stat().st_mode if path.exists() else None
        parent = path.parent.is_dir()
    except (OSError, RuntimeError) as error:
        raise NotWritableError(f"{wanted} is no place for a file: {error}", hint="name a file with -o") from error
    hint = "name another file with -o" if named else "name a file with -o"
    if not parent:
        raise NotWritableError(f"{path.parent} is not there", hint=hint)
    if kind is not None and not (stat.S_ISREG(kind) and kind & stat.S_IWUSR):
        raise NotWritableError(f"{path} is no regular file that may be written", hint=hint)
    return path


def _sources(url: str, request: GetRequest, setup: Setup) -> tuple[Source, ...]:
    given = [Source(GIVEN, RedactedUrl(each)) for each in request.mirror_urls]
    found = {source.url.reveal(): source for source in (*setup.places.of(RedactedUrl(url)), *given)}
    if not found and not setup.rules.permit_file(RedactedUrl(url)):
        raise ConfigurationError(
            f"your conda settings do not allow the channel of {redact(url)}",
            hint="see allowlist_channels and denylist_channels in `conda config --show`",
        )
    return tuple(found.values())


def _job(path: Path, artifact: Artifact) -> Job:
    def is_published() -> bool:
        return any(each.state == "cached" for each in plan_folder([artifact], path.parent))

    # there is no newer record to ask for: sources that seem to agree against its digest are compared to the end
    return Job(artifact, PartStore(path.parent / FOLDER), path, is_published, thorough=True)

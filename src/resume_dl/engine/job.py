"""The engine's input (Job), its result (Outcome), and the errors of failed jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.core.actions import Fail
from resume_dl.core.failures import FailureKind
from resume_dl.errors import (
    DigestMismatchError,
    Interrupted,
    LockedError,
    NoNetworkError,
    ResumeDLError,
    SourcesExhaustedError,
    StoreError,
    internal_error,
)
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.http import CacheHeaders
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import PartStore

NOTHING_SAID = CacheHeaders()
_UNBOUND = "the server gave no length, or no ETag or date that identifies the version: it starts from the first byte"
_OF_PIP = {"wheel", "sdist"}
_NO_RANGES = {FailureKind.RANGE_IGNORED.value, FailureKind.RANGE_WRONG.value}


def _never() -> bool:
    return False


def _anything(_: int) -> None:
    """Accept any size."""


@dataclass(frozen=True, slots=True)
class Job:
    """Downloads ``artifact`` into ``store`` and publishes it at ``destination``.

    ``is_published`` is called once its lock is held: whether another process has finished it meanwhile.
    """

    artifact: Artifact
    store: PartStore
    destination: Path
    is_published: Callable[[], bool] = _never
    known: Mapping[RedactedUrl, CacheHeaders] = field(default_factory=dict)
    """The cache headers with which each source served the caller's copy. An unchanged file ends with the reason
    ``unchanged``. Each source is sent only its own."""
    thorough: bool = False
    """If the sources seem to agree against the record: compare every byte instead of asking for a newer record."""
    replaceable: bool = False
    """The caller has other sources: give these up soon if nothing comes from them."""
    last_chance: bool = False
    """These were given up so, and the other sources failed too: wait a little longer for them, once."""
    check_size: Callable[[int], None] = _anything
    """Called with the size in bytes if a response is the first to give it; raises if the file is too large."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers of every request for it (``Cache-Control`` to bypass caches)."""
    largest: int | None = None
    """The most bytes; a source with a larger file is refused. For files whose size is in no record."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """One mirror's part in one file: bytes kept, and the number of its failures by kind."""

    mirror: str
    bytes: int
    failures: Mapping[str, int]
    answered_by: tuple[str, ...] = ()
    """The hosts that answered, redirects followed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one job ended. Counts in bytes; ``reason`` is the core's (``actions.Fail``), empty when it went well."""

    artifact: Artifact
    status: str
    downloaded: int = 0
    resumed: int = 0
    wasted: int = 0
    sources: tuple[SourceReport, ...] = ()
    error: ResumeDLError | None = None
    reason: str = ""
    said: CacheHeaders = NOTHING_SAID
    """For a file without a digest: the source's cache headers, with which a later request asks for changes."""
    agreeing: tuple[str, ...] = ()
    """The mirrors whose bytes agree with each other but not with the record (reasons ``disputed`` and ``record``)."""


def labels_of(sources: Sequence[Source]) -> list[str]:
    """Return each source's name in journals: its redacted URL, with a hash of the full one if several look alike."""
    shown = [str(source.url) for source in sources]
    return [
        label if shown.count(label) == 1 else f"{label}#{source.url.fingerprint}"
        for label, source in zip(shown, sources, strict=True)
    ]


def error_of(
    fail: Fail,
    artifact: Artifact,
    sources: tuple[Source, ...],
    failures: Sequence[Mapping[str, int]] = (),
    *,
    received: int = 0,
) -> ResumeDLError:
    """Return the exception for a failed download.

    ``failures``: those of each source in this run, by kind. ``received``: bytes of this run that were kept.
    """
    safe = fail.resumable_bytes
    name = artifact.title
    causes = tuple(f"{sources[index].mirror}: {failure.message}" for index, failure in fail.causes)
    why = "; ".join(dict.fromkeys(causes)) or "no source is known for it"
    again = "run the same command again: what is on disk is kept"
    unable = {index for index, failed in enumerate(failures) if _NO_RANGES & {*failed}}
    is_lost = bool(received) and not safe and artifact.digest is None
    if fail.reason == "cancelled":
        hint = again
        if len(unable) == len(sources):
            hint = f"run the same command again; {_restarting(sources)}"
        elif is_lost:
            hint = f"run the same command again; {_UNBOUND}"
        return Interrupted(f"{name}: stopped", hint=hint, resumable_bytes=safe)
    if fail.reason == "locked":
        return LockedError(f"{name}: {fail.owner} is using this file", owner=fail.owner, hint="run without --no-wait")
    if fail.reason == "local":
        if isinstance(fail.error, ResumeDLError):
            fail.error.resumable_bytes = safe
            return fail.error
        if fail.error is not None and not isinstance(fail.error, OSError):
            error = internal_error(fail.error, name)
            error.resumable_bytes = safe
            return error
        return StoreError(f"{name}: {fail.error or why}", hint=again, resumable_bytes=safe)
    if fail.reason in {"digest", "single", "disputed", "record"}:
        return _wrong_bytes(fail, artifact, sources, why)
    if fail.reason == "lacking":
        hint = "the mirrors may be behind: try without --mirror and --no-upstream, or later"
        hint += "; what is on disk is kept" if safe else ""
        return SourcesExhaustedError(
            f"{name}: no source has it ({why})", causes=causes, hint=hint, resumable_bytes=safe
        )
    if fail.reason == "no network":
        names = tuple(dict.fromkeys(failure.unresolved for _, failure in fail.causes))
        messages = tuple(dict.fromkeys(failure.message for _, failure in fail.causes))
        return NoNetworkError(names, causes=messages, resumable_bytes=safe)
    if fail.reason == "unreachable":
        hint = f"check the network and the proxy settings, then {again}"
        silent = any(failure.kind is not FailureKind.UNREACHABLE for _, failure in fail.causes)
        what = "no source has answered" if silent else "no source can be reached"
        return SourcesExhaustedError(f"{name}: {what} ({why})", causes=causes, hint=hint, resumable_bytes=safe)
    restarting = _restarting([sources[index] for index, _ in fail.causes if index in unable])
    if restarting:
        again = f"{restarting}: try another mirror with --mirror, or {again}"
    elif is_lost:
        again = f"run the same command again; {_UNBOUND}"
    elif artifact.kind in _OF_PIP and {failure.kind for _, failure in fail.causes} == {FailureKind.REFUSED}:
        again = f"check the login for its server, in netrc or in a keyring (--keyring-provider), then {again}"
    return SourcesExhaustedError(
        f"{name}: every source failed ({why})",
        causes=causes,
        hint=again,
        resumable_bytes=safe,
        restarting=restarting,
    )


def _restarting(sources: Sequence[Source]) -> str:
    """Return a hint that names those of ``sources`` that cannot resume a download; empty if all can."""
    unable = dict.fromkeys(source.mirror for source in sources)
    return f"{' and '.join(unable)} cannot resume a download, each attempt starts at the first byte" if unable else ""


def _wrong_bytes(fail: Fail, artifact: Artifact, sources: tuple[Source, ...], why: str) -> DigestMismatchError:
    expected = fail.expected or (artifact.digest.hex if artifact.digest else "")
    agreeing = [sources[index] for index in fail.agreeing]
    names = {source.mirror for source in agreeing}
    # several addresses given by the user have the same mirror name
    shown = " and ".join(s.mirror if len(names) == len(agreeing) else s.url.host for s in agreeing)
    kept = fail.resumable_bytes
    held = f"{kept:,} bytes that are known to be good are kept" if kept else "nothing of it was kept"
    if fail.reason == "single":
        text = f"it has digest {fail.actual}, its record says {expected}; no other source to compare with"
        text += f" ({why})" if fail.causes else ""
        hint = f"{held}; try another mirror with --mirror, or this one later"
    elif fail.reason == "digest":
        text = f"no source gave bytes with the digest of its record ({why})"
        hint = f"{held}; try another mirror with --mirror, or later: a mirror may be out of date"
    else:
        text = f"{shown} agree on bytes with digest {fail.actual}, its record says {expected}"
        hint = (
            "the record is probably out of date, or the package was replaced upstream: try again later, "
            f"with a fresh index{'; what is on disk is kept' if kept else ''}"
        )
    error = DigestMismatchError(f"{artifact.title}: {text}", expected=expected, actual=fail.actual, hint=hint)
    error.resumable_bytes = kept
    return error

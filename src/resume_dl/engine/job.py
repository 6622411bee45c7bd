"""What the engine is given (Job) and what it gives back (Outcome)."""

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
_UNBOUND = "the server gave no length, or no ETag or date to tell versions apart: it begins at the first byte"
_NO_RANGES = {FailureKind.RANGE_IGNORED.value, FailureKind.RANGE_WRONG.value}


def _never() -> bool:
    return False


def _anything(_: int) -> None:
    """Every size is right."""


@dataclass(frozen=True, slots=True)
class Job:
    """Fetch ``artifact`` into ``store`` and publish it at ``destination``.

    ``is_published`` is asked once its lock is ours: whether another process finished it meanwhile.
    """

    artifact: Artifact
    store: PartStore
    destination: Path
    is_published: Callable[[], bool] = _never
    known: Mapping[RedactedUrl, CacheHeaders] = field(default_factory=dict)
    """Of the copy that the caller has already, what each source said of it: an unchanged file ends with the reason
    ``unchanged``. No source is told what another one said."""
    thorough: bool = False
    """Where the sources seem to agree against the record: compare every byte, instead of asking for a newer record."""
    replaceable: bool = False
    """The caller has other sources in place of these: they are given up soon where nothing comes from them."""
    last_chance: bool = False
    """They were given up so, and the others could not take their place: they have a little longer, and that is all."""
    check_size: Callable[[int], None] = _anything
    """Told the size in bytes where an answer is the first to tell it; raises where so much cannot be taken."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request for it (``Cache-Control`` for a copy that is newer than caches')."""
    largest: int | None = None
    """Bytes; a source whose file is longer is refused. For files whose size no record says."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one mirror did for one file: bytes kept, and how often it failed in which way."""

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
    """Of a file without a digest, by its source: what asks later whether it has changed."""
    agreeing: tuple[str, ...] = ()
    """The mirrors whose bytes agree with each other and not with the record (reasons ``disputed`` and ``record``)."""


def labels_of(sources: Sequence[Source]) -> list[str]:
    """What each source is called in journals: its redacted address; where several have one, with a hash of it all."""
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
    came: int = 0,
) -> ResumeDLError:
    """The exception a user should see for a download that failed.

    ``failures``: each source's in this run, by kind; ``came``: bytes received in this run and believed until its end.
    """
    safe = fail.resumable_bytes
    name = artifact.title
    causes = tuple(f"{sources[index].mirror}: {failure.message}" for index, failure in fail.causes)
    why = "; ".join(dict.fromkeys(causes)) or "no source is known for it"
    again = "run the same command again: what is on disk is kept"
    unable = {index for index, failed in enumerate(failures) if _NO_RANGES & {*failed}}
    is_lost = bool(came) and not safe and artifact.digest is None
    if fail.reason == "cancelled":
        hint = again
        if len(unable) == len(sources):
            hint = f"run the same command again; {_restarting(sources)}"
        elif is_lost:
            hint = f"run the same command again; {_UNBOUND}"
        return Interrupted(f"{name}: stopped", hint=hint, resumable_bytes=safe)
    if fail.reason == "locked":
        return LockedError(f"{name}: {fail.owner} works on this file", owner=fail.owner, hint="leave out --no-wait")
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
        told = tuple(dict.fromkeys(failure.message for _, failure in fail.causes))
        return NoNetworkError(names, causes=told, resumable_bytes=safe)
    if fail.reason == "unreachable":
        hint = f"check the line and the proxy settings, then {again}"
        silent = any(failure.kind is not FailureKind.UNREACHABLE for _, failure in fail.causes)
        what = "no source has answered" if silent else "no source can be reached"
        return SourcesExhaustedError(f"{name}: {what} ({why})", causes=causes, hint=hint, resumable_bytes=safe)
    restarting = _restarting([sources[index] for index, _ in fail.causes if index in unable])
    if restarting:
        again = f"{restarting}: try another mirror with --mirror, or {again}"
    elif is_lost:
        again = f"run the same command again; {_UNBOUND}"
    return SourcesExhaustedError(
        f"{name}: every source failed ({why})",
        causes=causes,
        hint=again,
        resumable_bytes=safe,
        restarting=restarting,
    )


def _restarting(sources: Sequence[Source]) -> str:
    """Tell which sources cannot continue a download, for a hint; empty where none is known to be so."""
    unable = dict.fromkeys(source.mirror for source in sources)
    return f"{' and '.join(unable)} cannot continue a download, each try begins at the first byte" if unable else ""


def _wrong_bytes(fail: Fail, artifact: Artifact, sources: tuple[Source, ...], why: str) -> DigestMismatchError:
    expected = fail.expected or (artifact.digest.hex if artifact.digest else "")
    agreeing = [sources[index] for index in fail.agreeing]
    names = {source.mirror for source in agreeing}
    # several addresses that a user gave have all one name
    who = " and ".join(s.mirror if len(names) == len(agreeing) else s.url.host for s in agreeing)
    kept = fail.resumable_bytes
    held = f"{kept:,} bytes that are provably good are kept" if kept else "nothing of it was kept"
    if fail.reason == "single":
        said = f"it came with digest {fail.actual}, its record says {expected}; no other source to compare with"
        said += f" ({why})" if fail.causes else ""
        hint = f"{held}; try another mirror with --mirror, or this one later"
    elif fail.reason == "digest":
        said = f"no source gave bytes with the digest of its record ({why})"
        hint = f"{held}; try another mirror with --mirror, or later: a mirror may be out of step"
    else:
        said = f"{who} agree on bytes with digest {fail.actual}, its record says {expected}"
        hint = (
            "the record is probably out of date, or the package was replaced upstream: ask again later, "
            f"with a fresh index{'; what came is kept' if kept else ''}"
        )
    error = DigestMismatchError(f"{artifact.title}: {said}", expected=expected, actual=fail.actual, hint=hint)
    error.resumable_bytes = kept
    return error

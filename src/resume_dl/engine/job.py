"""What the engine is given (Job) and what it gives back (Outcome)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resume_dl.core.actions import Fail
from resume_dl.errors import (
    DigestMismatchError,
    Interrupted,
    LockedError,
    ResumeDLError,
    SourcesExhaustedError,
    StoreError,
)
from resume_dl.model.artifact import Artifact, Source
from resume_dl.ports import PartStore


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Job:
    """Fetch ``artifact`` into ``store`` and publish it at ``destination``.

    ``is_published`` is asked once its lock is ours: whether another process finished it meanwhile.
    """

    artifact: Artifact
    store: PartStore
    destination: Path
    is_published: Callable[[], bool] = _never
    known_validator: str | None = None
    """Of the copy that the caller has already: an unchanged file ends with the reason ``unchanged``."""


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What one mirror did for one file: bytes kept, and how often it failed in which way."""

    mirror: str
    bytes: int
    failures: Mapping[str, int]


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
    validator: str | None = None


def error_of(fail: Fail, artifact: Artifact, sources: tuple[Source, ...]) -> ResumeDLError:
    """The exception a user should see for a download that failed."""
    safe = fail.resumable_bytes
    name = artifact.title
    causes = tuple(f"{sources[index].mirror}: {failure.message}" for index, failure in fail.causes)
    why = "; ".join(dict.fromkeys(causes)) or "there is no source for it"
    again = "run the same command again: what is on disk is kept"
    if fail.reason == "cancelled":
        return Interrupted(f"{name}: stopped", hint=again, resumable_bytes=safe)
    if fail.reason == "locked":
        return LockedError(f"{name}: {fail.owner} works on this file", owner=fail.owner, hint="leave out --no-wait")
    if fail.reason == "local":
        if isinstance(fail.error, ResumeDLError):
            fail.error.resumable_bytes = safe
            return fail.error
        return StoreError(f"{name}: {fail.error or why}", hint=again, resumable_bytes=safe)
    if fail.reason == "digest":
        expected = artifact.digest.hex if artifact.digest else fail.expected
        return DigestMismatchError(
            f"{name}: no source gave bytes with the digest of its record ({why})",
            expected=fail.expected or expected,
            actual=fail.actual,
            hint="nothing of it was kept; try another mirror with --mirror, or later: a mirror may be out of step",
        )
    if fail.reason == "lacking":
        hint = "the mirrors may be behind: try without --mirror and --no-upstream, or later"
        return SourcesExhaustedError(f"{name}: no source has it ({why})", causes=causes, hint=hint)
    if fail.reason == "unreachable":
        hint = f"check the line and the proxy settings, then {again}"
        return SourcesExhaustedError(
            f"{name}: no source can be reached ({why})", causes=causes, hint=hint, resumable_bytes=safe
        )
    return SourcesExhaustedError(
        f"{name}: every source failed ({why})", causes=causes, hint=again, resumable_bytes=safe
    )

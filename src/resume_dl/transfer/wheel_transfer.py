"""Wheels into a folder that pip's ``--find-links`` takes: from every mirror that has them, resumable, verified.

A file whose index gives a digest is verified by it. One without is fetched from the address that its index gives,
alone, whose validator holds for all of it (invariant 6), and waits below ``.resume-dl`` until every member was compared
with the wheel's own RECORD; then its digest is pinned. From then on any mirror may serve it, and other bytes are
noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.wheel_record import check_itself
from resume_dl.engine.job import Job, Outcome
from resume_dl.errors import (
    DigestMismatchError,
    IntegrityError,
    Interrupted,
    NotWritableError,
    ResumeDLError,
    StoreError,
    TransferError,
)
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.store.part import FOLDER, PartStore, hash_file
from resume_dl.store.pins import Pin, Pins
from resume_dl.store.platform import rename_durably
from resume_dl.store.staged import staged_path
from resume_dl.transfer.plan import Planned, plan_folder
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine

RECORD = "record"
PIN = "pin"


class WheelDir:
    """A folder of finished wheels. Used from one thread; ``plan`` before ``fetch``."""

    def __init__(
        self,
        folder: Path,
        pins: Pins,
        reporter: Reporter,
        *,
        cancelled: Callable[[], bool] = lambda: False,
        by_digest: Callable[[RedactedUrl], tuple[Source, ...]] = lambda _: (),
    ) -> None:
        """``by_digest``: further sources of an address, for bytes that a pinned digest identifies."""
        self.folder = folder
        self._by_digest = by_digest
        self._pins = pins
        self._reporter = reporter
        self._cancelled = cancelled
        self._pinned: dict[str, tuple[Pin, Path]] = {}
        """By the key that an artifact has with it: the pin that is its digest, and where it waited for its name."""

    def plan(self, artifacts: Sequence[Artifact], *, near: Sequence[Path] = (), touch: bool = False) -> list[Planned]:
        """What is here already; a file that was seen before is planned with its pinned hash as its sha256.

        ``near`` and ``touch`` as for ``plan_folder``.
        """
        known = []
        for artifact in artifacts:
            pin = self._pins.find(artifact) if artifact.digest is None else None
            if pin is not None:
                every = (*artifact.sources, *self._by_digest(artifact.url))
                sources = tuple({source.url.reveal(): source for source in every}.values())
                held = changed(artifact, sha256=pin.sha256, sources=sources)
                self._pinned[held.key] = pin, staged_path(self.folder, artifact)
                known.append(held)
            else:
                known.append(artifact)
        return plan_folder(known, self.folder, near=near, touch=touch)

    def fetch(self, planned: Sequence[Planned], engine: WatchedEngine, *, offline: bool) -> list[ArtifactResult]:
        """One result for each, in order; errors stand in them."""
        results: dict[str, ArtifactResult] = {}
        jobs = []
        for each in planned:
            artifact = each.artifact
            if each.state == "cached":
                results[artifact.key] = self._held(ArtifactResult(artifact, "cached", each.path))
            elif offline:
                results[artifact.key] = ArtifactResult(artifact, "failed", error=_offline_error(artifact))
            else:
                jobs.append(self._job(artifact))
        for outcome in engine.run(jobs):
            results[outcome.artifact.key] = self._settle(outcome)
        with suppress(OSError):  # not there, or something is unfinished
            (self.folder / FOLDER).rmdir()
        return [results[each.artifact.key] for each in planned]

    def _job(self, artifact: Artifact) -> Job:
        digest = artifact.digest
        if digest is None:
            waiting = staged_path(self.folder, artifact)

            def is_here() -> bool:
                return waiting.is_file() or self._arrived(artifact) is not None

            return Job(artifact, PartStore(self.folder / FOLDER), waiting, is_here)
        destination = self.folder / artifact.filename
        _, left = self._pinned.get(artifact.key, (None, None))

        def is_published() -> bool:
            if left is not None and verify_file(left, digest, artifact.size):  # by a run that was killed at its end
                rename_durably(left, destination)
                return True
            return verify_file(destination, digest, artifact.size)

        # an index page is not asked again: sources that seem to agree against it are compared to the end
        return Job(artifact, PartStore(self.folder / FOLDER), destination, is_published, thorough=True)

    def _settle(self, outcome: Outcome) -> ArtifactResult:
        artifact = outcome.artifact
        result = ArtifactResult.of(outcome, self.folder / artifact.filename)
        if outcome.error is None and artifact.digest is None:
            return self._settle_unknown(result)
        if isinstance(outcome.error, DigestMismatchError) and artifact.key in self._pinned:
            result.error = _changed(artifact, self._pinned[artifact.key][0], outcome.error)
        return self._held(result)

    def _held(self, result: ArtifactResult) -> ArtifactResult:
        """The result, with what its record lacks as it is on the disk; marked where it was a pin that verified it."""
        if result.artifact.key in self._pinned:
            result.held_by = PIN
        path, artifact = result.path, result.artifact
        if path is not None:
            with suppress(OSError):
                size = path.stat().st_size
                result.artifact = changed(artifact, size=size, sha256=artifact.sha256 or hash_file(path, "sha256"))
        return result

    def _settle_unknown(self, result: ArtifactResult) -> ArtifactResult:
        """A complete file without a published digest: compare it with its RECORD, pin it, then give it its name."""
        artifact, waiting = result.artifact, staged_path(self.folder, result.artifact)
        try:
            if result.status == "cached" and (arrived := self._arrived(artifact)) is not None:
                result.artifact, result.held_by = arrived, PIN  # another process did all of it before
                return result
            if result.status == "cached":  # it came in an earlier run, which ended before it was looked at
                result.status, result.resumed = "resumed", waiting.stat().st_size
            result.artifact = self._take(artifact, waiting)
            result.held_by = "" if _promised(artifact) else RECORD
        except (ResumeDLError, OSError) as error:
            arrived = self._arrived(artifact) if isinstance(error, FileNotFoundError) else None
            if arrived is not None:  # another process looked at it at the same time, and gave it its name
                result.artifact, result.held_by = arrived, PIN
                if not result.downloaded:
                    result.status, result.resumed = "cached", 0
                return result
            result.status, result.path = "failed", None
            result.error = error if isinstance(error, ResumeDLError) else _local(error, waiting)
            if isinstance(error, IntegrityError):
                with suppress(OSError):
                    waiting.unlink()
                result.wasted += result.downloaded
                result.downloaded = 0
            else:
                with suppress(OSError):
                    result.error.resumable_bytes = waiting.stat().st_size
        return result

    def _arrived(self, artifact: Artifact) -> Artifact | None:
        """The artifact with its hash where it was pinned since ``plan``, and lies here as it was then."""
        pin = self._pins.find(artifact)
        if pin is None:
            return None
        (found,) = plan_folder([changed(artifact, sha256=pin.sha256)], self.folder)
        return found.artifact if found.state == "cached" else None

    def _take(self, artifact: Artifact, waiting: Path) -> Artifact:
        """The artifact with its hash and size, its file in place. Raises IntegrityError, Interrupted, OSError."""
        if self._cancelled():
            raise Interrupted(f"{artifact.filename}: stopped", hint="run the same command again: what came is kept")
        self._reporter.message(f"{artifact.filename}: no hash is published, reading all of it", level="info")
        check_itself(waiting, artifact.filename, cancelled=self._cancelled)
        known = changed(artifact, sha256=hash_file(waiting, "sha256"), size=waiting.stat().st_size)
        _check_promised(known, waiting)
        try:  # before it has its name: a file without a pin would be fetched again
            self._pins.add(artifact, known.sha256 or "")
        except NotWritableError as error:
            self._reporter.message(f"the hash of {artifact.filename} is not kept: {error.message}", level="warning")
        rename_durably(waiting, self.folder / artifact.filename)
        return known


def first_seen(results: Sequence[ArtifactResult]) -> list[str]:
    """Notes on files without a published digest."""
    notes = []
    for each in results:
        if each.error is None and each.held_by == RECORD:
            is_wheel = each.artifact.filename.endswith(".whl")
            proof = "its content is what its RECORD says" if is_wheel else "it is whole by its checksum"
            notes.append(f"{each.artifact.filename}: hash first seen here: sha256 {each.artifact.sha256} ({proof})")
    return notes


def _promised(artifact: Artifact) -> list[tuple[str, str]]:
    """Algorithm and hex of every hash that the engine does not compare (sha512, or several) and one of which must fit.

    They stand in the record of an artifact that was resolved: ``hashes``, the index's, and ``allowed``, those of
    ``--hash``.
    """
    allowed = [(each.partition(":")[0], each.partition(":")[2]) for each in artifact.record.get("allowed", ())]
    return allowed or list(artifact.record.get("hashes", {}).items())


def _check_promised(artifact: Artifact, path: Path) -> None:
    """Raise DigestMismatchError for a file that has none of the hashes that it may have."""
    promised = _promised(artifact)
    if not promised or any(hash_file(path, algorithm) == value for algorithm, value in promised):
        return
    wanted = " or ".join(":".join(each) for each in promised)
    actual = hash_file(path, promised[0][0])
    raise DigestMismatchError(
        f"{artifact.filename} came with {promised[0][0]}:{actual}, it should have {wanted}",
        expected=wanted,
        actual=actual,
        hint="correct the --hash if there is one and you trust the file; else try another mirror, or later",
    )


def _changed(artifact: Artifact, pin: Pin, error: DigestMismatchError) -> DigestMismatchError:
    """The error for a file that is not what it was."""
    told = DigestMismatchError(
        f"{artifact.filename}: its sha256 was {pin.sha256} when it was first seen here ({pin.first_seen}), and what "
        f"comes now has {error.actual or 'another'}",
        expected=pin.sha256,
        actual=error.actual,
        hint=f"somebody replaced it; if you know why and trust it, remove {pin.path} and run the same command again",
    )
    told.resumable_bytes = error.resumable_bytes
    return told


def _offline_error(artifact: Artifact) -> ResumeDLError:
    return TransferError(f"{artifact.filename} is not here, and this is --offline", hint="run it without --offline")


def _local(error: OSError, path: Path) -> StoreError:
    return StoreError(f"{path}: {error.strerror or error}", hint="run the same command again: what is on disk is kept")

"""Transfer of wheels to a folder for pip's ``--find-links``: from several mirrors, resumable, verified.

A file is verified by the digest in its index. A file without one is downloaded from the address in its index only, as
one version by its validator (invariant 6). It is kept below ``.resume-dl`` until every member was compared with the
wheel's own RECORD; then its digest is pinned. From then on any mirror may serve it, and a change is detected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.wheel_record import check_archive
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
from resume_dl.transfer.shared_folders import take_shared
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
        """``by_digest``: more sources of an address, used once a pinned digest identifies the file."""
        self.folder = folder
        self._by_digest = by_digest
        self._pins = pins
        self._reporter = reporter
        self._cancelled = cancelled
        self._pinned: dict[str, tuple[Pin, Path]] = {}
        """Pins, and where the file was staged, by the key that the artifact has with the pinned digest."""

    def plan(
        self,
        artifacts: Sequence[Artifact],
        *,
        near: Sequence[Path] = (),
        shared: Sequence[Path] = (),
        touch: bool = False,
    ) -> list[Planned]:
        """Find which files are here already; a pinned file is planned with the pinned hash as its sha256.

        ``near`` and ``touch`` as in ``plan_folder``, ``shared`` as in ``take_shared``.
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
        planned = plan_folder(known, self.folder, near=near, touch=touch, cancelled=self._cancelled)
        return take_shared(planned, shared, self.folder, touch=touch, cancelled=self._cancelled) if shared else planned

    def fetch(self, planned: Sequence[Planned], engine: WatchedEngine, *, offline: bool) -> list[ArtifactResult]:
        """Download and publish; one result per artifact, in order, with its error if it failed."""
        PartStore(self.folder / FOLDER).sweep_locks()
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
        with suppress(OSError):  # missing, or something is unfinished
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
            # left by a run killed before its rename
            if left is not None and verify_file(left, digest, artifact.size, self._cancelled):
                rename_durably(left, destination)
                return True
            return verify_file(destination, digest, artifact.size, self._cancelled)

        # A package index is not asked again: sources that agree against it are compared on every byte.
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
        """Return the result with size and sha256 as on disk, and with ``held_by`` set if a pin verified it."""
        if result.artifact.key in self._pinned:
            result.held_by = PIN
        path, artifact = result.path, result.artifact
        if path is not None:
            with suppress(OSError):
                size, sha256 = path.stat().st_size, artifact.sha256 or hash_file(path, "sha256", self._cancelled)
                result.artifact = changed(artifact, size=size, sha256=sha256)
        return result

    def _settle_unknown(self, result: ArtifactResult) -> ArtifactResult:
        """Check a complete file without a published digest against its RECORD, pin it, then rename it."""
        artifact, waiting = result.artifact, staged_path(self.folder, result.artifact)
        try:
            if result.status == "cached" and (arrived := self._arrived(artifact)) is not None:
                result.artifact, result.held_by = arrived, PIN  # another process has published it
                return result
            if result.status == "cached":  # an earlier run downloaded it and ended before the check
                result.status, result.resumed = "resumed", waiting.stat().st_size
            result.artifact = self._take(artifact, waiting)
            result.held_by = "" if _promised(artifact) else RECORD
        except (ResumeDLError, OSError) as error:
            arrived = self._arrived(artifact) if isinstance(error, FileNotFoundError) else None
            if arrived is not None:  # another process checked it at the same time and renamed it
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
        """Return the artifact with its hash if another process has pinned and published it since ``plan``."""
        pin = self._pins.find(artifact)
        if pin is None:
            return None
        (found,) = plan_folder([changed(artifact, sha256=pin.sha256)], self.folder, cancelled=self._cancelled)
        return found.artifact if found.state == "cached" else None

    def _take(self, artifact: Artifact, waiting: Path) -> Artifact:
        """Check and publish the file; returns the artifact with hash and size.

        Raises IntegrityError, Interrupted or OSError.
        """
        if self._cancelled():
            hint = "run the same command again: what is on disk is kept"
            raise Interrupted(f"{artifact.filename}: stopped", hint=hint)
        self._reporter.message(f"{artifact.filename}: no hash is published, checking its content", level="info")
        check_archive(waiting, artifact.filename, cancelled=self._cancelled)
        known = changed(artifact, sha256=hash_file(waiting, "sha256", self._cancelled), size=waiting.stat().st_size)
        _check_promised(known, waiting, self._cancelled)
        try:  # before the rename: a file without a pin would be downloaded again
            self._pins.add(artifact, known.sha256 or "")
        except NotWritableError as error:
            self._reporter.message(f"the hash of {artifact.filename} is not pinned: {error.message}", level="warning")
        rename_durably(waiting, self.folder / artifact.filename)
        return known


def first_seen(results: Sequence[ArtifactResult]) -> list[str]:
    """Return a note for each file whose hash no index gives and which this run saw first."""
    notes = []
    for each in results:
        if each.error is None and each.held_by == RECORD:
            is_wheel = each.artifact.filename.endswith(".whl")
            proof = "its content matches its RECORD" if is_wheel else "its checksum is correct"
            notes.append(f"{each.artifact.filename}: hash first seen here: sha256 {each.artifact.sha256} ({proof})")
    return notes


def _promised(artifact: Artifact) -> list[tuple[str, str]]:
    """Return algorithm and hex of the hashes of which one must match, and which the engine does not compare.

    These are hashes of other algorithms, or several. They are in the artifact's record: ``hashes`` are the index's,
    ``allowed`` those of ``--hash``.
    """
    allowed = [(each.partition(":")[0], each.partition(":")[2]) for each in artifact.record.get("allowed", ())]
    return allowed or list(artifact.record.get("hashes", {}).items())


def _check_promised(artifact: Artifact, path: Path, cancelled: Callable[[], bool]) -> None:
    """Raise DigestMismatchError if the file has none of the permitted hashes; Interrupted once ``cancelled``."""
    promised = _promised(artifact)
    if not promised or any(hash_file(path, algorithm, cancelled) == value for algorithm, value in promised):
        return
    wanted = " or ".join(":".join(each) for each in promised)
    actual = hash_file(path, promised[0][0], cancelled)
    raise DigestMismatchError(
        f"{artifact.filename} has {promised[0][0]}:{actual}, expected {wanted}",
        expected=wanted,
        actual=actual,
        hint="if you gave a --hash and trust the file, correct it; else try another mirror, or again later",
    )


def _changed(artifact: Artifact, pin: Pin, error: DigestMismatchError) -> DigestMismatchError:
    """Return the error for a file whose content differs from its pin."""
    changed_error = DigestMismatchError(
        f"{artifact.filename}: its sha256 was {pin.sha256} when it was first seen here ({pin.first_seen}), and is "
        f"now {error.actual or 'another'}",
        expected=pin.sha256,
        actual=error.actual,
        hint=f"it was replaced; if you know why and trust it, remove {pin.path} and run the same command again",
    )
    changed_error.resumable_bytes = error.resumable_bytes
    return changed_error


def _offline_error(artifact: Artifact) -> ResumeDLError:
    why = "is not on disk, and --offline forbids downloads"
    return TransferError(f"{artifact.filename} {why}", hint="run it without --offline")


def _local(error: OSError, path: Path) -> StoreError:
    return StoreError(f"{path}: {error.strerror or error}", hint="run the same command again: what is on disk is kept")

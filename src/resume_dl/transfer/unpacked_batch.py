"""Unpacked packages that go to the disk together, and then into their package cache."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import remove
from resume_dl.caches.conda.publish import Unplaced
from resume_dl.caches.package_caches import Cache
from resume_dl.errors import ResumeDLError, StoreError, internal_error
from resume_dl.model.artifact import Artifact

MOST = 32
"""Packages in one batch: a killed process unpacks them again, and no archive in the queue waits for more than these."""


@dataclass(frozen=True, slots=True)
class Ready:
    """One archive that is unpacked, with its record: ``extracted`` lies in ``folder``, which is removed afterwards."""

    artifact: Artifact
    known: Artifact
    """The same with every digest that was computed."""
    archive: Path | None
    """None where it has its own name already."""
    extracted: Path
    folder: Path


class UnpackedBatch:
    """Filled and emptied by several threads."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._ready: list[Ready] = []

    def add(self, ready: Ready) -> bool:
        """Let a package wait; whether as many wait now as may."""
        with self._lock:
            self._ready.append(ready)
            return len(self._ready) >= MOST

    def place(self) -> list[tuple[Artifact, ResumeDLError | None]]:
        """Put all that wait into the cache, after one wait for the disk; the error of each that is not there now."""
        with self._lock:
            batch, self._ready = self._ready, []
        try:
            try:
                self._cache.settle([each.extracted for each in batch])
            except StoreError as error:
                return [(each.artifact, error) for each in batch]
            errors = self._place(batch) if batch else []
            return [(each.artifact, error) for each, error in zip(batch, errors, strict=True)]
        finally:
            for each in batch:
                remove(each.folder)

    def _place(self, batch: Sequence[Ready]) -> list[ResumeDLError | None]:
        """The error of each; one that breaks the cache's code does not take the others with it."""
        try:
            errors = self._cache.place([Unplaced(each.known, each.archive, each.extracted) for each in batch])
            return [
                error and unless_there(self._cache, each.artifact, error)
                for each, error in zip(batch, errors, strict=True)
            ]
        except Exception as error:  # noqa: BLE001 - a defect is the result of the package that meets it
            if len(batch) > 1:
                return [failed for each in batch for failed in self._place([each])]
            return [internal_error(error, f"putting {batch[0].artifact.filename} into the package cache")]


def unless_there(cache: Cache, artifact: Artifact, error: ResumeDLError | OSError) -> ResumeDLError | None:
    """The error for an artifact that could not be put into the cache; None where another process has done it."""
    if cache.has(artifact):
        return None
    if isinstance(error, ResumeDLError):
        return error
    return StoreError(f"{artifact.filename}: {error.strerror or error}", hint="see whether the disk is full")

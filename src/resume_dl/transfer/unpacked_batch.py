"""Batches of unpacked packages: synced to the disk by one call, then put into the package cache."""

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
"""The most packages in a batch. A killed process has to unpack them again, and the next archive waits for them."""


@dataclass(frozen=True, slots=True)
class Ready:
    """One unpacked archive with its record; ``extracted`` is in ``folder``, which is removed afterwards."""

    artifact: Artifact
    known: Artifact
    """The artifact with every digest that was computed."""
    archive: Path | None
    """None if it has its final name already."""
    extracted: Path
    folder: Path


class UnpackedBatch:
    """A batch that several threads fill and empty."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._lock = threading.Lock()
        self._ready: list[Ready] = []

    def add(self, ready: Ready) -> bool:
        """Add a package; whether the batch is full."""
        with self._lock:
            self._ready.append(ready)
            return len(self._ready) >= MOST

    def place(self) -> list[tuple[Artifact, ResumeDLError | None]]:
        """Sync the batch, then put its packages into the cache; returns each with its error, None if it is there."""
        with self._lock:
            batch, self._ready = self._ready, []
        try:
            try:
                self._cache.sync([each.extracted for each in batch])
            except StoreError as error:
                return [(each.artifact, error) for each in batch]
            errors = self._place(batch) if batch else []
            return [(each.artifact, error) for each, error in zip(batch, errors, strict=True)]
        finally:
            for each in batch:
                remove(each.folder)

    def _place(self, batch: Sequence[Ready]) -> list[ResumeDLError | None]:
        """Return the error of each; a package that causes an internal error does not make the others fail."""
        try:
            errors = self._cache.place([Unplaced(each.known, each.archive, each.extracted) for each in batch])
            return [
                error and unless_there(self._cache, each.artifact, error)
                for each, error in zip(batch, errors, strict=True)
            ]
        except Exception as error:  # noqa: BLE001 - reported as the result of the package that causes it
            if len(batch) > 1:
                return [failed for each in batch for failed in self._place([each])]
            return [internal_error(error, f"putting {batch[0].artifact.filename} into the package cache")]


def unless_there(cache: Cache, artifact: Artifact, error: ResumeDLError | OSError) -> ResumeDLError | None:
    """Return ``error`` as a ResumeDLError, or None if another process has put the artifact into the cache."""
    if cache.has(artifact):
        return None
    if isinstance(error, ResumeDLError):
        return error
    return StoreError(f"{artifact.filename}: {error.strerror or error}", hint="check whether the disk is full")

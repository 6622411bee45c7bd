"""The package caches into which unpacked packages are published: conda's and rattler's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resume_dl.caches.conda.lookup import look
from resume_dl.caches.conda.publish import Unplaced, add_record, place_entries, sync_extracted
from resume_dl.caches.rattler import find_for_rattler, place_for_rattler, rattler_folder
from resume_dl.errors import StoreError
from resume_dl.model.artifact import Artifact


class Cache(Protocol):
    """One package cache. Unfinished files are in ``<folder>/.resume-dl/``, on the same file system."""

    @property
    def folder(self) -> Path:
        """The cache's folder."""

    def place_of(self, artifact: Artifact) -> Path:
        """Return the path of the published artifact."""

    def has(self, artifact: Artifact) -> bool:
        """Whether the client would use ``artifact`` from this cache."""

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """Write the client's record into an unpacked archive. Raises StoreError.

        ``artifact`` has every digest that was computed.
        """

    def sync(self, extracted: Sequence[Path]) -> None:
        """Wait until unpacked folders with their records are on the disk: one wait for many. Raises StoreError."""

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """Move verified archives and their synced folders into the cache; returns the error of each."""


@dataclass(frozen=True, slots=True)
class CondaCache:
    """conda's package cache: complete entries with the client's URL."""

    folder: Path

    def place_of(self, artifact: Artifact) -> Path:
        """Return the path of the archive."""
        return self.folder / artifact.filename

    def has(self, artifact: Artifact) -> bool:
        """Whether there is an entry that conda will use as it is."""
        entry = look(self.folder, artifact)
        return entry is not None and entry.is_for(artifact)

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """Write conda's ``repodata_record.json``."""
        add_record(self.folder, artifact, extracted)

    def sync(self, extracted: Sequence[Path]) -> None:
        """Sync them by one call for the cache's file system."""
        sync_extracted(self.folder, extracted)

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """Publish folders and archives, and add lines to ``urls.txt``."""
        placed = place_entries(self.folder, entries)
        return [each if isinstance(each, StoreError) else None for each in placed]


@dataclass(frozen=True, slots=True)
class RattlerCache:
    """The package cache of rattler and pixi: unpacked packages only."""

    folder: Path
    cancelled: Callable[[], bool] = lambda: False

    def place_of(self, artifact: Artifact) -> Path:
        """Return the path of the unpacked folder."""
        return rattler_folder(self.folder, artifact)

    def has(self, artifact: Artifact) -> bool:
        """Whether it is there, complete."""
        return find_for_rattler(self.folder, artifact) is not None

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """Write conda's record, which rattler reads too."""
        add_record(self.folder, artifact, extracted)

    def sync(self, extracted: Sequence[Path]) -> None:
        """Sync them by one call for the cache's file system."""
        sync_extracted(self.folder, extracted)

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """Publish the folders, and remove the archives, which rattler does not use."""
        return [self._place(each) for each in entries]

    def _place(self, each: Unplaced) -> StoreError | None:
        try:
            if each.extracted is not None:
                place_for_rattler(self.folder, each.artifact, each.extracted, cancelled=self.cancelled)
            if isinstance(each.archive, Path):
                each.archive.unlink(missing_ok=True)
        except StoreError as error:
            return error
        except OSError as error:
            return StoreError(f"{each.archive}: {error.strerror or error}")
        return None

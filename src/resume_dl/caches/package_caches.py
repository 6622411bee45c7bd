"""The package caches that unpacked packages are put into: conda's and rattler's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resume_dl.caches.conda.lookup import look
from resume_dl.caches.conda.publish import Unplaced, add_record, place_entries, settle
from resume_dl.caches.rattler import find_for_rattler, place_for_rattler, rattler_folder
from resume_dl.errors import StoreError
from resume_dl.model.artifact import Artifact


class Cache(Protocol):
    """One package cache; unfinished files lie in ``<folder>/.resume-dl/``, on its file system."""

    @property
    def folder(self) -> Path:
        """The cache itself."""

    def place_of(self, artifact: Artifact) -> Path:
        """Where it lies once it is published."""

    def has(self, artifact: Artifact) -> bool:
        """Whether its client would take ``artifact`` from it."""

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """Write the client's record into what an archive unpacked to. Raises StoreError.

        ``artifact`` has every digest that was computed.
        """

    def settle(self, extracted: Sequence[Path]) -> None:
        """Wait until unpacked folders with their records are on the disk: once for many. Raises StoreError."""

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """Put verified archives and their settled folders in place, which consumes them; the error of each."""


@dataclass(frozen=True, slots=True)
class CondaCache:
    """conda's: complete entries under the client's URL."""

    folder: Path

    def place_of(self, artifact: Artifact) -> Path:
        """The archive."""
        return self.folder / artifact.filename

    def has(self, artifact: Artifact) -> bool:
        """Whether there is an entry that conda will take as it is."""
        entry = look(self.folder, artifact)
        return entry is not None and entry.is_for(artifact)

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """The ``repodata_record.json`` of conda."""
        add_record(self.folder, artifact, extracted)

    def settle(self, extracted: Sequence[Path]) -> None:
        """By one call for the cache's file system."""
        settle(self.folder, extracted)

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """Folders, archives, lines in ``urls.txt``."""
        placed = place_entries(self.folder, entries)
        return [each if isinstance(each, StoreError) else None for each in placed]


@dataclass(frozen=True, slots=True)
class RattlerCache:
    """rattler's and pixi's: unpacked packages alone."""

    folder: Path
    cancelled: Callable[[], bool] = lambda: False

    def place_of(self, artifact: Artifact) -> Path:
        """The folder."""
        return rattler_folder(self.folder, artifact)

    def has(self, artifact: Artifact) -> bool:
        """Whether it is there, whole."""
        return find_for_rattler(self.folder, artifact) is not None

    def add_record(self, artifact: Artifact, extracted: Path) -> None:
        """The one of conda, which rattler reads too."""
        add_record(self.folder, artifact, extracted)

    def settle(self, extracted: Sequence[Path]) -> None:
        """By one call for the cache's file system."""
        settle(self.folder, extracted)

    def place(self, entries: Sequence[Unplaced]) -> list[StoreError | None]:
        """The folders; the archives are of no more use then."""
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

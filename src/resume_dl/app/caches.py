"""The package caches that unpacked packages are put into: conda's and rattler's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from resume_dl.model.artifact import Artifact
from resume_dl.store.condacache import look, publish_entry
from resume_dl.store.rattler_cache import find_for_rattler, publish_for_rattler, rattler_folder


class Cache(Protocol):
    """One package cache; unfinished files lie in ``<folder>/.resume-dl/``, on its file system."""

    @property
    def folder(self) -> Path:
        """The cache itself."""

    def place_of(self, artifact: Artifact) -> Path:
        """Where it lies once it is published."""

    def has(self, artifact: Artifact) -> bool:
        """Whether its client would take ``artifact`` from it."""

    def publish(self, artifact: Artifact, *, archive: Path | None, extracted: Path) -> None:
        """Put a verified archive and what it unpacked to in place; both are consumed.

        ``archive`` is None where it lies in place already; ``artifact`` has every digest that was computed. Raises
        StoreError.
        """


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

    def publish(self, artifact: Artifact, *, archive: Path | None, extracted: Path) -> None:
        """Record, folder, archive, line in ``urls.txt``."""
        publish_entry(self.folder, artifact, archive=archive, extracted=extracted)


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

    def publish(self, artifact: Artifact, *, archive: Path | None, extracted: Path) -> None:
        """The folder; the archive is of no more use then."""
        publish_for_rattler(self.folder, artifact, extracted, cancelled=self.cancelled)
        if archive is not None:
            archive.unlink(missing_ok=True)

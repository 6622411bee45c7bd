"""The destination of wheels: a wheel dir, on this machine or in a bundle."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.model.artifact import Artifact
from resume_dl.ports import PlannedFile
from resume_dl.transfer.plan import Planned, Space, planned_files, space_for
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine
from resume_dl.transfer.wheel_transfer import WheelDir


@dataclass(frozen=True, slots=True)
class WheelDestination:
    """A wheel dir and one run's options for it; ``near``, ``pack`` and ``options`` as in ``transfer.plan``."""

    wheels: WheelDir
    near: Sequence[Path]
    offline: bool
    pack: bool
    options: str
    shared: Sequence[Path] = ()
    """Folders that are only read (``transfer.shared_folders``)."""

    @property
    def folder(self) -> Path:
        """The wheel dir."""
        return self.wheels.folder

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Find files in the wheel dir, ``near`` or ``shared``; with ``touch`` the latter are linked or copied."""
        return self.wheels.plan(artifacts, near=self.near, shared=self.shared, touch=touch)

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """Compute the space needed in the wheel dir, and for the tar next to it."""
        return [space_for(planned, self.folder, unpack=False, pack=self.pack, options=self.options)]

    def files(self, planned: Sequence[Planned]) -> list[PlannedFile]:
        """Return the planned files, with the bytes that unfinished downloads in the wheel dir have."""
        return planned_files(planned, self.folder)

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """Run ``WheelDir.fetch``."""
        del thorough  # package indexes are not asked again, so every job of a wheel dir is thorough
        return self.wheels.fetch(planned, engine, offline=self.offline)

"""Where wheels go: a wheel dir, of this machine or of a bundle."""

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
    """``wheels`` with what one run wants of it; ``near``, ``pack`` and ``options`` as in ``transfer.plan``."""

    wheels: WheelDir
    near: Sequence[Path]
    offline: bool
    pack: bool
    options: str

    @property
    def folder(self) -> Path:
        """The wheel dir."""
        return self.wheels.folder

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """What lies there, or near and with ``touch`` is put there."""
        return self.wheels.plan(artifacts, near=self.near, touch=touch)

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """Of the one folder, and of the tar beside it."""
        return [space_for(planned, self.folder, unpack=False, pack=self.pack, options=self.options)]

    def files(self, planned: Sequence[Planned]) -> list[PlannedFile]:
        """With the bytes that unfinished downloads in the folder have."""
        return planned_files(planned, self.folder)

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """As ``WheelDir.fetch``."""
        del thorough  # an index page is not asked again: every file with a digest is compared to the end
        return self.wheels.fetch(planned, engine, offline=self.offline)

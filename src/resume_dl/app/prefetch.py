"""Fetch packages into a client's package cache, as complete entries, before the client would download them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.app.pipeline import Batch
from resume_dl.caches.conda.partial import SUFFIX
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.transfer.package_destination import CondaPackages
from resume_dl.transfer.plan import Plan, Wanted
from resume_dl.transfer.report import ArtifactResult, RunResult
from resume_dl.transfer.setup import Setup


class Prefetch(Batch):
    """The packages of a client's own solution. The caller may prompt between ``plan`` and ``carry_out``."""

    def __init__(
        self,
        artifacts: Sequence[Artifact],
        setup: Setup,
        reporter: Reporter,
        cancelled: Callable[[], bool],
        *,
        pkgs_dir: Path,
    ) -> None:
        super().__init__(setup, reporter, cancelled)
        self._artifacts = artifacts
        self.pkgs_dir = pkgs_dir
        self.destination = CondaPackages(folder=pkgs_dir, reporter=reporter, cancelled=cancelled, unpack=True)

    def resolve(self) -> Wanted:
        """Add sources to the client's solution. Raises ConfigurationError for an unknown mirror."""
        places = self.setup.places
        wanted = [changed(artifact, sources=places.of(artifact.url)) for artifact in self._artifacts]
        # The client's index cannot be refreshed here, so every byte in doubt is compared.
        return Wanted(wanted, thorough={artifact.key for artifact in wanted})

    def here(self, plan: Plan) -> int:
        """Bytes of ``plan`` that are on the disk, in our part files and in those of an interrupted conda."""
        missing = [each.artifact for each in plan.planned if each.state == "missing"]
        known = sum(artifact.size or 0 for artifact in missing)
        left_by_conda = sum(_size(self.pkgs_dir / f"{artifact.filename}{SUFFIX}") for artifact in missing)
        to_come = sum(space.download for space in plan.spaces)
        return min(known, max(0, known - to_come) + left_by_conda)

    def announce(self, plan: Plan, before: Plan | None = None) -> None:
        """Report the plan if the disk has room for it. Raises OutOfSpaceError, after which the client continues."""
        plan.check()
        super().announce(plan, before)

    def report(self, result: RunResult, done: Sequence[ArtifactResult]) -> None:
        """Add nothing: the caller registers each complete entry with its client."""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

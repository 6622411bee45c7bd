"""The destination of repairs: a package cache in which damaged packages are replaced by verified ones."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.conda.partial_adoption import adopt_damaged
from resume_dl.caches.package_caches import Cache, CondaCache, RattlerCache
from resume_dl.caches.replacing_cache import ReplacingCache
from resume_dl.core.policy import DEFAULTS
from resume_dl.model.artifact import Artifact
from resume_dl.store.staged import staged_path
from resume_dl.transfer.package_destination import PackageDestination
from resume_dl.transfer.package_transfer import Transfer
from resume_dl.transfer.plan import Planned, measured
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.watched_engine import WatchedEngine


@dataclass(kw_only=True)
class RepairedPackages(PackageDestination):
    """``damaged``: file name -> the folder to replace. ``is_rattlers``: rattler's cache, else conda's."""

    damaged: Mapping[str, Path] = field(default_factory=dict)
    is_rattlers: bool = False

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Find the archives that are right: their packages are unpacked again, without a download."""
        del touch  # nothing is copied from elsewhere
        return [self._planned(artifact) for artifact in artifacts]

    def _planned(self, artifact: Artifact) -> Planned:
        for archive in (self.folder / artifact.filename, staged_path(self.folder, artifact)):
            if artifact.digest is not None and verify_file(archive, artifact.digest, artifact.size):
                return Planned(measured(artifact, archive), "packed", archive)
        return Planned(artifact, "missing")

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """Start each download from the bytes of the damaged archive, then transfer and replace."""
        for each in planned:
            is_worth_it = (each.artifact.size or 0) >= DEFAULTS.journal_from  # smaller files have no journal
            if each.state == "missing" and is_worth_it and not self.offline and not self.cancelled():
                adopt_damaged(self.folder, each.artifact, cancelled=self.cancelled)
        return super().fetch(planned, engine, thorough=thorough)

    def _transfer(
        self,
        engine: WatchedEngine,
        *,
        cache: Cache | None = None,
        place: Callable[[Artifact], Path] | None = None,
    ) -> Transfer:
        del cache, place
        own: Cache = RattlerCache(self.folder, self.cancelled) if self.is_rattlers else CondaCache(self.folder)
        return super()._transfer(engine, cache=ReplacingCache(own, self.damaged))

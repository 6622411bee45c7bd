"""Where conda packages go: conda's cache, rattler's cache, or plain files in a folder or a bundle's channel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from resume_dl.caches.package_caches import Cache, RattlerCache
from resume_dl.model.artifact import Artifact
from resume_dl.ports import PlannedFile, Reporter
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.transfer.cache_plan import plan_cache, plan_rattler
from resume_dl.transfer.package_transfer import Transfer
from resume_dl.transfer.plan import ANY_FOLDER, Planned, Space, plan_folder, planned_files, space_for
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.shared_packages import copy_shared
from resume_dl.transfer.watched_engine import WatchedEngine


@dataclass(kw_only=True)
class PackageDestination(ABC):
    """One folder of packages; subclasses find what is there already.

    ``unpack``: unpack archives to complete cache entries. ``worker``: see ``Transfer.run``.
    """

    folder: Path
    reporter: Reporter
    cancelled: Callable[[], bool]
    unpack: bool = False
    offline: bool = False
    worker: RattlerWorker | None = None

    in_cache: ClassVar[bool] = True
    is_condas: ClassVar[bool] = False
    """Whether conda finds the packages by itself."""

    @abstractmethod
    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Find which artifacts are there already. Raises StoreError or OSError."""

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """Compute the space needed in ``folder``."""
        return [space_for(planned, self.folder, unpack=self.unpack)]

    def files(self, planned: Sequence[Planned]) -> list[PlannedFile]:
        """Return the planned files, with the bytes that unfinished downloads in ``folder`` have."""
        return planned_files(planned, self.folder)

    def fetch(
        self, planned: Sequence[Planned], engine: WatchedEngine, *, thorough: Container[str]
    ) -> list[ArtifactResult]:
        """Run ``Transfer.run`` on this folder."""
        return self._transfer(engine).run(planned, unpack=self.unpack, thorough=thorough, worker=self.worker)

    def take_over(self, old: Artifact, new: Artifact) -> bool:
        """Continue the unfinished file of ``old`` as one of ``new``; whether that was done. Raises StoreError."""
        return PartStore(self.folder / FOLDER).rekey(old, new)

    def tidy(self) -> None:
        """Remove our work folder if it is empty, except from conda's cache."""
        if not self.is_condas:
            with suppress(OSError):  # missing, or not empty: something is unfinished
                (self.folder / FOLDER).rmdir()

    def _transfer(
        self,
        engine: WatchedEngine,
        *,
        cache: Cache | None = None,
        place: Callable[[Artifact], Path] | None = None,
    ) -> Transfer:
        return Transfer(
            self.folder,
            engine,
            self.reporter,
            self.cancelled,
            in_cache=self.in_cache,
            offline=self.offline,
            cache=cache,
            place=place,
        )


@dataclass(kw_only=True)
class CondaPackages(PackageDestination):
    """A package cache of conda."""

    others: Sequence[Path] = ()
    """Further package caches of the same conda."""

    is_condas: ClassVar[bool] = True

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Look in all of the caches; with ``touch``, give found entries the URL under which conda knows them."""
        return plan_cache(artifacts, self.folder, self.others, touch=touch, cancelled=self.cancelled)


@dataclass(kw_only=True)
class RattlerPackages(PackageDestination):
    """The package cache of pixi and rattler."""

    shared: Sequence[Path] = ()
    """Package folders of other such caches, which are only read (``transfer.shared_folders``)."""

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Find which artifacts are there, complete, or in ``shared``; with ``touch`` the latter are copied."""
        planned = plan_rattler(artifacts, self.folder, self.cancelled)
        return copy_shared(planned, self.shared, self.folder, touch=touch, cancelled=self.cancelled)

    def _transfer(self, engine: WatchedEngine, **_: object) -> Transfer:
        return super()._transfer(engine, cache=RattlerCache(self.folder, self.cancelled))


@dataclass(kw_only=True)
class PlainPackages(PackageDestination):
    """Plain archives, under their own names or at the paths that ``place`` returns."""

    place: Callable[[Artifact], Path] | None = None
    near: Sequence[Path] = ()
    """Folders whose files may be linked or copied instead of downloaded."""
    pack: bool = False
    """Whether all files are packed into a tar at the end, which needs space for them twice."""
    options: str = ANY_FOLDER
    """The options that choose another folder, for messages."""

    in_cache: ClassVar[bool] = False

    def plan(self, artifacts: Sequence[Artifact], *, touch: bool) -> list[Planned]:
        """Find files in ``folder``, or in ``near``; with ``touch`` the latter are linked or copied."""
        return plan_folder(
            artifacts, self.folder, place=self.place, near=self.near, touch=touch, cancelled=self.cancelled
        )

    def spaces(self, planned: Sequence[Planned]) -> list[Space]:
        """Compute the space needed in ``folder``, and for the tar next to it."""
        return [space_for(planned, self.folder, unpack=False, pack=self.pack, options=self.options)]

    def _transfer(self, engine: WatchedEngine, **_: object) -> Transfer:
        return super()._transfer(engine, place=self.place)

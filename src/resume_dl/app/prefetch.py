"""Packages fetched ahead of a client that would download them next, into its package cache, as complete entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.caches.conda.partial import SUFFIX
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.transfer.cache_plan import plan_cache
from resume_dl.transfer.package_transfer import Transfer
from resume_dl.transfer.plan import Planned, Space, planned_files, space_for
from resume_dl.transfer.report import ArtifactResult
from resume_dl.transfer.setup import Setup, engine_for


@dataclass(frozen=True, slots=True)
class AheadPlan:
    """What is to come into one package cache."""

    pkgs_dir: Path
    planned: tuple[Planned, ...]
    space: Space
    here: int
    """Bytes of it that are on disk already, in our part files and in what an interrupted conda has left."""


def plan_ahead(artifacts: Sequence[Artifact], setup: Setup, pkgs_dir: Path) -> AheadPlan:
    """Look what there is to do; asks nobody. Raises ConfigurationError or StoreError."""
    places = setup.places
    wanted = [changed(artifact, sources=places.of(artifact.url)) for artifact in artifacts]
    planned = plan_cache(wanted, pkgs_dir, (), touch=True)
    space = space_for(planned, pkgs_dir, unpack=True)
    missing = [each.artifact for each in planned if each.state == "missing"]
    known = sum(artifact.size or 0 for artifact in missing)
    left_by_conda = sum(_size(pkgs_dir / f"{artifact.filename}{SUFFIX}") for artifact in missing)
    return AheadPlan(pkgs_dir, tuple(planned), space, min(known, max(0, known - space.download) + left_by_conda))


def fetch_ahead(
    plan: AheadPlan,
    setup: Setup,
    reporter: Reporter,
    *,
    cancelled: Callable[[], bool],
) -> list[ArtifactResult]:
    """Download, verify and unpack; one result for each package, in order.

    Raises OutOfSpaceError, ConfigurationError or StoreError.
    """
    plan.space.check()
    artifacts = [each.artifact for each in plan.planned]
    with engine_for(setup, reporter, cancelled) as engine:
        transfer = Transfer(plan.pkgs_dir, engine, reporter, cancelled, in_cache=True, offline=False)
        reporter.plan(planned_files(plan.planned, plan.pkgs_dir))
        # The client's index is the client's: there is no newer one to be asked for, so look at every byte in doubt.
        return transfer.run(plan.planned, unpack=True, thorough={artifact.key for artifact in artifacts})


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0

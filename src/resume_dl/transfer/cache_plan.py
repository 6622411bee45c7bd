"""Which artifacts of a run are already in conda's or rattler's package caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from resume_dl.caches.conda.lookup import find_entry, verify_file
from resume_dl.caches.conda.publish import claim_for_client
from resume_dl.caches.rattler import find_for_rattler, rattler_folder
from resume_dl.model.artifact import Artifact
from resume_dl.store.staged import staged_path
from resume_dl.transfer.plan import Planned, measured


def plan_cache(
    artifacts: Sequence[Artifact],
    pkgs_dir: Path,
    others: Sequence[Path],
    *,
    touch: bool,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Planned]:
    """Look ``artifacts`` up in conda's package caches.

    An entry with another mirror's URL is changed to the client's URL, unless ``touch`` is False (dry runs). An archive
    that is not unpacked counts only if its digest matches. Raises StoreError, and Interrupted once ``cancelled``.
    """
    return [_planned(artifact, pkgs_dir, others, cancelled, touch=touch) for artifact in artifacts]


def _planned(
    artifact: Artifact, pkgs_dir: Path, others: Sequence[Path], cancelled: Callable[[], bool], *, touch: bool
) -> Planned:
    if artifact.digest is None:
        return Planned(artifact, "missing")
    entry = find_entry([pkgs_dir, *others], artifact)
    if entry is not None and entry.extracted is not None:
        if touch and not entry.is_for(artifact):
            entry = claim_for_client(entry, artifact)
        known = measured(artifact, entry.archive)
        if known.size is None and entry.record is not None and isinstance(size := entry.record.get("size"), int):
            known = replace(artifact, size=size)
        return Planned(known, "cached", entry.archive or entry.extracted)
    for archive in (pkgs_dir / artifact.filename, staged_path(pkgs_dir, artifact)):
        if verify_file(archive, artifact.digest, artifact.size, cancelled):
            return Planned(measured(artifact, archive), "packed", archive)
    return Planned(artifact, "missing")


def plan_rattler(
    artifacts: Sequence[Artifact], pkgs_dir: Path, cancelled: Callable[[], bool] = lambda: False
) -> list[Planned]:
    """Look ``artifacts`` up in rattler's package cache.

    Raises StoreError for an unsafe package name, and Interrupted once ``cancelled``.
    """
    planned = []
    for artifact in artifacts:
        place, staged, state = rattler_folder(pkgs_dir, artifact), staged_path(pkgs_dir, artifact), "missing"
        if find_for_rattler(pkgs_dir, artifact) is not None:
            state = "cached"
        elif artifact.digest is not None and verify_file(staged, artifact.digest, artifact.size, cancelled):
            state = "packed"
        planned.append(Planned(artifact, state, None if state == "missing" else place))
    return planned

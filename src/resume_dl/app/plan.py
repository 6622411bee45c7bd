"""What a run will do with each artifact: what is there already, what has to come, and whether it will fit."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.app.extract import staged_path
from resume_dl.errors import OutOfSpaceError
from resume_dl.model.artifact import Artifact
from resume_dl.store.condacache import claim_for_client, find_entry, verify_file
from resume_dl.store.part import FOLDER, PartStore

UNPACKED_FACTOR = 3
"""Packages unpack to about this many times their archive's size (pytorch 2.3, mkl 3.6, numpy 3.5): an estimate."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One artifact: ``state`` is ``cached`` (nothing to do), ``packed`` (verified, to be unpacked) or ``missing``."""

    artifact: Artifact
    state: str
    path: Path | None = None


def plan_cache(artifacts: Sequence[Artifact], pkgs_dir: Path, others: Sequence[Path], *, touch: bool) -> list[Planned]:
    """What conda's package caches have of ``artifacts`` already.

    An entry under another mirror's URL is made one of the client's, unless ``touch`` is False (dry runs). A bare
    archive counts once its digest was computed. Raises StoreError.
    """
    return [_planned(artifact, pkgs_dir, others, touch=touch) for artifact in artifacts]


def _planned(artifact: Artifact, pkgs_dir: Path, others: Sequence[Path], *, touch: bool) -> Planned:
    if artifact.digest is None:
        return Planned(artifact, "missing")
    entry = find_entry([pkgs_dir, *others], artifact)
    if entry is not None and entry.extracted is not None:
        if touch and not entry.is_for(artifact):
            entry = claim_for_client(entry, artifact)
        return Planned(artifact, "cached", entry.archive or entry.extracted)
    for archive in (pkgs_dir / artifact.filename, staged_path(pkgs_dir, artifact)):
        if verify_file(archive, artifact.digest, artifact.size):
            return Planned(artifact, "packed", archive)
    return Planned(artifact, "missing")


def plan_folder(artifacts: Sequence[Artifact], folder: Path) -> list[Planned]:
    """What a plain folder (``--dest``) has already, verified by digest."""
    planned = []
    for artifact in artifacts:
        path = folder / artifact.filename
        there = artifact.digest is not None and verify_file(path, artifact.digest, artifact.size)
        planned.append(Planned(artifact, "cached" if there else "missing", path if there else None))
    return planned


@dataclass(frozen=True, slots=True)
class Space:
    """What a run needs, in bytes."""

    download: int
    """Not on disk yet."""
    unpacked: int
    """Estimated."""
    free: int

    def describe(self) -> str:
        """All three numbers, for people."""
        return (
            f"{show_bytes(self.download)} to download, about {show_bytes(self.unpacked)} unpacked, "
            f"{show_bytes(self.free)} free"
        )

    def check(self, folder: Path) -> None:
        """Raise OutOfSpaceError with the numbers where it will not fit."""
        needed = self.download + self.unpacked
        if needed > self.free:
            raise OutOfSpaceError(
                f"{folder} needs {show_bytes(needed)} ({show_bytes(self.download)} to download and about "
                f"{show_bytes(self.unpacked)} unpacked), but only {show_bytes(self.free)} are free",
                needed=needed,
                free=self.free,
                hint="free some space, or choose a folder on another disk with --pkgs-dir",
            )


def space_for(planned: Sequence[Planned], folder: Path, *, unpack: bool) -> Space:
    """What the run will put on the disk of ``folder``; bytes of unfinished downloads are there already."""
    begun = {part.key: part.done for part in PartStore(folder / FOLDER).unfinished()}
    download = unpacked = 0
    for each in planned:
        size = each.artifact.size or 0
        if each.state == "missing":
            download += max(0, size - begun.get(each.artifact.key, 0))
        if unpack and each.state in {"missing", "packed"}:
            unpacked += UNPACKED_FACTOR * size
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    return Space(download, unpacked, shutil.disk_usage(place).free)


def show_bytes(count: int) -> str:
    """A count for people: ``1.5 GB``, powers of ten as disks and lines are sold."""
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError("unreachable")

"""What a run will do with each artifact: what is there already, what has to come, and whether it will fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.link_or_copy import take
from resume_dl.errors import OutOfSpaceError
from resume_dl.model.artifact import Artifact
from resume_dl.model.units import show_bytes
from resume_dl.ports import PlannedFile
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import staged_path

UNPACKED_FACTOR = 3
"""Packages unpack to about this many times their archive's size (pytorch 2.3, mkl 3.6, numpy 3.5): an estimate."""
ANY_FOLDER = "--pkgs-dir (or --wheel-dir, --dest)"
"""The options of ``fetch`` that choose where files go."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One artifact: ``state`` is ``cached`` (nothing to do), ``packed`` (verified, to be unpacked) or ``missing``."""

    artifact: Artifact
    state: str
    path: Path | None = None


def measured(artifact: Artifact, path: Path | None) -> Artifact:
    """The artifact with its file's size on disk, where its record gives none (lines of a list)."""
    if artifact.size is None and path is not None:
        with suppress(OSError):
            return replace(artifact, size=path.stat().st_size)
    return artifact


def plan_folder(
    artifacts: Sequence[Artifact],
    folder: Path,
    *,
    place: Callable[[Artifact], Path] | None = None,
    near: Sequence[Path] = (),
    touch: bool = False,
) -> list[Planned]:
    """What a plain folder (``--dest``, a wheel dir, a bundle) has already, verified by digest.

    ``place`` says where in it each one lies. What lies in one of the folders ``near`` under its own name is put there
    too, without a second copy if that can be, unless ``touch`` is False (dry runs). Raises OSError.
    """
    planned = []
    for artifact in artifacts:
        path = folder / artifact.filename if place is None else place(artifact)
        there = _is_verified(path, artifact) or any(
            _take(other / artifact.filename, path, folder, artifact, touch=touch) for other in near
        )
        planned.append(Planned(measured(artifact, path), "cached", path) if there else Planned(artifact, "missing"))
    return planned


def _take(source: Path, target: Path, folder: Path, artifact: Artifact, *, touch: bool) -> bool:
    if source == target or not source.is_file():
        return False
    if not touch:
        return _is_verified(source, artifact)
    return take(source, target, staged_path(folder, artifact), artifact)


def _is_verified(path: Path, artifact: Artifact) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return artifact.digest is not None and verify_file(path, artifact.digest, artifact.size)


@dataclass(frozen=True, slots=True)
class Space:
    """What a run needs on the disk of ``folder``, in bytes."""

    folder: Path
    download: int
    """Not on disk yet."""
    unpacked: int
    """Estimated."""
    free: int
    packed: int = 0
    """For all files once more, in a tar."""
    unknown: int = 0
    """How many files are to be downloaded whose size is unknown; in none of the sums."""
    options: str = ANY_FOLDER
    """The options that choose another folder, for messages."""

    def describe(self) -> str:
        """All the numbers, for people."""
        files = f"{self.unknown} file{'' if self.unknown == 1 else 's'} of unknown size"
        known = [show_bytes(self.download)] if self.download or not self.unknown else []
        download = " and ".join(known + [files] * bool(self.unknown))
        unpacked = f"about {show_bytes(self.unpacked)} unpacked, " if self.unpacked else ""
        return f"{download} to download, {unpacked}{show_bytes(self.free)} free"

    def check(self) -> None:
        """Raise OutOfSpaceError with the numbers where it will not fit."""
        needed = self.download + self.unpacked + self.packed
        later = f" and about {show_bytes(self.unpacked)} unpacked" if self.unpacked else ""
        later = f" and about {show_bytes(self.packed)} in the tar" if self.packed else later
        if needed > self.free:
            raise OutOfSpaceError(
                f"{self.folder} needs {show_bytes(needed)} ({show_bytes(self.download)} to download{later}), but "
                f"only {show_bytes(self.free)} are free",
                needed=needed,
                free=self.free,
                hint=f"free some space, or choose a folder on another disk with {self.options}"
                + ("; --no-extract needs less: conda unpacks later" if self.unpacked else ""),
            )


def space_for(
    planned: Sequence[Planned], folder: Path, *, unpack: bool, pack: bool = False, options: str = ANY_FOLDER
) -> Space:
    """What the run will put on the disk of ``folder``; bytes of unfinished downloads are there already.

    ``pack``: all files go into a tar in the end, beside them. ``options`` as in ``Space``.
    """
    download = unpacked = unknown = 0
    for each, file in zip(planned, planned_files(planned, folder), strict=True):
        size = file.artifact.size
        unknown += each.state == "missing" and size is None
        download += (size or 0) - file.here if size is not None else 0
        if unpack and each.state in {"missing", "packed"}:
            unpacked += UNPACKED_FACTOR * (size or 0)
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    packed = sum(each.artifact.size or 0 for each in planned) if pack else 0
    return Space(folder, download, unpacked, shutil.disk_usage(place).free, packed, unknown, options)


def planned_files(planned: Sequence[Planned], folder: Path) -> list[PlannedFile]:
    """``planned`` as a reporter is told of it: with the bytes of each that unfinished downloads in ``folder`` have."""
    begun = {part.key: part for part in PartStore(folder / FOLDER).unfinished()}
    files = []
    for each in planned:
        artifact, part = each.artifact, begun.get(each.artifact.key)
        if each.state != "missing":
            files.append(PlannedFile(artifact, artifact.size or 0, whole=True))
        elif part is None:
            files.append(PlannedFile(artifact))
        else:
            size = part.size if artifact.size is None else artifact.size
            files.append(PlannedFile(replace(artifact, size=size), part.done if size is None else min(part.done, size)))
    return files


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request comes to. ``thorough``: keys of artifacts whose record cannot be had any fresher."""

    artifacts: Sequence[Artifact]
    thorough: Container[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be done for ``Wanted``; ``left_out`` is not fetched, because the target machine has it."""

    planned: Sequence[Planned]
    left_out: Sequence[Artifact]
    spaces: Sequence[Space]
    thorough: Container[str] = ()

    @property
    def keys(self) -> set[str]:
        """Those of the artifacts that are planned."""
        return {each.artifact.key for each in self.planned}

    def check(self) -> None:
        """Raise OutOfSpaceError where a disk is too small. Reads nothing: call it as early as it helps."""
        for space in self.spaces:
            space.check()

"""The plan of a run: which artifacts are on disk already, which are downloaded, and whether they fit."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.caches.link_or_copy import link_or_copy
from resume_dl.errors import OutOfSpaceError
from resume_dl.model.artifact import Artifact
from resume_dl.model.units import show_bytes
from resume_dl.ports import PlannedFile
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import staged_path

UNPACKED_FACTOR = 3
"""Estimated ratio of a package's unpacked size to its archive's (pytorch 2.3, mkl 3.6, numpy 3.5)."""
ANY_FOLDER = "--pkgs-dir (or --wheel-dir, --dest)"
"""The options of ``fetch`` that choose where files go."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One artifact: ``state`` is ``cached`` (nothing to do), ``packed`` (verified, to be unpacked) or ``missing``."""

    artifact: Artifact
    state: str
    path: Path | None = None


def measured(artifact: Artifact, path: Path | None) -> Artifact:
    """Return the artifact with its file's size on disk if its record gives none (lines of a list)."""
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
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Planned]:
    """Find which artifacts are in a plain folder (``--dest``, a wheel dir, a bundle), verified by digest.

    ``place``: the path of each in it. Files found in a folder of ``near`` are linked into it, or copied if they cannot
    be linked, unless ``touch`` is False (dry runs). Raises OSError, and Interrupted once ``cancelled``.
    """
    planned = []
    for artifact in artifacts:
        path = folder / artifact.filename if place is None else place(artifact)
        there = _is_verified(path, artifact, cancelled) or any(
            _take(other / artifact.filename, path, folder, artifact, cancelled, touch=touch) for other in near
        )
        planned.append(Planned(measured(artifact, path), "cached", path) if there else Planned(artifact, "missing"))
    return planned


def _take(
    source: Path, target: Path, folder: Path, artifact: Artifact, cancelled: Callable[[], bool], *, touch: bool
) -> bool:
    if source == target or not source.is_file():
        return False
    if not touch:
        return _is_verified(source, artifact, cancelled)
    return link_or_copy(source, target, staged_path(folder, artifact), artifact, cancelled)


def _is_verified(path: Path, artifact: Artifact, cancelled: Callable[[], bool]) -> bool:
    try:
        path.stat()
    except (OSError, ValueError):
        return False
    return artifact.digest is not None and verify_file(path, artifact.digest, artifact.size, cancelled)


@dataclass(frozen=True, slots=True)
class Space:
    """What a run needs on the disk of ``folder``, in bytes."""

    folder: Path
    download: int
    """Bytes that are not on disk yet."""
    unpacked: int
    """Estimated."""
    free: int
    packed: int = 0
    """The size of a tar of all files."""
    unknown: int = 0
    """The number of files to download whose size is unknown; the sums leave them out."""
    options: str = ANY_FOLDER
    """The options that choose another folder, for messages."""

    def describe(self) -> str:
        """Format all sizes for a message."""
        files = f"{self.unknown} file{'' if self.unknown == 1 else 's'} of unknown size"
        known = [show_bytes(self.download)] if self.download or not self.unknown else []
        download = " and ".join(known + [files] * bool(self.unknown))
        unpacked = f"about {show_bytes(self.unpacked)} unpacked, " if self.unpacked else ""
        return f"{download} to download, {unpacked}{show_bytes(self.free)} free"

    def check(self) -> None:
        """Raise OutOfSpaceError, with the sizes, if the disk is too small."""
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
    """Compute what the run will write to the disk of ``folder``; the bytes of unfinished downloads are there already.

    ``pack``: all files are packed into a tar on the same disk. ``options`` as in ``Space``.
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
    """Return ``planned`` for a reporter, with the bytes that unfinished downloads in ``folder`` have."""
    unfinished = {part.key: part for part in PartStore(folder / FOLDER).unfinished()}
    files = []
    for each in planned:
        artifact, part = each.artifact, unfinished.get(each.artifact.key)
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
    """The artifacts of a request. ``thorough``: keys of those whose record is the newest available."""

    artifacts: Sequence[Artifact]
    thorough: Container[str] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan for ``Wanted``; ``left_out`` is not downloaded, because the target machine has it."""

    planned: Sequence[Planned]
    left_out: Sequence[Artifact]
    spaces: Sequence[Space]
    thorough: Container[str] = ()

    @property
    def keys(self) -> set[str]:
        """The keys of the planned artifacts."""
        return {each.artifact.key for each in self.planned}

    def check(self) -> None:
        """Raise OutOfSpaceError if a disk is too small. Does no I/O."""
        for space in self.spaces:
            space.check()

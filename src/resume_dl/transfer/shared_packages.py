"""Unpacked packages of shared caches of rattler, copied into the user's own (see ``transfer.shared_folders``).

rattler has one cache and links from it, so a package of another cache has to be in the user's own. Which archive it is
of is known by the sha256 that rattler has noted beside it, and the copy is verified by the package's own list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace as changed
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import claim_extraction, extraction_folder, remove
from resume_dl.caches.extracted_copy import copy_package, has_room, is_unaltered
from resume_dl.caches.rattler import find_for_rattler, publish_for_rattler
from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.model.artifact import Artifact
from resume_dl.transfer.plan import Planned


def copy_shared(
    planned: Sequence[Planned], shared: Sequence[Path], pkgs_dir: Path, *, touch: bool, cancelled: Callable[[], bool]
) -> list[Planned]:
    """Copy what is missing in ``pkgs_dir`` and whole in one of ``shared``; the rest stays missing.

    Without ``touch`` (dry runs) it is only verified. Raises Interrupted once ``cancelled``.
    """

    def found(each: Planned) -> Planned:
        if each.state != "missing" or each.artifact.sha256 is None:
            return each
        for other in shared:
            place = _take(other, pkgs_dir, each.artifact, cancelled, touch=touch) if other != pkgs_dir else None
            if place is not None:
                return changed(each, state="cached", path=place)
        return each

    return [found(each) for each in planned]


def _take(
    shared: Path, pkgs_dir: Path, artifact: Artifact, cancelled: Callable[[], bool], *, touch: bool
) -> Path | None:
    """The folder in ``pkgs_dir``, or in ``shared`` if nothing may be written; None for a package that is not used."""
    try:
        source = find_for_rattler(shared, artifact)
        if source is None:
            return None
        if not touch:
            return source if is_unaltered(source, cancelled) else None
        pkgs_dir.mkdir(parents=True, exist_ok=True)
        return _copied(source, pkgs_dir, artifact, cancelled) if has_room(pkgs_dir, source) else None
    except Interrupted:
        raise
    except (ResumeDLError, OSError):  # not to be trusted, damaged, or no place for it: the download tells
        return None


def _copied(source: Path, pkgs_dir: Path, artifact: Artifact, cancelled: Callable[[], bool]) -> Path:
    claim = claim_extraction(pkgs_dir)
    try:
        folder = extraction_folder(pkgs_dir, claim)
        try:
            copy_package(source, folder / "package", cancelled)
            return publish_for_rattler(pkgs_dir, artifact, folder / "package", cancelled=cancelled)
        finally:
            remove(folder)
    finally:
        claim.release(remove=True)

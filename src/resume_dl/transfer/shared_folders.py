"""Folders that several users share: read like the read-only ones of conda's ``pkgs_dirs``, and never written to.

Another user may own such a folder and may change it at any time. So no link in it is followed, and a file is copied,
never linked: its copy is verified, and a later change of the original does not reach it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import Interrupted, ResumeDLError
from resume_dl.fs.others_links import others_link_on
from resume_dl.model.artifact import Artifact
from resume_dl.ports import Reporter
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.transfer.adopted_files import artifact_of, opened, take_whole
from resume_dl.transfer.plan import Planned, measured

_LABEL = "shared folder"
"""The source of the copied bytes in the journal of a part file."""


def shared_folders(named: Iterable[Path], reporter: Reporter) -> tuple[Path, ...]:
    """Return the folders that can be used, absolute; a warning names one that is not used.

    That is one that another user's link leads to, or that cannot be reached. A missing one is ignored without a word,
    as conda ignores it in ``pkgs_dirs``.
    """
    folders = []
    for folder in dict.fromkeys(fs.absolute(each) for each in named):
        try:
            if (link := others_link_on(folder)) is not None:
                _warn(folder, f"{link} is a link that another user made", reporter)
            elif folder.is_dir():
                folders.append(folder)
        except OSError as error:  # below a folder that this user may not enter: it is one of several sources only
            _warn(folder, error.strerror or str(error), reporter)
    return tuple(folders)


def _warn(folder: Path, why: str, reporter: Reporter) -> None:
    reporter.message(f"{folder} is not used: {why}", level="warning")


def take_shared(
    planned: Sequence[Planned],
    shared: Sequence[Path],
    folder: Path,
    *,
    touch: bool,
    cancelled: Callable[[], bool],
) -> list[Planned]:
    """Copy what is missing in the plain ``folder`` and has its digest in one of ``shared``; the rest stays missing.

    Without ``touch`` (dry runs) such files are only verified. Raises Interrupted once ``cancelled``.
    """
    store = PartStore(folder / FOLDER) if touch else None
    return [each if each.state != "missing" else _find(each, shared, folder, store, cancelled) for each in planned]


def _find(
    planned: Planned, shared: Sequence[Path], folder: Path, store: PartStore | None, cancelled: Callable[[], bool]
) -> Planned:
    artifact, goal = planned.artifact, folder / planned.artifact.filename
    for source in (other / artifact.filename for other in shared if other != folder):
        if _take(source, goal, artifact, store, cancelled):
            return Planned(measured(artifact, goal if store else source), "cached", goal)
    return planned


def _take(source: Path, goal: Path, artifact: Artifact, store: PartStore | None, cancelled: Callable[[], bool]) -> bool:
    """Verify ``source`` and copy it to ``goal``; without a store only the former. False if it is not the artifact."""
    if artifact.digest is None or not fs.is_regular(source, artifact.size):
        return False
    try:
        with opened(source) as fd:
            if artifact_of(fd, [artifact], cancelled) is None:
                return False
            if store is None:
                return True
            size = os.fstat(fd).st_size
            store.folder.parent.mkdir(parents=True, exist_ok=True)
            if shutil.disk_usage(store.folder.parent).free < size:
                return False
            take_whole(fd, artifact, store, goal, label=_LABEL, cancelled=cancelled)
            return True
    except Interrupted:
        raise
    except (ResumeDLError, OSError):  # changed meanwhile, or in use by another process: the download tells
        return False

"""A verified file from elsewhere on this machine: a hard link where the file system can, so that it takes no room."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.model.artifact import Artifact
from resume_dl.store.platform import make_folder, replace_durably
from resume_dl.store.work_folder import make_work_folder


def take(source: Path, target: Path, waiting: Path, artifact: Artifact) -> bool:
    """Whether ``target`` is the artifact's file from now on, taken from ``source``; False where that is not it.

    ``waiting`` is a name that no client looks for, on the file system of ``target``: what lies there is hashed, so a
    copy that went wrong is noticed as well. An unreadable source is none; raises OSError where nothing can be written.
    """
    digest = artifact.digest
    try:
        source = source.resolve(strict=True)  # a link to a symbolic link would be one itself
        if digest is None or (artifact.size is not None and source.stat().st_size != artifact.size):
            return False
    except OSError:
        return False
    make_work_folder(waiting.parent)
    waiting.unlink(missing_ok=True)
    try:
        os.link(source, waiting)
    except OSError:  # another file system, or one without links
        if shutil.disk_usage(waiting.parent).free < source.stat().st_size or not os.access(source, os.R_OK):
            return False
        shutil.copyfile(source, waiting)
    try:
        if not verify_file(waiting, digest, artifact.size):
            return False
        make_folder(target.parent)
        replace_durably(waiting, target)
        return True
    finally:
        with suppress(OSError):  # gone by the rename; still there where both names are one file
            waiting.unlink()

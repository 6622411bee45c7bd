"""Verified files taken from elsewhere on this machine: as a hard link if possible, else as a copy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from resume_dl.caches.conda.lookup import verify_file
from resume_dl.model.artifact import Artifact
from resume_dl.store.platform import make_folder, replace_durably
from resume_dl.store.work_folder import make_work_folder


def link_or_copy(
    source: Path, target: Path, waiting: Path, artifact: Artifact, cancelled: Callable[[], bool] = lambda: False
) -> bool:
    """Make ``target`` a link or a copy of ``source``; False if that is unreadable or not the artifact's file.

    ``waiting`` is a temporary path on the file system of ``target`` that no client looks for. The file is hashed there,
    so a faulty copy is detected too. Raises OSError if nothing can be written, Interrupted once ``cancelled``.
    """
    digest = artifact.digest
    try:
        source = source.resolve(strict=True)  # a hard link to a symbolic link is a symbolic link
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
        if not verify_file(waiting, digest, artifact.size, cancelled):
            return False
        make_folder(target.parent)
        replace_durably(waiting, target)
        return True
    finally:
        with suppress(OSError):  # the rename has removed it, unless both names were the same file
            waiting.unlink()

"""Look at package caches and the folders of environments; a file for the test of links is made and removed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.diagnosis.folder_check import FolderFacts
from resume_dl.errors import NotWritableError
from resume_dl.fs.private import UntrustedFolderError, check_private
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.settings.paths import Paths
from resume_dl.settings.pkgs_dirs import first_writable_pkgs_dir


def look_at_folders(conda: CondaSettings, paths: Paths) -> FolderFacts:
    """The facts about folders but for the packages in them. Never raises OSError."""
    own = tuple(
        f"{folder} ({_existing(folder)} is read-only)"
        for folder in (paths.cache, paths.state)
        if not os.access(_existing(folder), os.W_OK | os.X_OK)
    )
    try:
        cache = first_writable_pkgs_dir(conda)
    except NotWritableError as error:
        return FolderFacts(refusal=error.message, own_refusals=own, free=_free(paths.cache))
    environments = next(
        (place for place in conda.envs_dirs if os.access(_existing(place), os.W_OK | os.X_OK)),
        None,
    )
    exposed, to_all = _exposed(cache)
    return FolderFacts(
        cache=str(cache),
        exposed=exposed,
        exposed_to_all=to_all,
        environments=str(environments or ""),
        links=None if environments is None else _can_link(_existing(cache), _existing(environments)),
        free=_free(cache),
        own_refusals=own,
    )


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that exists."""
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    return folder


def _exposed(cache: Path) -> tuple[str, bool]:
    try:
        check_private(cache)
    except UntrustedFolderError as error:
        mode = os.lstat(cache).st_mode
        return str(error), bool(stat.S_ISDIR(mode) and mode & stat.S_IWOTH and not fs.WINDOWS)
    except OSError:
        pass  # not there yet
    return "", False


def _can_link(source: Path, target: Path) -> bool | None:
    """Whether a file can be hard-linked from ``source`` to ``target``, both existing folders; None: unknown."""
    try:
        number, made = tempfile.mkstemp(prefix=".resume-dl-", dir=source)
    except OSError:
        return None
    os.close(number)
    link = target / Path(made).name
    try:
        os.link(made, link)
    except OSError:
        return False
    else:
        with suppress(OSError):
            link.unlink()
        return True
    finally:
        with suppress(OSError):
            Path(made).unlink()


def _free(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(_existing(folder)).free
    except OSError:
        return None

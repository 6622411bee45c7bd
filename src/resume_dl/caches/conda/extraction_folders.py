"""Folders that packages are unpacked into before they are published: claimed, named, removed after a crash."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import LockedError, StoreError
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.work_folder import is_trusted, make_work_folder

ASIDE = "aside-"
"""Prefix of entries that were replaced, in the folder of unfinished files: ``sweep`` removes them."""
_EXTRACT = "extract-"


def claim_extraction(pkgs_dir: Path) -> FileLock:
    """Marks the extraction folders of this process as in use, until it releases the lock or ends in any way.

    Raises StoreError or OSError.
    """
    make_work_folder(pkgs_dir / FOLDER)
    while True:
        lock = FileLock(pkgs_dir / FOLDER / f"{_EXTRACT}{secrets.token_hex(4)}.lock")
        with suppress(LockedError):  # a sweep looks at it this very moment
            lock.acquire()
            return lock


def extraction_folder(pkgs_dir: Path, claim: FileLock | None = None) -> Path:
    """A new empty folder to extract into, on the cache's file system, under a name that no client takes.

    The caller renames it by ``publish_entry`` or removes it; with ``claim``, ``sweep`` does for a process that was
    killed. Its mode follows the umask, as conda's does. Raises OSError.
    """
    owner = _EXTRACT.rstrip("-") if claim is None else claim.path.stem
    make_work_folder(pkgs_dir / FOLDER)
    while True:
        # short: Windows takes paths of 260 letters, and those in a package are about to be shorter by this name
        folder = pkgs_dir / FOLDER / f"{owner}-{secrets.token_hex(3)}"
        with suppress(FileExistsError):
            folder.mkdir()
            return folder


def sweep(pkgs_dir: Path) -> None:
    """Remove what killed processes left: folders put aside, and half-filled ones to extract into.

    A replaced one is not needed any more; one to extract into is in use while its process holds the lock.
    """
    ours = pkgs_dir / FOLDER
    if not is_trusted(ours):
        return
    for path in ours.glob(f"{ASIDE}*"):
        remove(path)
    for path in ours.glob(f"{_EXTRACT}*.lock"):
        lock = FileLock(path)
        with suppress(OSError, StoreError):
            lock.acquire()
            for folder in ours.glob(f"{path.stem}-*"):
                remove(folder)
            lock.release(remove=True)


def is_unpacking(pkgs_dir: Path) -> bool:
    """Whether some process unpacks into this cache; right after ``sweep``, which removes what dead ones had claimed."""
    return any((pkgs_dir / FOLDER).glob(f"{_EXTRACT}*.lock"))


def remove(path: Path) -> None:
    """``fs.remove`` as far as possible; never raises OSError."""
    with suppress(OSError):
        fs.remove(path)

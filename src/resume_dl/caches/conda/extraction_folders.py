"""Folders into which packages are unpacked before they are published: claimed, named, removed after a crash."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from resume_dl.errors import LockedError, StoreError
from resume_dl.fs import removal
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.work_folder import is_trusted, make_work_folder

REPLACED = "aside-"
"""Name prefix of replaced entries in the work folder, which ``sweep`` removes."""
_EXTRACT = "extract-"


def claim_extraction(pkgs_dir: Path) -> FileLock:
    """Mark the extraction folders of this process as in use, until it releases the lock or ends in any way.

    Raises StoreError or OSError.
    """
    make_work_folder(pkgs_dir / FOLDER)
    while True:
        lock = FileLock(pkgs_dir / FOLDER / f"{_EXTRACT}{secrets.token_hex(4)}.lock")
        with suppress(LockedError):  # a concurrent sweep has just locked it
            lock.acquire()
            return lock


def extraction_folder(pkgs_dir: Path, claim: FileLock | None = None) -> Path:
    """Make an empty folder to extract into, on the cache's file system, under a name that no client uses.

    The caller publishes it (``publish_entry``) or removes it; with ``claim``, ``sweep`` removes it after a kill. Its
    mode follows the umask, as conda's does. Raises OSError.
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
    """Remove what killed processes left: replaced entries, and extraction folders whose process has ended.

    An extraction folder is in use while its process holds the lock of its claim.
    """
    ours = pkgs_dir / FOLDER
    if not is_trusted(ours):
        return
    for path in ours.glob(f"{REPLACED}*"):
        remove(path)
    for path in ours.glob(f"{_EXTRACT}*.lock"):
        lock = FileLock(path)
        with suppress(OSError, StoreError):
            lock.acquire()
            for folder in ours.glob(f"{path.stem}-*"):
                remove(folder)
            lock.release(remove=True)


def is_unpacking(pkgs_dir: Path) -> bool:
    """Whether a process unpacks into this cache. Call ``sweep`` before, which removes claims of ended processes."""
    return any((pkgs_dir / FOLDER).glob(f"{_EXTRACT}*.lock"))


def remove(path: Path) -> None:
    """Remove as much as possible by ``removal.remove``; never raises OSError."""
    with suppress(OSError):
        removal.remove(path)

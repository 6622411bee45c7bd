"""rattler's package cache, which pixi and rattler-build share: lookup, and publishing in rattler's own layout.

It holds unpacked packages only: ``<pkgs>/<name>-<version>-<build>/``, and next to each a ``<folder>.lock`` with its
revision (8 bytes, big-endian) and its archive's sha256 (32 bytes; missing if the index gave none). rattler uses a
folder unless its .lock has another sha256 than the index, and makes no other check. A writer holds a lock on
``<pkgs>/.cache.lock``. Source: rattler's crate ``rattler_cache`` (``package_cache``), and folders that py-rattler 0.23
and 0.28 wrote. rattler has no call that would put an archive there without installing it.

``publish_for_rattler`` works in this order: sync everything, move away a folder of that name that is another package,
write the .lock, rename the folder. After a kill between any two steps rattler finds no folder, and downloads.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.extraction_folders import REPLACED, remove
from resume_dl.caches.conda.lookup import is_whole, same_bytes
from resume_dl.caches.conda.publish import add_record, sync_extracted
from resume_dl.caches.conda.record import LAST_COPIED, RECORD, read_info
from resume_dl.errors import NotWritableError, StoreError
from resume_dl.fs.lock import open_lock, try_lock
from resume_dl.model.artifact import Artifact, safe_filename
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import move_folder, replace, sync_directory, write_durably
from resume_dl.store.work_folder import make_work_folder

_GLOBAL_LOCK = ".cache.lock"
_REVISION_BYTES = 8
_MOST_LOCK = 4096
_PAUSE = 0.2
"""Seconds between two attempts to lock: rattler holds the lock during a whole installation."""


def rattler_folder(pkgs_dir: Path, artifact: Artifact) -> Path:
    """Return the folder in which rattler looks for the unpacked ``artifact``. Raises StoreError for an unsafe name."""
    try:
        return pkgs_dir / safe_filename(f"{artifact.name.lower()}-{artifact.version}-{artifact.build}")
    except ValueError as error:
        raise StoreError(f"{artifact.filename} cannot be put into rattler's cache: {error}") from error


def find_for_rattler(pkgs_dir: Path, artifact: Artifact) -> Path | None:
    """Return the folder of the unpacked ``artifact`` if rattler will use it, else None. Nothing is hashed.

    The folder must have all its files, and its .lock the sha256. If the index gives only an md5, which rattler does
    not note, the folder must have a record, as those that we publish.
    """
    folder = rattler_folder(pkgs_dir, artifact)
    if not folder.is_dir():
        return None
    if artifact.sha256 is not None:
        is_right = _read_lock(folder)[1] == artifact.sha256
    else:
        record = read_info(folder, RECORD)
        is_right = record is not None and same_bytes(record, artifact)
    return folder if is_right and is_whole(folder) else None


def publish_for_rattler(
    pkgs_dir: Path,
    artifact: Artifact,
    extracted: Path,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Path:
    """Move an unpacked archive into the cache; returns its folder there.

    ``extracted`` is below ``<pkgs>/.resume-dl/`` and is moved; ``artifact`` must have its archive's sha256. Waits while
    a rattler process holds the cache's lock, until ``cancelled``. Raises NotWritableError or StoreError.
    """
    add_record(pkgs_dir, artifact, extracted)
    sync_extracted(pkgs_dir, [extracted])
    return place_for_rattler(pkgs_dir, artifact, extracted, cancelled=cancelled)


def place_for_rattler(
    pkgs_dir: Path,
    artifact: Artifact,
    extracted: Path,
    *,
    cancelled: Callable[[], bool] = lambda: False,
) -> Path:
    """``publish_for_rattler`` for an unpacked folder that has its record and is synced."""
    folder = rattler_folder(pkgs_dir, artifact)
    if artifact.sha256 is None:
        raise StoreError(f"{artifact.filename} has no sha256, which rattler needs to recognise it")
    try:
        with _exclusive(pkgs_dir, cancelled):
            if find_for_rattler(pkgs_dir, artifact) is None:
                _take_place(folder, extracted, bytes.fromhex(artifact.sha256))
    except PermissionError as error:
        hint = "choose another folder with --rattler-cache"
        raise NotWritableError(f"{pkgs_dir} cannot be written: {error.strerror}", hint=hint) from error
    except OSError as error:
        raise StoreError(f"{pkgs_dir}: {error.strerror or error}", hint="check whether the disk is full") from error
    return folder


def _take_place(folder: Path, extracted: Path, sha256: bytes) -> None:
    """Rename ``extracted`` to ``folder``, after the old folder was moved away and the .lock names the new package."""
    make_work_folder(folder.parent / FOLDER)
    replaced = folder.parent / FOLDER / f"{REPLACED}{secrets.token_hex(8)}"
    with suppress(FileNotFoundError):
        replace(folder, replaced)
        sync_directory(folder.parent)  # a power cut must not bring it back next to the .lock of the new package
    revision = _read_lock(folder)[0] + 1  # a new revision makes a running rattler check the folder again
    content = revision.to_bytes(_REVISION_BYTES, "big") + sha256
    write_durably(_lock_of(folder), content, temporary=replaced.with_name(f"{REPLACED}{secrets.token_hex(8)}"))
    move_folder(extracted, folder, last=LAST_COPIED)
    sync_directory(folder.parent)
    remove(replaced)


def _lock_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.lock")


def _read_lock(folder: Path) -> tuple[int, str | None]:
    """Return revision and sha256 of the .lock; 0 and None if it is missing or too short."""
    try:
        data = fs.read_regular(_lock_of(folder), _MOST_LOCK)
    except OSError:
        return 0, None
    return int.from_bytes(data[:_REVISION_BYTES], "big"), data[_REVISION_BYTES : _REVISION_BYTES + 32].hex() or None


@contextmanager
def _exclusive(pkgs_dir: Path, cancelled: Callable[[], bool]) -> Iterator[None]:
    """Hold rattler's own lock on the cache. Raises OSError, or StoreError once ``cancelled``."""
    fd = open_lock(pkgs_dir / _GLOBAL_LOCK)
    try:
        while not try_lock(fd):
            if cancelled():
                hint = "run the same command again"
                raise StoreError(f"{pkgs_dir} is in use by pixi or another rattler process", hint=hint)
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(fd)

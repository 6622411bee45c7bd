"""Publishing of verified packages into conda's package cache, in conda's own layout.

conda, mamba and pip look for the names ``<pkgs>/<fn>`` and ``<pkgs>/<stem>/``. So nothing gets such a name before it is
complete and verified: archives are renamed from their verified part file, folders from ``<pkgs>/.resume-dl/`` once they
have their record. ``publish_entry`` works in this order: write the record, sync everything, move away a stale folder of
that name, rename the folder, rename the archive, append to ``urls.txt``. Many packages share one sync (``add_record``
for each, ``sync_extracted``, ``place_entries``). After a kill between any two steps conda sees either nothing new, or a
complete extracted package, or that and its archive.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import REPLACED, remove
from resume_dl.caches.conda.lookup import Entry, is_whole, look, same_bytes, stem
from resume_dl.caches.conda.record import (
    BROKEN_PACKAGE,
    INDEX,
    LAST_COPIED,
    RECORD,
    channel_of,
    client_url,
    read_info,
    repodata_record,
    write_record,
)
from resume_dl.caches.conda.urls import add_url
from resume_dl.errors import IntegrityError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.store.disk_errors import store_error
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import move_folder, replace, sync_directory, sync_trees
from resume_dl.store.work_folder import make_work_folder

_TRIES = 5

PlaceArchive = Callable[[Path], None]
"""Moves a verified archive to the path given, by one rename (``PartFile.publish``)."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A package for ``place_entries``; the fields are the arguments of ``publish_entry``."""

    artifact: Artifact
    archive: Path | PlaceArchive | None
    extracted: Path | None


def publish_entry(
    pkgs_dir: Path,
    artifact: Artifact,
    *,
    archive: Path | PlaceArchive | None,
    extracted: Path | None,
) -> Entry:
    """Put a **verified** archive and its extracted folder into a cache, with the client's URL and channel.

    ``archive``: a verified file below ``<pkgs>/.resume-dl/`` or a function that moves it; None if it is in place.
    ``extracted``: a folder there (``extraction_folder``) with the whole unpacked archive; None to leave it packed.
    Both are moved. A folder of that name that is not this package is replaced, as conda does. Raises NotWritableError
    or StoreError. The caller holds the artifact's lock.
    """
    if extracted is not None:
        add_record(pkgs_dir, artifact, extracted)
        sync_extracted(pkgs_dir, [extracted])
    (entry,) = place_entries(pkgs_dir, [Unplaced(artifact, archive, extracted)])
    if isinstance(entry, StoreError):
        raise entry
    return entry


def add_record(pkgs_dir: Path, artifact: Artifact, extracted: Path) -> None:
    """Write ``repodata_record.json`` into an unpacked folder; ``sync_extracted`` makes it durable.

    Raises IntegrityError if the package's own metadata is malformed, NotWritableError or StoreError.
    """
    index = read_info(extracted, INDEX)
    if index is None:
        raise IntegrityError(f"{artifact.filename} has no readable info/index.json", hint=BROKEN_PACKAGE)
    try:
        write_record(extracted, repodata_record(artifact, index), sync=False)
    except KeyError as error:
        raise IntegrityError(f"{artifact.filename} has no {error.args[0]!r}", hint=BROKEN_PACKAGE) from error
    except OSError as error:
        raise _store_error(error, pkgs_dir) from error


def sync_extracted(pkgs_dir: Path, extracted: Sequence[Path]) -> None:
    """Wait until unpacked folders are on the disk: a power cut must not leave empty files under a trusted record.

    Call it once for many packages: it syncs the cache's whole file system. Raises NotWritableError or StoreError.
    """
    try:
        sync_trees(extracted)
    except OSError as error:
        raise _store_error(error, pkgs_dir) from error


def place_entries(pkgs_dir: Path, entries: Sequence[Unplaced]) -> list[Entry | StoreError]:
    """``publish_entry`` for many packages whose folders have records and are synced; the entry or error of each."""
    done: dict[int, StoreError] = {}
    leftover: list[Path] = []
    for number, each in enumerate(entries):
        target, folder = pkgs_dir / each.artifact.filename, pkgs_dir / stem(each.artifact.filename)
        try:
            make_work_folder(pkgs_dir / FOLDER)
            leftover += _take_place(folder, each.extracted, each.artifact)
            if isinstance(each.archive, Path):
                replace(each.archive, target)
            elif each.archive is not None:
                each.archive(target)
        except StoreError as error:
            done[number] = error
        except OSError as error:
            done[number] = _store_error(error, pkgs_dir)
    placed = [each for number, each in enumerate(entries) if number not in done]
    try:
        if placed:
            sync_directory(pkgs_dir)
        archives = [each.artifact for each in placed if (pkgs_dir / each.artifact.filename).exists()]
        add_url(pkgs_dir, *map(client_url, archives))
    except OSError as error:
        return [done.get(number) or _store_error(error, pkgs_dir) for number, _ in enumerate(entries)]
    for path in leftover:
        remove(path)
    return [done.get(number) or _placed(pkgs_dir, each.artifact) for number, each in enumerate(entries)]


def _placed(pkgs_dir: Path, artifact: Artifact) -> Entry | StoreError:
    entry = look(pkgs_dir, artifact)
    if entry is None:
        return StoreError(f"{artifact.filename} was removed while it was put into {pkgs_dir}")
    if entry.extracted is None or entry.is_for(artifact):
        return entry
    try:
        return claim_for_client(entry, artifact)
    except StoreError as error:
        return error


def claim_for_client(entry: Entry, artifact: Artifact) -> Entry:
    """Give a matching extracted entry the client's URL, in its record (replaced atomically) and in ``urls.txt``.

    The content is not checked: the caller has compared digests (``find_entry``). Raises NotWritableError or StoreError;
    the old record is then unchanged.
    """
    if entry.extracted is None or entry.record is None:
        raise ValueError("only an extracted entry has a record")
    url = client_url(artifact)
    record = {**entry.record, "url": url, "channel": channel_of(url)}
    try:
        write_record(entry.extracted, record, sync=True)
        if entry.archive is not None:
            add_url(entry.pkgs_dir, url)
    except OSError as error:
        raise _store_error(error, entry.pkgs_dir) from error
    return Entry(entry.pkgs_dir, entry.state, entry.archive, entry.extracted, record)


def _take_place(folder: Path, extracted: Path | None, artifact: Artifact) -> list[Path]:
    """Rename ``extracted`` to ``folder``, moving another package there away; returns the folders to be removed."""
    leftover: list[Path] = []
    for attempt in range(_TRIES):
        if os.path.lexists(folder):
            record = read_info(folder, RECORD)
            if record is not None and same_bytes(record, artifact) and is_whole(folder):
                return leftover if extracted is None else [*leftover, extracted]
            replaced = folder.parent / FOLDER / f"{REPLACED}{secrets.token_hex(8)}"
            with suppress(FileNotFoundError):
                replace(folder, replaced)
                leftover.append(replaced)
        if extracted is None:
            break
        try:
            move_folder(extracted, folder, last=LAST_COPIED)
            break
        except OSError:  # another process has put one there since our check
            if attempt == _TRIES - 1 or not os.path.lexists(folder):
                raise
    return leftover


def _store_error(error: OSError, pkgs_dir: Path) -> StoreError:
    return store_error(error, pkgs_dir, hint="check the folder, or choose another --pkgs-dir")

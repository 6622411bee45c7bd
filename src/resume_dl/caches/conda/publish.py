"""Puts verified packages into conda's package cache, as conda itself would leave them.

What conda, mamba and pip take by name are ``<pkgs>/<fn>`` and ``<pkgs>/<stem>/``. So nothing gets such a name before it
is whole and verified: archives are renamed from their verified part file, folders from ``<pkgs>/.resume-dl/`` once
their record is in them. The order of ``publish_entry`` is: record into the folder, everything on the disk, a stale
folder of that name aside, the folder, the archive, the line in ``urls.txt``; many packages go to the disk at once
(``add_record`` for each, ``settle``, ``place_entries``). Killed after any of these steps, conda
sees either nothing new, or a whole extracted package, or that and its archive.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import ASIDE, remove
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
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import move_folder, replace, sync_directory, sync_trees
from resume_dl.store.work_folder import make_work_folder, not_writable

_TRIES = 5

PlaceArchive = Callable[[Path], None]
"""Moves a verified archive to the path given, by one rename (``PartFile.publish``)."""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """What ``place_entries`` puts into a cache: as ``publish_entry`` has it."""

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
    """Put a **verified** archive and its extracted folder into a cache under the client's URL and channel.

    ``archive`` is a verified file below ``<pkgs>/.resume-dl/`` or what moves it, None where it is in place already;
    ``extracted`` is a folder there (``extraction_folder``) with the whole archive in it, None to leave it packed.
    Both are consumed. A folder of that name which is not this package is replaced, as conda would. Raises
    NotWritableError or StoreError; the caller holds the artifact's lock.
    """
    if extracted is not None:
        add_record(pkgs_dir, artifact, extracted)
        settle(pkgs_dir, [extracted])
    (entry,) = place_entries(pkgs_dir, [Unplaced(artifact, archive, extracted)])
    if isinstance(entry, StoreError):
        raise entry
    return entry


def add_record(pkgs_dir: Path, artifact: Artifact, extracted: Path) -> None:
    """Write ``repodata_record.json`` into an unpacked folder; it is on the disk after ``settle``.

    Raises IntegrityError for a package that describes itself wrongly, NotWritableError or StoreError.
    """
    index = read_info(extracted, INDEX)
    if index is None:
        raise IntegrityError(f"{artifact.filename} has no readable info/index.json", hint=BROKEN_PACKAGE)
    try:
        write_record(extracted, repodata_record(artifact, index), sync=False)
    except KeyError as error:
        raise IntegrityError(f"{artifact.filename} does not say its {error.args[0]}", hint=BROKEN_PACKAGE) from error
    except OSError as error:
        raise _mapped(error, pkgs_dir) from error


def settle(pkgs_dir: Path, extracted: Sequence[Path]) -> None:
    """Wait until unpacked folders are on the disk: a power cut must not leave empty files under a believed record.

    Once for as many packages as there are: it asks the cache's file system for everything. Raises NotWritableError or
    StoreError.
    """
    try:
        sync_trees(extracted)
    except OSError as error:
        raise _mapped(error, pkgs_dir) from error


def place_entries(pkgs_dir: Path, entries: Sequence[Unplaced]) -> list[Entry | StoreError]:
    """``publish_entry`` for many whose unpacked folders have their records and are settled; the error of each."""
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
            done[number] = _mapped(error, pkgs_dir)
    placed = [each for number, each in enumerate(entries) if number not in done]
    try:
        if placed:
            sync_directory(pkgs_dir)
        archives = [each.artifact for each in placed if (pkgs_dir / each.artifact.filename).exists()]
        add_url(pkgs_dir, *map(client_url, archives))
    except OSError as error:
        return [done.get(number) or _mapped(error, pkgs_dir) for number, _ in enumerate(entries)]
    for path in leftover:
        remove(path)
    return [done.get(number) or _placed(pkgs_dir, each.artifact) for number, each in enumerate(entries)]


def _placed(pkgs_dir: Path, artifact: Artifact) -> Entry | StoreError:
    entry = look(pkgs_dir, artifact)
    if entry is None:
        return StoreError(f"{artifact.filename} was taken away while it was put into {pkgs_dir}")
    if entry.extracted is None or entry.is_for(artifact):
        return entry
    try:
        return claim_for_client(entry, artifact)
    except StoreError as error:
        return error


def claim_for_client(entry: Entry, artifact: Artifact) -> Entry:
    """Make a matching extracted entry one of the client's URL: its record is replaced as a whole, and ``urls.txt``.

    The content is not looked at: the caller has compared digests (``find_entry``). Raises NotWritableError or
    StoreError; then the old record stands.
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
        raise _mapped(error, entry.pkgs_dir) from error
    return Entry(entry.pkgs_dir, entry.state, entry.archive, entry.extracted, record)


def _take_place(folder: Path, extracted: Path | None, artifact: Artifact) -> list[Path]:
    """Rename ``extracted`` to ``folder``; what stood there and was not this package goes aside. Returns the rest."""
    leftover: list[Path] = []
    for attempt in range(_TRIES):
        if os.path.lexists(folder):
            record = read_info(folder, RECORD)
            if record is not None and same_bytes(record, artifact) and is_whole(folder):
                return leftover if extracted is None else [*leftover, extracted]
            aside = folder.parent / FOLDER / f"{ASIDE}{secrets.token_hex(8)}"
            with suppress(FileNotFoundError):
                replace(folder, aside)
                leftover.append(aside)
        if extracted is None:
            break
        try:
            move_folder(extracted, folder, last=LAST_COPIED)
            break
        except OSError:  # another process put one there between our look and our rename
            if attempt == _TRIES - 1 or not os.path.lexists(folder):
                raise
    return leftover


def _mapped(error: OSError, pkgs_dir: Path) -> StoreError:
    if isinstance(error, PermissionError) or error.errno == 30:  # EROFS
        return not_writable(error, pkgs_dir)
    return StoreError(f"{pkgs_dir}: {error.strerror or error}", hint="free some space, or choose another --pkgs-dir")

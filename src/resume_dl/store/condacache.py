"""conda's package cache: find what lies in it, and put verified packages into it, as conda itself would leave them.

What conda, mamba and pip take by name are ``<pkgs>/<fn>`` and ``<pkgs>/<stem>/``. So nothing gets such a name before it
is whole and verified: archives are renamed from their verified part file, folders from ``<pkgs>/.resume-dl/`` once
their record is in them. The order of ``publish_entry`` is: record into the folder, everything on the disk, a stale
folder of that name aside, the folder, the archive, the line in ``urls.txt``; many packages go to the disk at once
(``add_record`` for each, ``settle``, ``place_entries``). Killed after any of these steps, conda
sees either nothing new, or a whole extracted package, or that and its archive.

**When is an extracted folder believed?** Its ``repodata_record.json`` names the artifact's file and its digests (conda
and we write that file last, from verified bytes; ``same_bytes`` for file: channels), and every path that
``info/paths.json`` (in old packages ``info/files``) lists is there, regular files with their recorded size. That is
more than conda asks of a folder whose URL fits, and needs no hashing; it does not detect a file altered in place at the
same length, as conda does not. A bare archive is believed only after its whole content was hashed.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.errors import IntegrityError, LockedError, StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.store.cache_record import (
    BROKEN_PACKAGE,
    FILES,
    INDEX,
    PATHS,
    RECORD,
    channel_of,
    client_url,
    read_info,
    read_lines,
    repodata_record,
    without_credentials,
    write_record,
)
from resume_dl.store.cache_urls import add_url
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER, hash_file
from resume_dl.store.platform import replace, sync_directory, sync_trees
from resume_dl.store.work_folder import is_trusted, make_work_folder, not_writable

_EXTENSIONS = (".conda", ".tar.bz2")
ASIDE = "aside-"
"""How the name begins of what was put aside in the folder of unfinished files: ``sweep`` removes it."""
_EXTRACT = "extract-"
_TRIES = 5

PlaceArchive = Callable[[Path], None]
"""Moves a verified archive to the path given, by one rename (``PartFile.publish``)."""


class State(Enum):
    """How much of a package a cache has."""

    COMPLETE = "complete"
    """Archive, extracted folder and a record with the right digest."""
    EXTRACTED = "extracted"
    """The folder and its record, without the archive: all that conda needs."""
    ARCHIVE = "archive"
    """A file of the right name and size, its content not looked at yet (``verify_file``)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one package cache has of one artifact."""

    pkgs_dir: Path
    state: State
    archive: Path | None
    extracted: Path | None
    """Only where its record has the artifact's digest."""
    record: Mapping[str, Any] | None = None
    """What its ``repodata_record.json`` says."""

    def is_for(self, artifact: Artifact) -> bool:
        """Whether conda will take it without our help: the URL and channel in its record are the client's."""
        if self.record is None:
            return False
        url = client_url(artifact)
        return without_credentials(str(self.record.get("url") or "")) == url and without_credentials(
            str(self.record.get("channel") or "")
        ) == channel_of(url)


@dataclass(frozen=True, slots=True)
class Unplaced:
    """What ``place_entries`` puts into a cache: as ``publish_entry`` has it."""

    artifact: Artifact
    archive: Path | PlaceArchive | None
    extracted: Path | None


def stem(filename: str) -> str:
    """The extracted folder's name; raises ValueError for what is no conda package."""
    for extension in _EXTENSIONS:
        if filename.endswith(extension) and len(filename) > len(extension):
            return filename[: -len(extension)]
    raise ValueError(f"not a conda package: {filename!r}")


def find_entry(pkgs_dirs: Iterable[Path], artifact: Artifact, *, whole: bool = True) -> Entry | None:
    """The best that any of these caches has of ``artifact``; absent caches and unreadable ones have nothing.

    One that conda will take as it is goes before all, then an extracted one, then an archive; among equals the first
    cache wins. With ``whole`` a folder that has lost files counts as none. Nothing is hashed.
    """
    best: Entry | None = None
    for pkgs_dir in pkgs_dirs:
        entry = look(pkgs_dir, artifact)
        if entry is None:
            continue
        if entry.extracted is not None and whole and not is_whole(entry.extracted):
            if entry.archive is None:
                continue
            entry = Entry(pkgs_dir, State.ARCHIVE, entry.archive, None)
        if entry.extracted is not None and entry.is_for(artifact):
            return entry
        if best is None or (best.extracted is None and entry.extracted is not None):
            best = entry
    return best


def look(pkgs_dir: Path, artifact: Artifact) -> Entry | None:
    """What one cache has of ``artifact`` by name, size and record: two stats where there is nothing."""
    folder, file = pkgs_dir / stem(artifact.filename), pkgs_dir / artifact.filename
    archive = file if _is_file(file, artifact.size) else None
    record = read_info(folder, RECORD)
    if record is not None and same_bytes(record, artifact):
        return Entry(pkgs_dir, State.COMPLETE if archive else State.EXTRACTED, archive, folder, record)
    return None if archive is None else Entry(pkgs_dir, State.ARCHIVE, archive, None)


def same_bytes(record: Mapping[str, Any], artifact: Artifact) -> bool:
    """Whether a record speaks of the artifact's bytes: its file name, and every digest and size that both give.

    At least one digest must be given by both. The record of a file: URL speaks for that URL alone: conda copies such an
    archive without comparing it, and takes the digests from the channel's index (``CacheUrlAction._execute_local``).
    """
    if record.get("fn") != artifact.filename or _is_of_another_file(record, artifact):
        return False
    ours: dict[str, Any] = {"sha256": artifact.sha256, "md5": artifact.md5, "size": artifact.size}
    both = {name for name, value in ours.items() if value is not None and record.get(name) is not None}
    return bool(both - {"size"}) and all(record[name] == ours[name] for name in both)


def _is_of_another_file(record: Mapping[str, Any], artifact: Artifact) -> bool:
    url = str(record.get("url") or "")
    return url.startswith("file:") and without_credentials(url) != client_url(artifact)


def is_whole(extracted: Path) -> bool:
    """Whether an extracted folder has all that its own list of paths names, files with their recorded size."""
    if not fs.is_regular(extracted / INDEX):
        return False
    listing = read_info(extracted, PATHS)
    if listing is None:
        names = read_lines(extracted, FILES)
        return names is not None and all(os.path.lexists(extracted / name) for name in names if name)
    paths = listing.get("paths")
    return isinstance(paths, list) and all(_is_there(str(extracted), row) for row in paths)


def verify_file(path: Path, digest: Digest, size: int | None) -> bool:
    """Whether a file has this size and, hashed from beginning to end, this digest; False if it cannot be read."""
    if not _is_file(path, size):
        return False
    try:
        return hash_file(path, digest.algorithm) == digest.hex
    except OSError:
        return False


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


def claim_extraction(pkgs_dir: Path) -> FileLock:
    """Marks the extraction folders of this process as in use, until it releases the lock or ends in any way.

    Raises StoreError or OSError.
    """
    make_work_folder(pkgs_dir / FOLDER)
    while True:
        lock = FileLock(pkgs_dir / FOLDER / f"{_EXTRACT}{secrets.token_hex(8)}.lock")
        with suppress(LockedError):  # a sweep looks at it this very moment
            lock.acquire()
            return lock


def extraction_folder(pkgs_dir: Path, artifact: Artifact, claim: FileLock | None = None) -> Path:
    """A new empty folder to extract into, on the cache's file system, under a name that nobody takes.

    The caller renames it by ``publish_entry`` or removes it; with ``claim``, ``sweep`` does for a process that was
    killed. Its mode follows the umask, as conda's does. Raises OSError.
    """
    owner = _EXTRACT + secrets.token_hex(4) if claim is None else f"{claim.path.stem}-{secrets.token_hex(4)}"
    folder = pkgs_dir / FOLDER / f"{owner}-{stem(artifact.filename)}"
    make_work_folder(folder.parent)
    folder.mkdir()
    return folder


def sweep(pkgs_dir: Path) -> None:
    """Remove what killed processes left: folders put aside, and half-filled ones to extract into.

    Whoever put one aside does not need it any more; one to extract into is in use while its process holds the lock.
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
            replace(extracted, folder)
            break
        except OSError:  # somebody else put one there between our look and our rename
            if attempt == _TRIES - 1 or not os.path.lexists(folder):
                raise
    return leftover


def _is_file(path: Path, size: int | None) -> bool:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and size in {None, found.st_size}


def _is_there(base: str, row: Any) -> bool:
    """Whether one row of paths.json is on the disk; links and folders need only be there."""
    try:
        found = os.lstat(f"{base}/{row['_path']}")
        size = row.get("size_in_bytes")
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return False
    return size is None or not stat.S_ISREG(found.st_mode) or found.st_size == size


def _mapped(error: OSError, pkgs_dir: Path) -> StoreError:
    if isinstance(error, PermissionError) or error.errno == 30:  # EROFS
        return not_writable(error, pkgs_dir)
    return StoreError(f"{pkgs_dir}: {error.strerror or error}", hint="free some space, or choose another --pkgs-dir")

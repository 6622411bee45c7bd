"""What conda's package cache has of an artifact.

**When is an extracted folder believed?** Its ``repodata_record.json`` names the artifact's file and its digests (conda
and we write that file last, from verified bytes; ``same_bytes`` for file: channels), and every path that
``info/paths.json`` (in old packages ``info/files``) lists is there, regular files with their recorded size. That is
more than conda asks of a folder whose URL fits, and needs no hashing; it does not detect a file altered in place at the
same length, as conda does not. A bare archive is believed only after its whole content was hashed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.caches.conda.record import (
    FILES,
    INDEX,
    PATHS,
    RECORD,
    channel_of,
    client_url,
    read_info,
    read_lines,
    without_credentials,
)
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.store.part import hash_file

_EXTENSIONS = (".conda", ".tar.bz2")


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

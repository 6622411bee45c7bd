"""Lookup of an artifact in conda's package caches.

**When is an extracted folder trusted?** If its ``repodata_record.json`` names the artifact's file and digests (conda
and we write that file last, from verified bytes; for file: channels see ``same_bytes``), and every path listed in
``info/paths.json`` (in old packages ``info/files``) exists, regular files with their recorded size. conda checks less
if the URL matches. This needs no hashing; like conda, it does not detect a file altered in place at the same length.
An archive without its folder is trusted only after its whole content was hashed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping
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
_WHEEL = ".whl"


class State(Enum):
    """How much of a package a cache has."""

    COMPLETE = "complete"
    """Archive, extracted folder and a record with the right digest."""
    EXTRACTED = "extracted"
    """The extracted folder and its record, without the archive: enough for conda."""
    ARCHIVE = "archive"
    """A file of the right name and size, whose content is not verified yet (``verify_file``)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one package cache has of one artifact."""

    pkgs_dir: Path
    state: State
    archive: Path | None
    extracted: Path | None
    """None unless its record has the artifact's digest."""
    record: Mapping[str, Any] | None = None
    """The content of its ``repodata_record.json``."""

    def is_for(self, artifact: Artifact) -> bool:
        """Whether conda will use it as it is: the URL and channel in its record are the client's."""
        if self.record is None:
            return False
        url = client_url(artifact)
        return without_credentials(str(self.record.get("url") or "")) == url and without_credentials(
            str(self.record.get("channel") or "")
        ) == channel_of(url)


def is_package(filename: str) -> bool:
    """Whether every conda extracts a file of this name; conda 26 extracts other forms (wheels) if a plugin does."""
    return any(filename.endswith(each) and filename != each for each in _EXTENSIONS)


def stem(filename: str) -> str:
    """Return the name of the extracted folder; that of a form unknown to us is the file's own, as in conda."""
    known = next((each for each in (*_EXTENSIONS, _WHEEL) if filename.endswith(each) and filename != each), "")
    return filename.removesuffix(known)


def find_entry(pkgs_dirs: Iterable[Path], artifact: Artifact, *, whole: bool = True) -> Entry | None:
    """Find the best entry of ``artifact`` in these caches; missing and unreadable ones count as empty.

    An entry that conda will use as it is comes first, then an extracted one, then an archive; among equals that of the
    first cache. With ``whole``, a folder with missing files is ignored. Nothing is hashed.
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
    """Look ``artifact`` up in one cache by name, size and record. Costs two ``stat`` calls if it is not there."""
    folder, file = pkgs_dir / stem(artifact.filename), pkgs_dir / artifact.filename
    archive = file if _is_file(file, artifact.size) else None
    record = read_info(folder, RECORD)
    if record is not None and same_bytes(record, artifact):
        return Entry(pkgs_dir, State.COMPLETE if archive else State.EXTRACTED, archive, folder, record)
    return None if archive is None else Entry(pkgs_dir, State.ARCHIVE, archive, None)


def same_bytes(record: Mapping[str, Any], artifact: Artifact) -> bool:
    """Whether a record describes the artifact's bytes: same file name, and no digest or size differs.

    Both must give at least one digest. The record of a file: URL counts for that URL only, because conda copies such
    an archive unverified, and takes the digests from the channel's index (``CacheUrlAction._execute_local``).
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
    """Whether an extracted folder has all paths of its own list, files with their recorded size."""
    if not fs.is_regular(extracted / INDEX):
        return False
    listing = read_info(extracted, PATHS)
    if listing is None:
        names = read_lines(extracted, FILES)
        return names is not None and all(os.path.lexists(extracted / name) for name in names if name)
    paths = listing.get("paths")
    return isinstance(paths, list) and all(_is_there(str(extracted), row) for row in paths)


def verify_file(path: Path, digest: Digest, size: int | None, cancelled: Callable[[], bool] = lambda: False) -> bool:
    """Whether a file has this size and, hashed completely, this digest; False if it cannot be read.

    Raises Interrupted once ``cancelled`` returns true.
    """
    if not _is_file(path, size):
        return False
    try:
        return hash_file(path, digest.algorithm, cancelled) == digest.hex
    except OSError:
        return False


def _is_file(path: Path, size: int | None) -> bool:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and size in {None, found.st_size}


def _is_there(base: str, row: Any) -> bool:
    """Whether the path of a row of paths.json exists, and if it is a regular file, with the recorded size."""
    try:
        found = os.lstat(f"{base}/{row['_path']}")
        size = row.get("size_in_bytes")
    except (OSError, KeyError, TypeError, AttributeError, ValueError):
        return False
    return size is None or not stat.S_ISREG(found.st_mode) or found.st_size == size

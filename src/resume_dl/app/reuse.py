"""Verified bytes that are at hand already, for a client that is about to download them: found, and handed over.

Two steps, because the first is cheap and mostly finds nothing to do. ``survey`` lists folders and reads small
records; it hashes nothing and changes nothing. ``prepare`` verifies one find and brings it where the client can take
it. Nothing that was not verified by digest is ever handed over: an extracted folder as ``caches.conda.publish`` defines
it, a file by hashing the whole of it.

No network, no solver and no progress bars: the conda plugin runs this inside conda. So it does not take the way of
``app.pipeline``: nothing is transferred, and what is handed over differs from file to file. What is absent takes it, in
``app.prefetch``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.extraction_folders import is_unpacking, sweep
from resume_dl.caches.conda.lookup import Entry, is_whole, look, stem, verify_file
from resume_dl.caches.conda.partial import duplicate
from resume_dl.caches.conda.record import client_url
from resume_dl.caches.conda.urls import add_url
from resume_dl.errors import StoreError, required
from resume_dl.model.artifact import Artifact
from resume_dl.store.journal import Contents
from resume_dl.store.journal_file import read_journal
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.platform import replace_durably
from resume_dl.store.staged import staged_name
from resume_dl.store.work_folder import is_trusted


@dataclass(frozen=True, slots=True)
class AtHand:
    """What may be the bytes of one artifact, best first; nothing of it verified but the digests in records."""

    artifact: Artifact
    entries: tuple[Entry, ...] = ()
    """Extracted, of the right digest, under another URL than the client's."""
    archives: tuple[Path, ...] = ()
    """Files of its name and size in package caches."""
    parts: tuple[Path, ...] = ()
    """Part files of its digest whose journal says that no byte is missing."""
    staged: tuple[Path, ...] = ()
    """Archives that a run has verified and did not come to unpack."""

    @property
    def is_anything(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.entries or self.archives or self.parts or self.staged)


@dataclass(frozen=True, slots=True)
class Survey:
    """What a client has to do for some artifacts; those it will find by itself are in neither."""

    at_hand: tuple[AtHand, ...]
    absent: tuple[Artifact, ...]
    """Nothing of them is here, or nothing is known to know them by (no digest)."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A whole extracted entry: the client needs only to be told of it."""

    artifact: Artifact
    entry: Entry


@dataclass(frozen=True, slots=True)
class Packed:
    """A verified archive under its own name in a cache that can be written, with nothing extracted beside it."""

    artifact: Artifact
    archive: Path


@dataclass(frozen=True, slots=True)
class Loose:
    """A verified file below ``<pkgs>/.resume-dl/`` of the cache ``pkgs_dir``, to be placed as a complete ``.partial``.

    The way for an archive beside a folder of its name that is something else, or is broken: conda replaces that folder
    when (and only if) it goes on to install.
    """

    artifact: Artifact
    pkgs_dir: Path
    file: Path


HandOver = Extracted | Packed | Loose


def survey(artifacts: Iterable[Artifact], pkgs_dirs: Sequence[Path]) -> Survey:
    """Which artifacts may be had without a download, and which not at all. Cheap; no hashing.

    Artifacts without a digest are never at hand: there is nothing to know their bytes by.
    """
    listings = [(folder, _names(folder), _unfinished(folder / FOLDER)) for folder in pkgs_dirs]
    listings = [row for row in listings if row[1]]
    at_hand: list[AtHand] = []
    absent: list[Artifact] = []
    for artifact in artifacts:
        found = _find_one(artifact, listings)
        if found is not None and artifact.digest is not None and found.is_anything:
            at_hand.append(found)
        elif found is not None:
            absent.append(artifact)
    return Survey(tuple(at_hand), tuple(absent))


def _find_one(artifact: Artifact, listings: Sequence[tuple[Path, frozenset[str], frozenset[str]]]) -> AtHand | None:
    """What is here of one artifact; None where the client will take it by itself."""
    name, waiting = stem(artifact.filename), staged_name(artifact)
    entries: list[Entry] = []
    archives: list[Path] = []
    parts: list[Path] = []
    staged: list[Path] = []
    for folder, names, unfinished in listings:
        if name in names or artifact.filename in names:
            entry = look(folder, artifact)
            if entry is not None and entry.is_for(artifact):
                return None
            if entry is not None and entry.extracted is not None:
                entries.append(entry)
            if entry is not None and entry.archive is not None:
                archives.append(entry.archive)
        parts += [folder / FOLDER / part for part in _part_names(artifact) if part in unfinished]
        if waiting in unfinished:
            staged.append(folder / FOLDER / waiting)
    finished = tuple(part for part in parts if _seems_finished(part, artifact))
    return AtHand(artifact, tuple(entries), tuple(archives), finished, tuple(staged))


def prepare(
    at_hand: AtHand, *, is_writable: Callable[[Path], bool], first_writable: Callable[[], Path]
) -> HandOver | None:
    """Verify a find and bring it where conda takes it; None where nothing of it was the artifact after all.

    ``first_writable`` gives the package cache that conda would download to, and makes it. Raises StoreError or OSError:
    one package's trouble, the caller goes on with the others.
    """
    artifact = at_hand.artifact
    for entry in at_hand.entries:
        if entry.extracted is not None and is_whole(entry.extracted):
            return Extracted(artifact, entry)
    digest = required(artifact.digest, "the digest of what survey found")
    for archive in sorted(at_hand.archives, key=lambda path: not is_writable(path.parent)):
        if verify_file(archive, digest, artifact.size):
            linked = archive.is_symlink()  # conda passes over links in its cache
            if is_writable(archive.parent) and not linked and not _beside(archive.parent, artifact):
                return Packed(artifact, archive)
            pkgs_dir = first_writable()
            return _settle(artifact, duplicate(archive, pkgs_dir), pkgs_dir)
    for part in at_hand.parts:
        handed = _take_part(artifact, part, is_writable=is_writable, first_writable=first_writable)
        if handed is not None:
            return handed
    for waiting in at_hand.staged:
        handed = _take_staged(artifact, waiting, is_writable=is_writable)
        if handed is not None:
            return handed
    return None


def _take_part(
    artifact: Artifact, path: Path, *, is_writable: Callable[[Path], bool], first_writable: Callable[[], Path]
) -> HandOver | None:
    """A finished part file, under its lock; published by one rename where nothing is in the way.

    Raises LockedError where another process finishes it at this moment.
    """
    digest = artifact.digest
    pkgs_dir = path.parent.parent
    if digest is None or not is_writable(pkgs_dir):
        return None
    part = PartStore(path.parent).open(artifact, journaled=True)
    try:
        if not verify_file(part.path, digest, artifact.size):
            return None
        archive = pkgs_dir / artifact.filename
        if os.path.lexists(archive) or _beside(pkgs_dir, artifact):
            target = first_writable()
            # a copy of its own: what continues or discards the part file later must not reach what conda took
            return _settle(artifact, duplicate(part.path, target, link=False), target)
        part.publish(archive)
        add_url(pkgs_dir, client_url(artifact))
        return Packed(artifact, archive)
    finally:
        part.close()


def _take_staged(artifact: Artifact, path: Path, *, is_writable: Callable[[Path], bool]) -> HandOver | None:
    """An archive that waits to be unpacked, unless some process is at it."""
    digest = artifact.digest
    pkgs_dir = path.parent.parent
    if digest is None or not is_writable(pkgs_dir):
        return None
    sweep(pkgs_dir)
    if is_unpacking(pkgs_dir) or not verify_file(path, digest, artifact.size):
        return None
    handed = _settle(artifact, duplicate(path, pkgs_dir), pkgs_dir)
    if isinstance(handed, Packed):
        path.unlink(missing_ok=True)
    return handed


def _settle(artifact: Artifact, copy: Path, pkgs_dir: Path) -> HandOver | None:
    """Give a verified copy the archive's name where that is free, else leave it to be placed as ``.partial``.

    conda looks at a ``.partial`` only where the record has a size.
    """
    archive = pkgs_dir / artifact.filename
    if os.path.lexists(archive) or _beside(pkgs_dir, artifact):
        if artifact.size is not None:
            return Loose(artifact, pkgs_dir, copy)
        copy.unlink()
        return None
    replace_durably(copy, archive)
    add_url(pkgs_dir, client_url(artifact))
    return Packed(artifact, archive)


def _beside(pkgs_dir: Path, artifact: Artifact) -> bool:
    return os.path.lexists(pkgs_dir / stem(artifact.filename))


def _part_names(artifact: Artifact) -> list[str]:
    digests = (("sha256", artifact.sha256), ("md5", artifact.md5))
    return [f"{algorithm}-{value}.part" for algorithm, value in digests if value]


def _seems_finished(part: Path, artifact: Artifact) -> bool:
    """Whether size and journal say that every byte is there: a look that spares hashing an unfinished file."""
    try:
        size = part.stat().st_size
        contents = read_journal(part.with_suffix(".journal")) or Contents(0)
    except (OSError, StoreError):
        return False
    covered = 0
    for start, end in sorted((w.start, w.end) for w in [*contents.durable, *contents.written]):
        if start > covered:
            return False
        covered = max(covered, end)
    return covered == size and artifact.size in {None, size}


def _unfinished(folder: Path) -> frozenset[str]:
    """The names in a folder of ours; none where others may have put files into it, and change what was verified."""
    return _names(folder) if is_trusted(folder) else frozenset()


def _names(folder: Path) -> frozenset[str]:
    """The names in a folder; none where it is absent or cannot be read."""
    try:
        return frozenset(fs.names_in(folder))
    except OSError:
        return frozenset()

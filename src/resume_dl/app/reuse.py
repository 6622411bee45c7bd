"""Find files on this machine that a client is about to download, verify them, and hand them over.

Two steps, because the first is cheap and mostly finds nothing to do. ``survey`` lists folders and reads small records;
it hashes nothing and changes nothing. ``prepare`` verifies one find and puts it where the client can use it. Only
verified bytes are handed over: an extracted folder by the rule of ``caches.conda.publish``, a file by its digest.

The conda plugin runs this inside conda, so it uses no network, solver or progress bars, and not ``app.pipeline``, as
nothing is transferred. Absent packages are fetched by ``app.prefetch``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.extraction_folders import is_unpacking, sweep
from resume_dl.caches.conda.lookup import Entry, is_package, is_whole, look, stem, verify_file
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
    """Candidates for one artifact, best first; not verified, except for the digests in records."""

    artifact: Artifact
    entries: tuple[Entry, ...] = ()
    """Extracted, of the right digest, under another URL than the client's."""
    archives: tuple[Path, ...] = ()
    """Files of its name and size in package caches."""
    parts: tuple[Path, ...] = ()
    """Part files of its digest that are complete by their journal."""
    staged: tuple[Path, ...] = ()
    """Archives that a run has verified but not unpacked."""

    @property
    def is_anything(self) -> bool:
        """Whether there is any candidate."""
        return bool(self.entries or self.archives or self.parts or self.staged)


@dataclass(frozen=True, slots=True)
class Survey:
    """Artifacts that can be handed over or have to be fetched; those that the client finds itself are in neither."""

    at_hand: tuple[AtHand, ...]
    absent: tuple[Artifact, ...]
    """No candidate, or no digest to verify one by."""


@dataclass(frozen=True, slots=True)
class Extracted:
    """A complete extracted entry, which only has to be registered with the client."""

    artifact: Artifact
    entry: Entry


@dataclass(frozen=True, slots=True)
class Packed:
    """A verified archive under its own name in a writable cache, without an extracted folder beside it."""

    artifact: Artifact
    archive: Path


@dataclass(frozen=True, slots=True)
class Loose:
    """A verified file below ``<pkgs>/.resume-dl/`` of the cache ``pkgs_dir``, to be placed as a complete ``.partial``.

    Used if a folder of the same name holds something else or is damaged: conda replaces that folder when, and only if,
    it installs the package. Used for every package of another form (a wheel), whose archives not all condas find.
    """

    artifact: Artifact
    pkgs_dir: Path
    file: Path


HandOver = Extracted | Packed | Loose


def survey(artifacts: Iterable[Artifact], pkgs_dirs: Sequence[Path]) -> Survey:
    """Sort artifacts into those with candidates on the disk and those without. Cheap; no hashing.

    Artifacts without a digest count as absent, because no candidate could be verified.
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
    """The candidates for one artifact; None if the client will find it itself."""
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
    """Verify candidates and put the first good one where conda will use it; None if none of them is the artifact.

    ``first_writable`` returns the package cache that conda would download to, and creates it. Raises StoreError or
    OSError, which concern this package only.
    """
    artifact = at_hand.artifact
    for entry in at_hand.entries:
        if entry.extracted is not None and is_whole(entry.extracted):
            return Extracted(artifact, entry)
    digest = required(artifact.digest, "the digest of what survey found")
    for archive in sorted(at_hand.archives, key=lambda path: not is_writable(path.parent)):
        if verify_file(archive, digest, artifact.size):
            linked = archive.is_symlink()  # conda ignores links in its cache
            if is_writable(archive.parent) and not linked and _is_free(archive.parent, artifact):
                return Packed(artifact, archive)
            pkgs_dir = first_writable()
            return _publish_copy(artifact, duplicate(archive, pkgs_dir), pkgs_dir)
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
    """Verify a finished part file under its lock; publish it by one rename if its name is free.

    Raises LockedError if another process is using it.
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
        if os.path.lexists(archive) or not _is_free(pkgs_dir, artifact):
            target = first_writable()
            # a copy, not a link: later changes of the part file must not reach conda's file
            return _publish_copy(artifact, duplicate(part.path, target, link=False), target)
        part.publish(archive)
        add_url(pkgs_dir, client_url(artifact))
        return Packed(artifact, archive)
    finally:
        part.close()


def _take_staged(artifact: Artifact, path: Path, *, is_writable: Callable[[Path], bool]) -> HandOver | None:
    """Verify a staged archive, unless a process may be unpacking it."""
    digest = artifact.digest
    pkgs_dir = path.parent.parent
    if digest is None or not is_writable(pkgs_dir):
        return None
    sweep(pkgs_dir)
    may_be_unpacked = is_package(artifact.filename) and is_unpacking(pkgs_dir)
    if may_be_unpacked or not verify_file(path, digest, artifact.size):
        return None
    handed = _publish_copy(artifact, duplicate(path, pkgs_dir), pkgs_dir)
    if isinstance(handed, Packed):
        path.unlink(missing_ok=True)
    return handed


def _publish_copy(artifact: Artifact, copy: Path, pkgs_dir: Path) -> HandOver | None:
    """Give a verified copy the archive's name if conda finds it there, else have it placed as ``.partial``.

    conda considers a ``.partial`` only if the record has a size.
    """
    archive = pkgs_dir / artifact.filename
    if os.path.lexists(archive) or not _is_free(pkgs_dir, artifact):
        if artifact.size is not None:
            return Loose(artifact, pkgs_dir, copy)
        copy.unlink()
        return None
    replace_durably(copy, archive)
    add_url(pkgs_dir, client_url(artifact))
    return Packed(artifact, archive)


def _is_free(pkgs_dir: Path, artifact: Artifact) -> bool:
    """Whether conda extracts the archive where it lies: in no other form, and without a folder of its name."""
    return is_package(artifact.filename) and not os.path.lexists(pkgs_dir / stem(artifact.filename))


def _part_names(artifact: Artifact) -> list[str]:
    digests = (("sha256", artifact.sha256), ("md5", artifact.md5))
    return [f"{algorithm}-{value}.part" for algorithm, value in digests if value]


def _seems_finished(part: Path, artifact: Artifact) -> bool:
    """Whether size and journal say that the file is complete, which avoids hashing an unfinished one."""
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
    """The names in a folder of ours; empty if other users could change files in it."""
    return _names(folder) if is_trusted(folder) else frozenset()


def _names(folder: Path) -> frozenset[str]:
    """The names in a folder; empty if it is missing or cannot be read."""
    try:
        return frozenset(fs.names_in(folder))
    except OSError:
        return frozenset()

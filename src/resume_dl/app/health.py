"""Find damaged packages and unfinished downloads in package caches, without changes and without requests.

*Damaged*: an extracted package that conda considers complete, but some files of its own list are missing or have
another size. *Half extracted*: an incomplete one without its record, which conda writes last. Archives are compared
with the record of the folder beside them by size, and on request by digest, which reads every byte. A file of an
extracted folder that was altered without a change of its size is not found (``caches.conda.publish``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.app.leftovers import find
from resume_dl.caches.conda.lookup import is_package, is_whole, stem
from resume_dl.caches.conda.partial import SUFFIX, open_locked
from resume_dl.caches.conda.record import RECORD, read_info
from resume_dl.errors import LockedError
from resume_dl.model.digest import Digest
from resume_dl.store.part import FOLDER, hash_file


class Trouble(Enum):
    """The first four are damage; the others are unfinished downloads, which only take disk space."""

    DAMAGED = "damaged"
    HALF_EXTRACTED = "half extracted"
    WRONG_SIZE = "wrong size"
    WRONG_DIGEST = "wrong digest"
    UNFINISHED = "unfinished"
    """A part file of ours."""
    WAITING = "waiting"
    """A verified archive of ours that is not unpacked yet."""
    PARTIAL = "partial"
    """An unfinished download of conda itself."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One file or folder.

    ``actual`` and ``expected`` are digests for WRONG_DIGEST, else numbers of bytes (None: not known). ``busy``: in use
    by another process.
    """

    trouble: Trouble
    path: Path
    actual: int | str | None = None
    expected: int | str | None = None
    busy: bool = False

    @property
    def is_damage(self) -> bool:
        """Whether a package is damaged."""
        return self.trouble in {Trouble.DAMAGED, Trouble.HALF_EXTRACTED, Trouble.WRONG_SIZE, Trouble.WRONG_DIGEST}


@dataclass(frozen=True, slots=True)
class Health:
    """``packages``: number examined, an archive and its folder counted once; ``hashed``: number of archives hashed."""

    packages: int
    hashed: int
    findings: tuple[Finding, ...]

    @property
    def damage(self) -> tuple[Finding, ...]:
        """Damaged packages, on which conda may fail."""
        return tuple(each for each in self.findings if each.is_damage)

    @property
    def unfinished(self) -> tuple[Finding, ...]:
        """Downloads that a later run continues."""
        return tuple(each for each in self.findings if not each.is_damage)


def examine(pkgs_dirs: Sequence[Path], *, hashing: bool = False) -> Health:
    """Examine package caches; missing and unreadable ones count as empty. Damage first, sorted by cache and name."""
    packages = hashed = 0
    findings: list[Finding] = []
    places = list(dict.fromkeys(pkgs_dirs))
    for pkgs_dir in places:
        for folder, archives in packages_in(pkgs_dir):
            packages += 1
            record = record_in(folder)
            findings += folder_damage(folder, record)
            for archive in archives:
                if record is not None and record.get("fn") == archive.name:
                    found = list(archive_damage(archive, record, hashing=hashing))
                    is_other_size = any(each.trouble is Trouble.WRONG_SIZE for each in found)
                    hashed += hashing and not is_other_size and digest_of(record) is not None
                    findings += found
    return Health(packages, hashed, (*findings, *unfinished(places)))


def unfinished(pkgs_dirs: Iterable[Path]) -> list[Finding]:
    """Unfinished downloads, ours and conda's own."""
    findings = []
    for pkgs_dir in pkgs_dirs:
        for left in find([pkgs_dir / FOLDER]):
            part = left.folder / f"{left.key}.part"
            known = (left.done, left.size, left.busy)
            findings.append(
                Finding(Trouble.UNFINISHED, part, *known)
                if part.exists()
                else Finding(Trouble.WAITING, left.folder / left.key, *known)
            )
        for name in _names(pkgs_dir):
            path = pkgs_dir / name
            if name.endswith(SUFFIX) and is_package(name.removesuffix(SUFFIX)):
                with suppress(OSError):
                    findings.append(Finding(Trouble.PARTIAL, path, path.stat().st_size, busy=_is_condas(path)))
    return findings


def packages_in(pkgs_dir: Path) -> Iterator[tuple[Path, list[Path]]]:
    """The folder that each package has or would have, and its archives. Links are skipped, as conda does."""
    archives: dict[str, list[Path]] = {}
    for name in _names(pkgs_dir):
        path = pkgs_dir / name
        if is_link(path):
            continue
        if is_package(name) and path.is_file():
            archives.setdefault(stem(name), []).append(path)
        elif (path / "info").is_dir():
            archives.setdefault(name, [])
    for name in sorted(archives):
        yield pkgs_dir / name, archives[name]


def is_link(path: Path) -> bool:
    """Whether this is a symbolic link or a junction, which conda ignores in a package cache."""
    try:
        return fs.is_link(path.lstat())
    except OSError:
        return False


def record_in(folder: Path) -> dict[str, Any] | None:
    """A package's repodata_record.json; None if it has none, or if the folder is a link: it belongs to no cache."""
    return None if is_link(folder) else read_info(folder, RECORD)


def folder_damage(folder: Path, record: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Compare an extracted package with its own list, by names and sizes; ``record``: its repodata_record.json."""
    if folder.is_dir() and not is_link(folder) and not is_whole(folder):
        yield Finding(Trouble.HALF_EXTRACTED if record is None else Trouble.DAMAGED, folder)


def archive_damage(archive: Path, record: Mapping[str, Any], *, hashing: bool) -> Iterator[Finding]:
    """Compare an archive with its record; one that vanishes or cannot be read is skipped."""
    with suppress(OSError):
        size, expected = archive.stat().st_size, record.get("size")
        if isinstance(expected, int) and size != expected:
            yield Finding(Trouble.WRONG_SIZE, archive, size, expected)
            return
        digest = digest_of(record) if hashing else None
        if digest is not None:
            actual = hash_file(archive, digest.algorithm)
            if actual != digest.hex:
                yield Finding(Trouble.WRONG_DIGEST, archive, f"{digest.algorithm}-{actual}", str(digest))


def digest_of(record: Mapping[str, Any]) -> Digest | None:
    """The archive's digest in a record; None if it has no valid one."""
    for algorithm in ("sha256", "md5"):
        with suppress(ValueError, TypeError):
            return Digest(algorithm, record.get(algorithm) or "")
    return None


def _is_condas(path: Path) -> bool:
    """Whether conda is downloading to this ``.partial``; False if we may not write to it."""
    try:
        with open_locked(path):
            return False
    except LockedError:
        return True
    except OSError:
        return False


def _names(folder: Path) -> list[str]:
    try:
        return sorted(fs.names_in(folder))
    except OSError:
        return []

"""Notes of packages that were downloaded before the user confirmed a conda command, and may not have been installed.

Such a package is in the cache, complete and verified; its note, ``<pkgs>/.resume-dl/ahead-<name>.json``, names the
environment for which it was downloaded. The note is stale once that environment has the package or the cache does not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.caches.conda.record import read_json
from resume_dl.store.part import FOLDER
from resume_dl.store.work_folder import is_trusted

_NAME = "ahead-*.json"


@dataclass(frozen=True, slots=True)
class Prefetched:
    """A package in a cache that ``prefix`` may still need; ``size`` of its archive in bytes."""

    pkgs_dir: Path
    filename: str
    size: int
    prefix: Path

    @property
    def note(self) -> Path:
        """The path of its note."""
        return self.pkgs_dir / FOLDER / f"ahead-{_stem(self.filename)}.json"


def note_prefetched(packages: Iterable[Prefetched]) -> None:
    """Write the notes. Errors are ignored: notes only inform."""
    for each in packages:
        with suppress(OSError):
            value = {"filename": each.filename, "size": each.size, "prefix": str(each.prefix)}
            if is_trusted(each.note.parent):
                fs.write_file(each.note, json.dumps(value).encode())


def read_prefetched(pkgs_dir: Path) -> list[Prefetched]:
    """Return the packages that are not installed yet; stale notes are removed."""
    found = []
    for path in _notes(pkgs_dir):
        each = _read(path, pkgs_dir)
        if each is not None and not _is_installed(each) and (pkgs_dir / _stem(each.filename)).is_dir():
            found.append(each)
        else:
            with suppress(OSError):
                path.unlink()
    return found


def forget_prefetched(pkgs_dir: Path) -> None:
    """Remove every note; the packages stay. Never raises OSError."""
    for path in _notes(pkgs_dir):
        with suppress(OSError):
            path.unlink()


def _notes(pkgs_dir: Path) -> list[Path]:
    return sorted((pkgs_dir / FOLDER).glob(_NAME)) if is_trusted(pkgs_dir / FOLDER) else []


def _read(path: Path, pkgs_dir: Path) -> Prefetched | None:
    value = read_json(path)
    try:
        if value is not None:
            return Prefetched(pkgs_dir, str(value["filename"]), int(value["size"]), Path(value["prefix"]))
    except (KeyError, TypeError, ValueError):
        pass
    return None


def _is_installed(each: Prefetched) -> bool:
    return (each.prefix / "conda-meta" / f"{_stem(each.filename)}.json").is_file()


def _stem(filename: str) -> str:
    return filename.removesuffix(".conda").removesuffix(".tar.bz2")

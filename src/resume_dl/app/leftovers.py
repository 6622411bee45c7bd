"""Unfinished downloads: what is safe on disk, what is left, and removing them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl.app.extract import staged_archives
from resume_dl.app.setup import Setup
from resume_dl.errors import LockedError
from resume_dl.store.condacache import is_unpacking, sweep
from resume_dl.store.part import FOLDER, PartStore


@dataclass(frozen=True, slots=True)
class Leftover:
    """One unfinished download; sizes in bytes, ``size`` None where no answer told it yet."""

    folder: Path
    key: str
    size: int | None
    done: int
    busy: bool = False
    """Another process works on it: it was not removed."""


def folders(setup: Setup, extra: Sequence[Path]) -> list[Path]:
    """Where unfinished files may lie: conda's package caches, our own cache, and ``extra`` ones."""
    caches = [*extra, *setup.conda.pkgs_dirs]
    return [*dict.fromkeys(folder.absolute() / FOLDER for folder in caches), setup.paths.cache / "repodata" / "parts"]


def find(places: Sequence[Path]) -> list[Leftover]:
    """Every unfinished download there, and what is downloaded and waits to be unpacked."""
    found = []
    for folder in places:
        found += [Leftover(folder, part.key, part.size, part.done) for part in PartStore(folder).unfinished()]
        for path in staged_archives(folder):
            with suppress(OSError):
                size = path.stat().st_size
                found.append(Leftover(folder, path.name, size, size))
    return found


def clean(places: Sequence[Path]) -> list[Leftover]:
    """Remove every unfinished download that nobody works on, and what killed processes had put aside."""
    for folder in places:
        if folder.name == FOLDER:
            sweep(folder.parent)
    removed = []
    for each in find(places):
        try:
            if (each.folder / each.key).is_file():
                _remove_staged(each.folder / each.key)
            else:
                PartStore(each.folder).remove(each.key)
            removed.append(each)
        except LockedError:
            removed.append(Leftover(each.folder, each.key, each.size, each.done, busy=True))
    for folder in places:
        with suppress(OSError):
            folder.rmdir()
    return removed


def _remove_staged(path: Path) -> None:
    if is_unpacking(path.parent.parent):
        raise LockedError(f"another process unpacks {path.name}", owner="another process")
    path.unlink(missing_ok=True)

"""Unfinished downloads: what is safe on disk, what is left, and removing them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.app.setup import Setup
from resume_dl.errors import LockedError, StoreError
from resume_dl.settings.rattler_cache import rattler_packages_dir
from resume_dl.store.ahead import Ahead, forget_ahead, read_ahead
from resume_dl.store.condacache import is_unpacking, sweep
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import staged_archives


@dataclass(frozen=True, slots=True)
class Leftover:
    """One unfinished download; sizes in bytes, ``size`` None where no answer told it yet."""

    folder: Path
    key: str
    size: int | None
    done: int
    busy: bool = False
    """Another process works on it: ``clean`` leaves it."""


def folders(setup: Setup, extra: Sequence[Path]) -> list[Path]:
    """Where unfinished files may lie: ``extra``, conda's and rattler's package caches, our own, the current folder."""
    caches = [*extra, *setup.conda.pkgs_dirs, rattler_packages_dir(setup.env), setup.paths.wheels]
    with suppress(OSError):  # it was removed: then nothing lies there
        caches.append(Path.cwd())  # what ``get`` and ``--dest .`` left
    return [*dict.fromkeys(folder.absolute() / FOLDER for folder in caches), setup.paths.cache / "repodata" / "parts"]


def find(places: Sequence[Path]) -> list[Leftover]:
    """Every unfinished download there, and what is downloaded and waits for its name."""
    found = []
    for folder in places:
        found += [
            Leftover(folder, part.key, part.size, part.done, busy=_is_locked(folder / f"{part.key}.lock"))
            for part in PartStore(folder).unfinished()
        ]
        for path in staged_archives(folder):
            with suppress(OSError):
                size = path.stat().st_size
                found.append(Leftover(folder, path.name, size, size, busy=is_unpacking(folder.parent)))
    return found


def ahead(places: Sequence[Path]) -> list[Ahead]:
    """Packages that the plugin has fetched and conda has not installed (a "no" at its question, perhaps)."""
    return [each for folder in places if folder.name == FOLDER for each in read_ahead(folder.parent)]


def _is_locked(path: Path) -> bool:
    """Whether another process holds this lock now; asked without waiting, and let go at once."""
    if not path.exists():  # to ask would make it
        return False
    lock = FileLock(path)
    try:
        lock.acquire()
    except LockedError:
        return True
    except (OSError, StoreError):
        return False
    lock.release()
    return False


def clean(places: Sequence[Path]) -> list[Leftover]:
    """Remove every unfinished download that nobody works on, and what killed processes had put aside.

    Finished packages stay; that the plugin had fetched some of them ahead is forgotten.
    """
    for folder in places:
        if folder.name == FOLDER:
            sweep(folder.parent)
            forget_ahead(folder.parent)
    removed: list[Leftover] = []
    for each in find(places):
        if not any((each.folder / name).exists() for name in (each.key, f"{each.key}.part")):
            continue  # it was finished meanwhile: nothing is removed, so nothing is said
        try:
            if (each.folder / each.key).is_file():
                at_work = any(row.busy and row.folder == each.folder for row in removed)  # it will unpack this one next
                _remove_staged(each.folder / each.key, at_work=at_work)
            else:
                PartStore(each.folder).remove(each.key)
            removed.append(replace(each, busy=False))
        except LockedError:
            removed.append(replace(each, busy=True))
    for folder in places:
        with suppress(OSError):
            folder.rmdir()
    return removed


def _remove_staged(path: Path, *, at_work: bool) -> None:
    if at_work or is_unpacking(path.parent.parent):
        raise LockedError(f"another process unpacks {path.name}", owner="another process")
    path.unlink(missing_ok=True)

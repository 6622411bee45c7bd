"""Unfinished downloads: what is safe on disk, what is left, and removing them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import is_unpacking, sweep
from resume_dl.caches.conda.prefetched import Ahead, forget_ahead, read_ahead
from resume_dl.errors import LockedError, StoreError
from resume_dl.settings.rattler_cache import rattler_packages_dir
from resume_dl.shell_commands import Step, command_line
from resume_dl.store.begun import Begun, BegunFile, BegunNotes
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import PREFIX, staged_archives, staged_prefix
from resume_dl.transfer.setup import Setup


@dataclass(frozen=True, slots=True)
class Leftover:
    """One unfinished download; sizes in bytes, ``size`` None where no answer told it yet."""

    folder: Path
    key: str
    size: int | None
    done: int
    busy: bool = False
    """Another process works on it: ``clean`` leaves it."""
    filename: str = ""
    """What it will be called; empty where no note tells."""
    url: str = ""
    """Its address, redacted."""
    age: float = 0.0
    """Seconds since bytes of it were last written."""
    command: str = ""
    """What goes on with it, as this machine's shell wants it; without secrets, with ``***`` in their place."""

    @property
    def path(self) -> Path:
        """Where its bytes are."""
        whole = self.folder / self.key
        return whole if whole.is_file() else self.folder / f"{self.key}.part"


def folders(setup: Setup, extra: Sequence[Path]) -> list[Path]:
    """Where unfinished files may lie.

    ``extra``, conda's and rattler's package caches, our own, the current folder, and where runs have begun something.
    """
    caches = [*extra, *setup.conda.pkgs_dirs, rattler_packages_dir(setup.env), setup.paths.wheels]
    with suppress(OSError):  # it was removed: then nothing lies there
        caches.append(Path.cwd())  # what ``get`` and ``--dest .`` left
    own = [folder / "parts" for folder in (setup.paths.cache / "repodata", setup.paths.listed_indexes)]
    noted = [each.folder for each in notes_of(setup).read() if each.folder.name == FOLDER]
    return [*dict.fromkeys([*(folder.absolute() / FOLDER for folder in caches), *own, *noted])]


def notes_of(setup: Setup) -> BegunNotes:
    """What runs have noted of what they began."""
    return BegunNotes(setup.paths.unfinished)


def find(places: Sequence[Path], notes: BegunNotes | None = None) -> list[Leftover]:
    """Every unfinished download there, and what is downloaded and waits for its name; ``notes`` tell more of them."""
    told = {
        (each.folder, name): (each, file)
        for each in (notes.read() if notes else ())
        for key, file in each.files.items()
        for name in (key, staged_prefix(key))
    }
    found = []
    for folder in places:
        for part in PartStore(folder).unfinished():
            row = Leftover(folder, part.key, part.size, part.done, busy=_is_locked(folder / f"{part.key}.lock"))
            found.append(_told(replace(row, age=_age(part.path)), told.get((folder, part.key))))
        for path in staged_archives(folder):
            with suppress(OSError):
                size = path.stat().st_size
                row = Leftover(folder, path.name, size, size, busy=is_unpacking(folder.parent), age=_age(path))
                row = replace(row, filename=path.name[PREFIX + 1 :])
                found.append(_told(row, told.get((folder, path.name[:PREFIX]))))
    return found


def _told(row: Leftover, note: tuple[Begun, BegunFile] | None) -> Leftover:
    """The row with what a note says of it."""
    if note is None:
        return row
    begun, file = note
    line = command_line([Step(begun.command, folder=_other(begun.cwd))]) if begun.command else ""
    size = file.size if row.size is None else row.size
    return replace(row, size=size, filename=file.filename, url=file.url, command=line)


def _other(folder: Path) -> str:
    """The folder, where it is not the current one."""
    with suppress(OSError):
        return "" if Path.cwd() == folder else str(folder)
    return str(folder)


def ahead(places: Sequence[Path]) -> list[Ahead]:
    """Packages that the plugin has fetched and conda has not installed (a "no" at its question, perhaps)."""
    return [each for folder in places if folder.name == FOLDER for each in read_ahead(folder.parent)]


def _age(part: Path) -> float:
    """Seconds since the part file or its journal was written; 0 where neither can be seen."""
    written = []
    for path in (part, part.with_suffix(".journal")):
        with suppress(OSError):
            written.append(path.stat().st_mtime)
    return max(0.0, time.time() - max(written)) if written else 0.0


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


def clean(places: Sequence[Path], notes: BegunNotes | None = None) -> list[Leftover]:
    """Remove every unfinished download that no process works on, and what killed processes had put aside.

    Finished packages stay; that the plugin had fetched some of them ahead is forgotten.
    """
    for folder in places:
        if folder.name == FOLDER:
            sweep(folder.parent)
            forget_ahead(folder.parent)
    removed: list[Leftover] = []
    for each in find(places, notes):
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
    if notes is not None:
        notes.read()  # forgets those of which nothing is left
    return removed


def _remove_staged(path: Path, *, at_work: bool) -> None:
    if at_work or is_unpacking(path.parent.parent):
        raise LockedError(f"another process unpacks {path.name}", owner="another process")
    path.unlink(missing_ok=True)

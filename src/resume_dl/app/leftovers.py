"""Unfinished downloads: list them, remove them, and find the commands that continue them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from resume_dl.caches.conda.extraction_folders import is_unpacking, sweep
from resume_dl.caches.conda.prefetched import Prefetched, forget_prefetched, read_prefetched
from resume_dl.errors import LockedError, StoreError
from resume_dl.settings.rattler_cache import rattler_packages_dir
from resume_dl.shell_commands import Step, command_line
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER, PartStore
from resume_dl.store.staged import PREFIX, staged_archives, staged_prefix
from resume_dl.store.unfinished_runs import UnfinishedFile, UnfinishedNotes, UnfinishedRun, environment_of
from resume_dl.transfer.setup import Setup

PROGRAM = "resume-dl"
_COMMANDS = {"fetch", "get", "verify", "adopt"}
_NESTED = {("bundle", "create"), ("pip", "install")}
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Leftover:
    """An unfinished download; sizes in bytes, ``size`` is None if not known yet."""

    folder: Path
    key: str
    size: int | None
    done: int
    busy: bool = False
    """In use by another process: ``clean`` keeps it."""
    filename: str = ""
    """The final name; empty if no note states it."""
    url: str = ""
    """Redacted."""
    age: float = 0.0
    """Seconds since the last write."""
    command: str = ""
    """The command that continues it, quoted for this machine's shell, with ``***`` in place of secrets."""
    run: UnfinishedRun | None = None
    """The note of the run that it belongs to."""

    @property
    def path(self) -> Path:
        """The file that holds its bytes."""
        whole = self.folder / self.key
        return whole if whole.is_file() else self.folder / f"{self.key}.part"


def folders(setup: Setup, extra: Sequence[Path]) -> list[Path]:
    """The folders that may hold unfinished files.

    ``extra``, conda's and rattler's package caches, our own, the current folder, and the folders of noted runs.
    """
    caches = [*extra, *setup.conda.pkgs_dirs, rattler_packages_dir(setup.env), setup.paths.wheels]
    with suppress(OSError):  # the current folder was removed
        caches.append(Path.cwd())  # for ``get`` and ``--dest .``
    own = [folder / "parts" for folder in (setup.paths.cache / "repodata", setup.paths.listed_indexes)]
    noted = [each.folder for each in notes_of(setup).read() if each.folder.name == FOLDER]
    return [*dict.fromkeys([*(folder.absolute() / FOLDER for folder in caches), *own, *noted])]


def notes_of(setup: Setup) -> UnfinishedNotes:
    """The notes of unfinished runs."""
    return UnfinishedNotes(setup.paths.unfinished)


def find(places: Sequence[Path], notes: UnfinishedNotes | None = None) -> list[Leftover]:
    """Every unfinished download in ``places``, and downloaded files without their final name; ``notes`` add details."""
    rows = [row for folder in places for row in _rows_of(folder)]
    # Notes are written before the files and removed after them, so they are read after the files were listed.
    noted = {
        (each.folder, name): (each, file)
        for each in (notes.read() if notes else ())
        for key, file in each.files.items()
        for name in (key, staged_prefix(key))
    }
    found = []
    for row in rows:
        note = noted.get((row.folder, row.key)) or noted.get((row.folder, row.key[:PREFIX]))
        if note is not None or row.path.exists():  # the others have been published since they were listed
            found.append(_with_note(row, note))
    return found


def _rows_of(folder: Path) -> Iterator[Leftover]:
    for part in PartStore(folder).unfinished():
        row = Leftover(folder, part.key, part.size, part.done, busy=_is_locked(folder / f"{part.key}.lock"))
        yield replace(row, age=_age(part.path))
    for path in staged_archives(folder):
        with suppress(OSError):
            size = path.stat().st_size
            row = Leftover(folder, path.name, size, size, busy=is_unpacking(folder.parent), age=_age(path))
            yield replace(row, filename=path.name[PREFIX + 1 :])


def _with_note(row: Leftover, note: tuple[UnfinishedRun, UnfinishedFile] | None) -> Leftover:
    """Add the details of a note."""
    if note is None:
        return row
    run, file = note
    line = command_line([Step(run.command, folder=_other(run.cwd))]) if run.command else ""
    size = file.size if row.size is None else row.size
    return replace(row, size=size, filename=file.filename, url=file.url, command=line, run=run)


def _other(folder: Path) -> str:
    """The folder, where it is not the current one."""
    with suppress(OSError):
        return "" if Path.cwd() == folder else str(folder)
    return str(folder)


def ahead(places: Sequence[Path]) -> list[Prefetched]:
    """Packages that the plugin has fetched and conda has not installed, for example after "no" at its prompt."""
    return [each for folder in places if folder.name == FOLDER for each in read_prefetched(folder.parent)]


def _age(part: Path) -> float:
    """Seconds since the part file or its journal was written; 0 if neither can be read."""
    written = []
    for path in (part, part.with_suffix(".journal")):
        with suppress(OSError):
            written.append(path.stat().st_mtime)
    return max(0.0, time.time() - max(written)) if written else 0.0


def _is_locked(path: Path) -> bool:
    """Whether another process holds this lock; does not wait."""
    if not path.exists():  # acquire() would create it
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


def clean(places: Sequence[Path], notes: UnfinishedNotes | None = None) -> list[Leftover]:
    """Remove every unfinished download that is not in use, and temporary folders of killed processes.

    Finished packages stay; the notes of packages that the plugin has fetched are removed.
    """
    for folder in places:
        if folder.name == FOLDER:
            sweep(folder.parent)
            forget_prefetched(folder.parent)
    removed: list[Leftover] = []
    for each in find(places, notes):
        if not any((each.folder / name).exists() for name in (each.key, f"{each.key}.part")):
            continue  # finished meanwhile
        try:
            if (each.folder / each.key).is_file():
                # the process that works on a sibling will unpack this one next
                at_work = any(row.busy and row.folder == each.folder for row in removed)
                _remove_staged(each.folder / each.key, at_work=at_work)
            else:
                PartStore(each.folder).remove(each.key)
            removed.append(replace(each, busy=False))
        except LockedError:
            removed.append(replace(each, busy=True))
    for folder in places:
        PartStore(folder).sweep_locks()
        with suppress(OSError):
            folder.rmdir()
    if notes is not None:
        notes.sweep()
    return removed


def _remove_staged(path: Path, *, at_work: bool) -> None:
    if at_work or is_unpacking(path.parent.parent):
        raise LockedError(f"another process is unpacking {path.name}", owner="another process")
    path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Continuation:
    """One command and its unfinished files. ``obstacle``: why it cannot be run as it is; empty if it can."""

    run: UnfinishedRun
    files: tuple[Leftover, ...]
    obstacle: str = ""
    hint: str = ""
    busy: bool = False
    """Every file is in use by another process, which continues it."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the program's name."""
        return _words(self.run)

    @property
    def name(self) -> tuple[str, ...]:
        """The command's name: ``("get",)``, ``("bundle", "create")``."""
        return self.arguments[:2] if self.arguments[:2] in _NESTED else self.arguments[:1]

    @property
    def line(self) -> str:
        """The command as one types it in its folder."""
        return command_line([Step(self.run.command)])


def continuations(found: Sequence[Leftover], env: Mapping[str, str]) -> tuple[list[Continuation], list[Leftover]]:
    """The commands that continue ``found``, the oldest first, and the files that no command is known for."""
    by_run: dict[tuple[tuple[str, ...], Path], list[Leftover]] = {}
    unknown = []
    for each in found:
        if each.run is None or not each.run.command:
            unknown.append(each)
        else:
            by_run.setdefault((each.run.command, each.run.cwd), []).append(each)
    every = [_continuation(files, env) for files in by_run.values()]
    return sorted(every, key=lambda each: -max(file.age for file in each.files)), unknown


def _continuation(files: Sequence[Leftover], env: Mapping[str, str]) -> Continuation:
    runs = [file.run for file in files if file.run is not None]
    run = runs[0]
    obstacle, hint = _obstacle(run, env)
    return Continuation(run, tuple(files), obstacle, hint, busy=all(file.busy for file in files))


def _words(run: UnfinishedRun) -> tuple[str, ...]:
    """The words after ``resume-dl``, or after ``PYTHON RESUME-DL.PYZ``."""
    return run.command[1:] if run.command[0] == PROGRAM else run.command[2:]


def _obstacle(run: UnfinishedRun, env: Mapping[str, str]) -> tuple[str, str]:
    words = _words(run)
    if not ((words[:1] and words[0] in _COMMANDS) or words[:2] in _NESTED):
        return "its note names no command that continues a download", "resume-dl clean removes the files"
    if any(_HIDDEN in word for word in words):
        return "its command has a login or token, which is not noted", "run it yourself, with yours in place of ***"
    if not run.cwd.is_dir():
        return f"its folder {run.cwd} no longer exists", "resume-dl clean removes the files"
    if words[:2] == ("pip", "install") and not any(word.split("=")[0] == "--python" for word in words):
        now = environment_of(env)
        if now != run.environment:
            active = run.environment or "no environment"
            return (
                f"it was started with {active} active, and pip would install elsewhere",
                "activate it, and run it again",
            )
    return "", ""

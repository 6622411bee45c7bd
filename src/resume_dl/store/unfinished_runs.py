"""Notes of unfinished runs: their folder, their files, and the command that resumes them.

One small JSON file for each folder and command, ``<user state>/resume-dl/unfinished/<hex>.json``, written before the
first byte arrives and removed when all its files are finished. ``status`` and ``clean`` use them to find unfinished
files outside of the caches. They only inform: errors of writing are ignored, and so are notes of another form.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import write_durably
from resume_dl.store.staged import PREFIX, staged_archives, staged_prefix

SCHEMA = 1
MOST_NOTES = 200
"""Beyond it the oldest are removed: a user has a few unfinished runs, a broken script may have thousands."""
MOST_FILES = 2000
MOST_BYTES = 1 << 20
"""Longer notes are not ours."""
_MOST_TEXT = 8192


@dataclass(frozen=True, slots=True)
class UnfinishedFile:
    """A file of an unfinished run. ``url`` is redacted; ``size`` in bytes, None if it was not known."""

    filename: str
    url: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class UnfinishedRun:
    """The files of one command in one folder of part files; ``command``: its words without secrets, run in ``cwd``."""

    folder: Path
    command: tuple[str, ...]
    cwd: Path
    files: Mapping[str, UnfinishedFile] = field(default_factory=dict)
    """By the key of the part file."""
    environment: str = ""
    """The environment that was active, as ``environment_of`` names it; a command may install into it."""

    @property
    def is_left(self) -> bool:
        """Whether any of its files is still there, unfinished or staged."""
        waiting = {path.name[:PREFIX] for path in staged_archives(self.folder)}
        return any(staged_prefix(key) in waiting or os.path.lexists(self.folder / f"{key}.part") for key in self.files)


def environment_of(env: Mapping[str, str]) -> str:
    """The Python or the environment into which pip installs without ``--python``; empty if none is active."""
    return next((env[name] for name in ("RESUME_DL_PIP_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)), "")


class UnfinishedNotes:
    """The notes in ``folder``, which is made on first use. No method raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, run: UnfinishedRun) -> None:
        """Write a durable note, replacing an earlier one of the same command and folder."""
        path = self._path(run)
        files = {
            key: {"filename": each.filename, "url": each.url, "size": each.size}
            for key, each in list(run.files.items())[:MOST_FILES]
        }
        value = {
            "schema": SCHEMA,
            "folder": str(run.folder),
            "command": list(run.command),
            "cwd": str(run.cwd),
            "files": files,
            "environment": run.environment,
        }
        data = json.dumps(value).encode()
        if len(data) > MOST_BYTES:
            return
        with suppress(OSError, ValueError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(path)
            write_durably(path, data)

    def remove_if_done(self, run: UnfinishedRun) -> None:
        """Remove the note if none of the run's files is left, and those of earlier runs for the same files."""
        if run.is_left:
            return
        for path in self._paths():
            other = _read(path)
            if other is not None and other.folder == run.folder and other.files.keys() <= run.files.keys():
                self._forget(path)

    def read(self) -> list[UnfinishedRun]:
        """Return the runs of which files are left."""
        runs = [_read(path) for path in self._paths()]
        return [run for run in runs if run is not None and run.is_left]

    def sweep(self) -> None:
        """Remove the notes of runs of which nothing is left, also of those that have not created a file yet."""
        for path in self._paths():
            run = _read(path)
            if run is None or not run.is_left:
                self._forget(path)

    def _make_room(self, path: Path) -> None:
        """Remove the oldest notes if one more would exceed ``MOST_NOTES``."""
        others = [each for each in self._paths() if each != path]
        if len(others) >= MOST_NOTES:
            others.sort(key=_written_at)
            for each in others[: len(others) - MOST_NOTES + 1]:
                self._forget(each)

    def _paths(self) -> list[Path]:
        with suppress(OSError):
            return sorted(path for path in self._folder.iterdir() if path.suffix == ".json")
        return []

    def _path(self, run: UnfinishedRun) -> Path:
        text = json.dumps([str(run.folder), str(run.cwd), *run.command])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    @staticmethod
    def _forget(path: Path) -> None:
        with suppress(OSError):
            path.unlink()


def _written_at(path: Path) -> float:
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0.0


def _read(path: Path) -> UnfinishedRun | None:
    """Read a note; None if we cannot have written it. ``clean`` removes files in the folder that it names."""
    try:
        value = json.loads(fs.read_regular(path, MOST_BYTES))
        if value["schema"] != SCHEMA:
            return None
        folder, cwd = Path(_text(value["folder"])), Path(_text(value["cwd"]))
        if not (folder.is_absolute() and cwd.is_absolute() and folder.name in {FOLDER, "parts"}):
            return None
        command = tuple(_text(word) for word in _list(value["command"]))
        files = {_key(key): _file(each) for key, each in list(dict(value["files"]).items())[:MOST_FILES]}
        return UnfinishedRun(folder, command, cwd, files, _text(value.get("environment", "")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _file(value: Any) -> UnfinishedFile:
    size = value["size"]
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise ValueError("not a size")
    return UnfinishedFile(_text(value["filename"]), _text(value["url"]), size)


def _key(value: Any) -> str:
    key = _text(value)
    if not key or key != Path(key).name or key in {".", ".."} or "\\" in key:
        raise ValueError("not the key of a part file")
    return key


def _list(value: Any) -> Iterable[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT or "\0" in value:
        raise ValueError("not a valid string")
    value.encode()  # raises for lone surrogates
    return value

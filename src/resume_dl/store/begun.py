"""Notes of what runs have begun: in which folder, which files, and by which command they go on.

One small JSON file for each folder and command, ``<user state>/resume-dl/unfinished/<hex>.json``, written before the
first byte comes and removed when nothing of it is left. ``status`` and ``clean`` find by them what lies elsewhere than
in the caches. They only inform: one that cannot be written is left out, one that is not what we write is ignored.
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
"""The oldest go first: a user has a handful of unfinished runs, a broken script may have thousands."""
MOST_FILES = 2000
MOST_BYTES = 1 << 20
"""A longer note is none of ours."""
_MOST_TEXT = 8192


@dataclass(frozen=True, slots=True)
class BegunFile:
    """A file that a run began. ``url`` is redacted, ``size`` in bytes, None where it was not known."""

    filename: str
    url: str
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Begun:
    """What one command began in one folder of part files; ``command`` are its words without secrets, run in ``cwd``."""

    folder: Path
    command: tuple[str, ...]
    cwd: Path
    files: Mapping[str, BegunFile] = field(default_factory=dict)
    """By the key of the part file."""

    @property
    def is_left(self) -> bool:
        """Whether any of its files is there, unfinished or waiting for its name."""
        waiting = {path.name[:PREFIX] for path in staged_archives(self.folder)}
        return any(staged_prefix(key) in waiting or os.path.lexists(self.folder / f"{key}.part") for key in self.files)


class BegunNotes:
    """The notes in ``folder``, which is made on first use. Nothing here raises OSError."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, begun: Begun) -> None:
        """Note it durably, in place of an earlier note of the same command and folder."""
        path = self._path(begun)
        files = {
            key: {"filename": each.filename, "url": each.url, "size": each.size}
            for key, each in list(begun.files.items())[:MOST_FILES]
        }
        value = {
            "schema": SCHEMA,
            "folder": str(begun.folder),
            "command": list(begun.command),
            "cwd": str(begun.cwd),
            "files": files,
        }
        data = json.dumps(value).encode()
        if len(data) > MOST_BYTES:
            return
        with suppress(OSError, ValueError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(path)
            write_durably(path, data)

    def settle(self, begun: Begun) -> None:
        """Forget it if nothing of it is left."""
        if not begun.is_left:
            self._forget(self._path(begun))

    def read(self) -> list[Begun]:
        """Those of which something is left; the others are forgotten."""
        found = []
        for path in self._paths():
            begun = _read(path)
            if begun is not None and begun.is_left:
                found.append(begun)
            else:
                self._forget(path)
        return found

    def _make_room(self, path: Path) -> None:
        """Remove the oldest notes where one more would be too many."""
        others = [each for each in self._paths() if each != path]
        if len(others) >= MOST_NOTES:
            others.sort(key=_written_at)
            for each in others[: len(others) - MOST_NOTES + 1]:
                self._forget(each)

    def _paths(self) -> list[Path]:
        with suppress(OSError):
            return sorted(path for path in self._folder.iterdir() if path.suffix == ".json")
        return []

    def _path(self, begun: Begun) -> Path:
        text = json.dumps([str(begun.folder), str(begun.cwd), *begun.command])
        return self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    @staticmethod
    def _forget(path: Path) -> None:
        with suppress(OSError):
            path.unlink()


def _written_at(path: Path) -> float:
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0.0


def _read(path: Path) -> Begun | None:
    """The note; None for whatever we would not have written: it may name any folder, and ``clean`` removes there."""
    try:
        value = json.loads(fs.read_regular(path, MOST_BYTES))
        if value["schema"] != SCHEMA:
            return None
        folder, cwd = Path(_text(value["folder"])), Path(_text(value["cwd"]))
        if not (folder.is_absolute() and cwd.is_absolute() and folder.name in {FOLDER, "parts"}):
            return None
        command = tuple(_text(word) for word in _list(value["command"]))
        files = {_key(key): _file(each) for key, each in list(dict(value["files"]).items())[:MOST_FILES]}
        return Begun(folder, command, cwd, files)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _file(value: Any) -> BegunFile:
    size = value["size"]
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise ValueError("no size")
    return BegunFile(_text(value["filename"]), _text(value["url"]), size)


def _key(value: Any) -> str:
    key = _text(value)
    if not key or key != Path(key).name or key in {".", ".."} or "\\" in key:
        raise ValueError("no key of a part file")
    return key


def _list(value: Any) -> Iterable[Any]:
    if not isinstance(value, list):
        raise TypeError("no list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _MOST_TEXT or "\0" in value:
        raise ValueError("no text")
    value.encode()  # half of a surrogate pair is none
    return value

"""Inventory of package caches and wheel folders, by digest."""

from __future__ import annotations

import json
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Iterable

from resume_dl.byte_units import show_bytes
from resume_dl.offline_tools.console import Log, tell
from resume_dl.offline_tools.digests import hash_file
from resume_dl.offline_tools.machine.package_places import existing_folders
from resume_dl.offline_tools.machine.programs import SECONDS_BETWEEN_LINES, is_file

INVENTORY_KIND = "resume-dl inventory"
ARCHIVES = (".conda", ".tar.bz2")
_MOST_RECORD = 16 << 20
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+!~-]*")
_HEX = {"sha256": re.compile(r"[0-9a-f]{64}"), "md5": re.compile(r"[0-9a-f]{32}")}


class _Progress:
    """A progress line every few seconds while files are hashed; the total grows with a file."""

    def __init__(self, size: int, log: Log) -> None:
        self.size, self.log = size, log
        self.done = 0
        self.next = time.monotonic() + SECONDS_BETWEEN_LINES

    def __call__(self, count: int) -> None:
        self.done += count
        self.size = max(self.size, self.done)
        if time.monotonic() >= self.next:
            self.next = time.monotonic() + SECONDS_BETWEEN_LINES
            self.log(f"  {show_bytes(self.done)} of {show_bytes(self.size)}")


def inventory(packages: Iterable[Path], wheels: Iterable[Path], log: Log = tell) -> dict[str, list[dict[str, Any]]]:
    """List archives and wheels of these folders, hashed here, and unpacked packages.

    ``log`` gets lines for people; an unreadable file is named there and left out. Names carry no folder.
    """
    caches = existing_folders(packages)
    found: dict[str, list[dict[str, Any]]] = {"packages": [], "wheels": [], "unpacked": []}
    archives = _files(caches, ARCHIVES, log)
    known = _files(existing_folders(wheels), (".whl",), log)
    sizes = sum(size for _, size in (*archives, *known))
    if archives or known:
        log(f"hashing {len(archives) + len(known)} files, {show_bytes(sizes)}, in the caches of this machine")
    progress = _Progress(sizes, log)
    for kind, files in (("packages", archives), ("wheels", known)):
        for path, _ in files:
            try:
                size, sha256, md5 = hash_file(path, progress)
            except OSError as error:
                log("left out: " + str(path) + ": " + (error.strerror or str(error)))
                continue
            entry = {"filename": path.name, "size": size, "sha256": sha256}
            found[kind].append({**entry, "md5": md5} if kind == "packages" else entry)
    found["unpacked"] = _unpacked(caches, {path.name for path, _ in archives})
    return {kind: _each_once(entries) for kind, entries in found.items()}


def _files(folders: Iterable[Path], endings: tuple[str, ...], log: Log) -> list[tuple[Path, int]]:
    found = []
    for folder in folders:
        try:
            names = sorted(place.name for place in folder.iterdir() if place.name.endswith(endings))
        except OSError as error:
            log("left out: " + str(folder) + ": " + (error.strerror or str(error)))
            continue
        for name in names:
            path = folder / name
            if not _FILE_NAME.fullmatch(name):
                log("left out: " + str(path) + ": not a valid package file name")
                continue
            with suppress(OSError):
                if path.is_file():
                    found.append((path, path.stat().st_size))
    return found


def _unpacked(caches: Iterable[Path], archives: Iterable[str]) -> list[dict[str, Any]]:
    """Packages without their archive, with the digest from conda's record."""
    whole = {name[: -len(ending)] for name in archives for ending in ARCHIVES if name.endswith(ending)}
    found = []
    for cache in caches:
        with suppress(OSError):
            for name in sorted(place.name for place in cache.iterdir()):
                record = cache / name / "info" / "repodata_record.json"
                if name not in whole and _FILE_NAME.fullmatch(name) and is_file(record):
                    digests = _noted(record)
                    if digests:
                        found.append({"name": name, **digests})
    return found


def _noted(record: Path) -> dict[str, str]:
    try:
        with record.open("rb") as file:
            noted = json.loads(file.read(_MOST_RECORD).decode("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not isinstance(noted, dict):
        return {}
    return {
        kind: noted[kind]
        for kind, form in _HEX.items()
        if isinstance(noted.get(kind), str) and form.fullmatch(noted[kind])
    }


def _each_once(entries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_text = {json.dumps(entry, sort_keys=True): entry for entry in entries}
    return sorted(by_text.values(), key=json.dumps)

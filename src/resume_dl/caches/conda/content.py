"""Verification of an extracted package by the digests of its own list, ``info/paths.json``.

The list has the SHA-256 of each file as it is in the archive, before any prefix is replaced, so it holds for the
package cache. Old packages have ``info/files`` only, without digests. The list is the package's own: this finds
accidents and later changes, not the author's intent.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from resume_dl.caches.conda.record import PATHS, read_info
from resume_dl.store.part import hash_file

_HEX = frozenset("0123456789abcdef")


def has_digests(extracted: Path) -> bool:
    """Whether the package's list states the SHA-256 of any file."""
    return any(_sha256(row) for row in _rows(extracted))


def altered_files(extracted: Path, cancelled: Callable[[], bool] = lambda: False) -> Iterator[str]:
    """The paths whose file is missing, cannot be a package's, or has another SHA-256 than the list; all are hashed.

    Ends early once ``cancelled`` returns true. Raises OSError for a file that cannot be read.
    """
    base = extracted.resolve()
    for row in _rows(extracted):
        if cancelled():
            return
        wanted = _sha256(row)
        if not wanted:
            continue
        name = row["_path"]
        path = _inside(base, name)
        if path is None:
            yield name
            continue
        try:
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode) and row.get("path_type") == "softlink":
                continue  # the digest is that of the target, which has its own row
            if not stat.S_ISREG(mode) or hash_file(path, "sha256") != wanted:
                yield name
        except (FileNotFoundError, NotADirectoryError):
            yield name


def _rows(extracted: Path) -> list[dict[str, Any]]:
    listing = read_info(extracted, PATHS)
    rows = listing.get("paths") if listing is not None else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _sha256(row: dict[str, Any]) -> str:
    """The digest of a row; empty if it has none, or no name."""
    value, name = row.get("sha256"), row.get("_path")
    if not isinstance(value, str) or not isinstance(name, str) or not name or "\0" in name:
        return ""
    value = value.lower()
    return value if len(value) == 64 and _HEX.issuperset(value) else ""


def _inside(base: Path, name: str) -> Path | None:
    """The path of ``name`` with its folders resolved; None if it is outside of ``base``."""
    path = base / name
    try:
        folder = path.parent.resolve()
    except (OSError, RuntimeError):  # RuntimeError: a loop of links
        return None
    return folder / path.name if folder.is_relative_to(base) and path != base else None

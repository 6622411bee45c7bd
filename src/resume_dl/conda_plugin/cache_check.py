"""A fast check after a solve: if conda's cache has every package, no other module of the plugin is loaded.

It only saves work: what it does not recognise is examined by ``post_solve``. 300 records cost about as much as reading
300 small files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from resume_dl import fs

_HANDED = "handed-"
_MOST_RECORD = 16 << 20
"""Bytes; a longer record, or one that is not a regular file, counts as not recognised."""


def uncached(records: Iterable[Any], pkgs_dirs: Sequence[str]) -> list[Any]:
    """The records without an extracted entry of the same URL and digest in a cache; conda uses the others as they are.

    All records if a ``.partial`` has to be withdrawn.
    """
    records = list(records)
    if any(_has_handed(folder) for folder in pkgs_dirs):
        return records
    folders = [folder for folder in pkgs_dirs if os.path.isdir(folder)]
    return [record for record in records if not any(_is_entry(folder, record) for folder in folders)]


def _is_entry(pkgs_dir: str, record: Any) -> bool:
    url, digest = record.get("url"), record.get("sha256")
    if not url or not digest or url.startswith("file:"):
        return False
    stem = record.fn.removesuffix(".conda").removesuffix(".tar.bz2")
    try:
        # strings instead of pathlib, which takes twice the time for 300 records
        found = json.loads(fs.read_regular(f"{pkgs_dir}/{stem}/info/repodata_record.json", _MOST_RECORD))
        return bool(found["url"] == url and found["sha256"] == digest and found["channel"] == url.rpartition("/")[0])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _has_handed(pkgs_dir: str) -> bool:
    try:
        return any(name.startswith(_HANDED) for name in os.listdir(f"{pkgs_dir}/.resume-dl"))
    except OSError:
        return False

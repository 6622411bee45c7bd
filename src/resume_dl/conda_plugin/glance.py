"""The first look after a solve: mostly conda has everything in its cache, and then nothing else of ours is loaded.

It only spares work: what it does not recognise is looked at properly (``post_solve``). 300 records cost about as much
as reading 300 small files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any

from resume_dl import fs

_HANDED = "handed-"
_MOST_RECORD = 16 << 20
"""Bytes; what is longer, or no regular file, is looked at properly, as all that is not recognised."""


def unsettled(records: Iterable[Any], pkgs_dirs: Sequence[str]) -> list[Any]:
    """The records but those for which a cache has an extracted entry of the same URL and digest: conda takes these.

    All of them where a ``.partial`` waits to be withdrawn.
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
        # plain functions: with pathlib these 300 looks take twice the time
        found = json.loads(fs.read_regular(f"{pkgs_dir}/{stem}/info/repodata_record.json", _MOST_RECORD))
        return bool(found["url"] == url and found["sha256"] == digest and found["channel"] == url.rpartition("/")[0])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _has_handed(pkgs_dir: str) -> bool:
    try:
        return any(name.startswith(_HANDED) for name in os.listdir(f"{pkgs_dir}/.resume-dl"))
    except OSError:
        return False

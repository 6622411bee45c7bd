"""The post-solve action: hand conda what is verified and at hand, package by package, and never stand in its way.

A package's trouble is that package's alone: conda downloads it as if we were not there. ``--dry-run`` changes nothing.
Extraction is left to conda. KeyboardInterrupt passes; no exception of ours does.
"""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from resume_dl.app.reuse import AtHand, Extracted, Loose, Packed, find_at_hand, prepare
from resume_dl.conda_plugin import compat
from resume_dl.store.cache_partial import place, withdraw_orphans
from resume_dl.store.cache_record import INDEX, client_url, read_json
from resume_dl.store.condacache import is_whole, stem


def reuse_at_hand(records: Iterable[Any]) -> None:
    """Hand over every package of ``records`` (conda's ``link_precs``) whose verified bytes are at hand."""
    if compat.is_dry_run():
        return
    caches = compat.package_caches()
    for cache in caches:
        withdraw_orphans(cache)
    artifacts, by_url = compat.artifacts(records)
    reused: list[str] = []
    for found in find_at_hand(artifacts, caches):
        name = found.artifact.filename
        try:
            if _hand_over(found, by_url[client_url(found.artifact)]):
                reused.append(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, conda goes on and downloads this one
            _say(f"{name} is not reused ({_in_one_line(error)}); conda goes on by itself")
    if reused and compat.is_talkative():
        what = reused[0] if len(reused) == 1 else f"{len(reused)} packages"
        _say(f"{what}: verified and at hand, no download needed")


def _hand_over(found: AtHand, record: Any) -> bool:
    """Verify and hand over one package; whether conda has it now."""
    ready = prepare(found, is_writable=compat.is_writable, first_writable=compat.first_writable)
    if isinstance(ready, Extracted):
        pkgs_dir, folder = ready.entry.pkgs_dir, ready.entry.extracted
        archive = ready.entry.archive or pkgs_dir / found.artifact.filename
        return folder is not None and _insert(pkgs_dir, record, archive, folder)
    if isinstance(ready, Packed):
        pkgs_dir, folder = ready.archive.parent, ready.archive.parent / stem(ready.archive.name)
        compat.extract_packed(pkgs_dir, record, folder)
        return is_whole(folder) and _insert(pkgs_dir, record, ready.archive, folder)
    return isinstance(ready, Loose) and _place(ready)


def _insert(pkgs_dir: Path, record: Any, archive: Path, folder: Path) -> bool:
    index = read_json(folder / INDEX)
    if index is None:
        return False
    compat.insert(pkgs_dir, record, index, archive=archive, extracted=folder)
    return True


def _place(ready: Loose) -> bool:
    """Put a complete ``.partial`` where conda will look, for as long as this conda runs."""
    handed = place(ready.pkgs_dir, ready.artifact.filename, ready.file)
    atexit.register(handed.withdraw)  # also after "no" at the prompt, an error, or Ctrl-C
    return True


def _in_one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _say(text: str) -> None:
    """One line on stderr: stdout may be JSON."""
    sys.stderr.write(f"resume-dl: {text}\n")

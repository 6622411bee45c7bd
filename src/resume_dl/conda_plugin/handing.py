"""Handing conda what is verified and at hand, package by package; extraction is left to conda."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.app.reuse import AtHand, Extracted, Loose, Packed, prepare
from resume_dl.caches.conda.lookup import is_whole, stem
from resume_dl.caches.conda.partial import place
from resume_dl.caches.conda.record import INDEX, RECORD, client_url, read_info
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.saying import in_one_line, say
from resume_dl.errors import LockedError
from resume_dl.model.artifact import Artifact
from resume_dl.store.platform import replace
from resume_dl.store.staged import staged_path


@dataclass(frozen=True, slots=True)
class Handed:
    """What became of the finds: conda ``has`` them now, is ``left`` to download them, or they are still ``wanted``."""

    has: tuple[Artifact, ...] = ()
    left: tuple[Artifact, ...] = ()
    """Something of this machine went wrong, which was told in a line: it would go wrong again."""
    wanted: tuple[Artifact, ...] = ()
    """They were not the package after all, or another process works on them, which may be waited for."""


def hand_over_all(found: Iterable[AtHand], records: Mapping[str, Any]) -> Handed:
    """Verify and hand over; ``records`` by ``client_url``. Whatever goes wrong is one line."""
    has: list[Artifact] = []
    left: list[Artifact] = []
    wanted: list[Artifact] = []
    for each in found:
        artifact = each.artifact
        try:
            (has if _hand_over(each, records[client_url(artifact)]) else wanted).append(artifact)
        except LockedError:
            wanted.append(artifact)
        except Exception as error:  # noqa: BLE001 - whatever it is, conda goes on and downloads this one
            left.append(artifact)
            say(f"{artifact.filename} is not reused ({in_one_line(error)}); conda goes on by itself")
    return Handed(tuple(has), tuple(left), tuple(wanted))


def tell_conda(pkgs_dir: Path, filename: str, record: Any, *, archive: Path | None = None) -> bool:
    """Tell conda of the extracted package in ``pkgs_dir``; False where its index cannot be read."""
    folder = pkgs_dir / stem(filename)
    index = read_info(folder, INDEX)
    if index is None:
        return False
    told = read_info(folder, RECORD) or {}  # digests that an address on the command line does not say
    index |= {name: told[name] for name in ("md5", "sha256", "size") if told.get(name) is not None}
    compat.insert(pkgs_dir, record, index, archive=archive or pkgs_dir / filename, extracted=folder)
    return True


def _hand_over(found: AtHand, record: Any) -> bool:
    """Verify and hand over one package; whether conda has it now."""
    filename = found.artifact.filename
    ready = prepare(found, is_writable=compat.is_writable, first_writable=compat.first_writable)
    if isinstance(ready, Extracted):
        return tell_conda(ready.entry.pkgs_dir, filename, record, archive=ready.entry.archive)
    if isinstance(ready, Packed):
        pkgs_dir, folder = ready.archive.parent, ready.archive.parent / stem(ready.archive.name)
        compat.extract_packed(pkgs_dir, folder)
        return is_whole(folder) and tell_conda(pkgs_dir, filename, record, archive=ready.archive)
    if isinstance(ready, Loose) and isinstance(record, compat.Listed):  # conda takes no .partial for an address
        replace(ready.file, staged_path(ready.pkgs_dir, ready.artifact))  # fetching ahead unpacks it
        return False
    return isinstance(ready, Loose) and _place(ready)


def _place(ready: Loose) -> bool:
    """Put a complete ``.partial`` where conda will look, for as long as this conda runs."""
    handed = place(ready.pkgs_dir, ready.artifact.filename, ready.file)
    atexit.register(handed.withdraw)  # also after "no" at the prompt, an error, or Ctrl-C
    return True

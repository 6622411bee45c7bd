"""Hand verified packages that are on the disk to conda; conda extracts those that are not extracted yet."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.app.reuse import AtHand, Extracted, Loose, Packed, prepare
from resume_dl.caches.conda.lookup import is_whole, stem
from resume_dl.caches.conda.partial import HandedPartial, place
from resume_dl.caches.conda.record import INDEX, RECORD, client_url, read_info
from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.messages import in_one_line, say
from resume_dl.errors import LockedError
from resume_dl.model.artifact import Artifact
from resume_dl.store.platform import replace
from resume_dl.store.staged import staged_path


@dataclass(frozen=True, slots=True)
class Handed:
    """The outcome: conda ``has`` a package, is ``left`` to download it, or the package is still ``wanted``."""

    has: tuple[Artifact, ...] = ()
    left: tuple[Artifact, ...] = ()
    """A local error was reported in one line; it would happen again."""
    wanted: tuple[Artifact, ...] = ()
    """The file was not the package, or another process uses it, for which a download can wait."""


def hand_over_all(found: Iterable[AtHand], records: Mapping[str, Any]) -> Handed:
    """Verify and hand over; ``records`` by ``client_url``. A failure is reported in one line."""
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
            say(f"{artifact.filename} is not reused ({in_one_line(error)}); conda continues on its own")
    return Handed(tuple(has), tuple(left), tuple(wanted))


def tell_conda(pkgs_dir: Path, filename: str, record: Any, *, archive: Path | None = None) -> bool:
    """Register the extracted package in ``pkgs_dir`` with conda; False if its ``index.json`` cannot be read."""
    folder = pkgs_dir / stem(filename)
    index = read_info(folder, INDEX)
    if index is None:
        return False
    noted = read_info(folder, RECORD) or {}  # has digests that a URL on the command line does not state
    index |= {name: noted[name] for name in ("md5", "sha256", "size") if noted.get(name) is not None}
    compat.insert(pkgs_dir, record, index, archive=archive or pkgs_dir / filename, extracted=folder)
    return True


def _hand_over(found: AtHand, record: Any) -> bool:
    """Verify and hand over one package; return whether conda has it now."""
    filename = found.artifact.filename
    ready = prepare(found, is_writable=compat.is_writable, first_writable=compat.first_writable)
    if isinstance(ready, Extracted):
        return tell_conda(ready.entry.pkgs_dir, filename, record, archive=ready.entry.archive)
    if isinstance(ready, Packed):
        pkgs_dir, folder = ready.archive.parent, ready.archive.parent / stem(ready.archive.name)
        compat.extract_packed(pkgs_dir, folder)
        return is_whole(folder) and tell_conda(pkgs_dir, filename, record, archive=ready.archive)
    if isinstance(ready, Loose) and isinstance(record, compat.Listed):  # conda uses no .partial for a URL
        replace(ready.file, staged_path(ready.pkgs_dir, ready.artifact))  # missing_packages unpacks it
        return False
    return isinstance(ready, Loose) and _place(ready)


def _place(ready: Loose) -> bool:
    """Put a complete ``.partial`` where conda will look, until this process ends."""
    handed = place(ready.pkgs_dir, ready.artifact.filename, ready.file)
    staged = staged_path(ready.pkgs_dir, ready.artifact)
    atexit.register(_withdraw, handed, staged)  # runs also after "no" at the prompt, an error, or Ctrl-C
    return True


def _withdraw(handed: HandedPartial, staged: Path) -> None:
    """Remove what conda has not used; if conda has used it, the staged archive that it was copied from."""
    if not os.path.lexists(handed.path):
        with suppress(OSError):
            staged.unlink()
    handed.withdraw()

"""Verify package caches and wheel folders by content: every byte is read and hashed, in parallel; nothing is changed.

An archive is compared with the digest in the record of the folder beside it, an extracted package with the digests of
its own list, a wheel with its RECORD. Where no digest is known, the file is *unknown*, not damaged.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from resume_dl import fs
from resume_dl.app.health import Trouble, archive_damage, digest_of, folder_damage, is_link, packages_in, record_in
from resume_dl.caches.conda.content import altered_files, has_digests
from resume_dl.caches.wheel_record import check_archive
from resume_dl.errors import IntegrityError, Interrupted

_AT_ONCE = min(8, os.cpu_count() or 1)
"""Hashing releases the interpreter's lock; beyond eight the disk is the limit."""
_WHEELS = (".whl", ".tar.gz")
_MOST_NAMES = 20


@dataclass(frozen=True, slots=True)
class Flaw:
    """A file or folder that failed (``damaged``), or that could not be judged."""

    path: Path
    what: str
    """``damaged``, ``half extracted``, ``wrong size``, ``wrong digest``; not damage: ``no digest``, ``foreign``,
    ``unreadable``."""
    message: str
    files: tuple[str, ...] = ()
    """Paths in a package that differ from its list, at most twenty."""

    @property
    def is_damage(self) -> bool:
        """Whether the content is wrong, as opposed to unknown."""
        return self.what not in {"no digest", "foreign", "unreadable"}

    def as_json(self) -> dict[str, Any]:
        """Return the object for ``damaged`` and ``unknown``."""
        return {"path": str(self.path), "what": self.what, "message": self.message, "files": list(self.files)}


@dataclass(frozen=True, slots=True)
class Verification:
    """``checked``: packages and wheels looked at, an archive and its folder counted once."""

    checked: int
    flaws: tuple[Flaw, ...]

    @property
    def damaged(self) -> tuple[Flaw, ...]:
        """What is damaged or half extracted."""
        return tuple(each for each in self.flaws if each.is_damage)

    @property
    def unknown(self) -> tuple[Flaw, ...]:
        """What has no known digest, or could not be read."""
        return tuple(each for each in self.flaws if not each.is_damage)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {
            "checked": self.checked,
            "damaged": [each.as_json() for each in self.damaged],
            "unknown": [each.as_json() for each in self.unknown],
        }


def verify(
    pkgs_dirs: Sequence[Path],
    wheel_dirs: Sequence[Path],
    *,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Verification:
    """Hash everything in these folders; missing ones count as empty. ``progress`` gets numbers, done and in all."""
    stop = threading.Event()
    calls: list[Callable[[], list[Flaw]]] = []
    for pkgs_dir in dict.fromkeys(pkgs_dirs):
        calls += [partial(check_package, *found, stop.is_set) for found in packages_in(pkgs_dir)]
    for folder in dict.fromkeys(wheel_dirs):
        calls += [partial(_wheel, path, stop.is_set) for path in _wheels(folder)]
    flaws: list[Flaw] = []
    pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="verify")
    try:
        futures = [pool.submit(call) for call in calls]
        pending: set[Future[list[Flaw]]] = set(futures)
        while pending:
            # a limit: without one, Ctrl-C waits on Windows
            pending = wait(pending, timeout=1, return_when=FIRST_COMPLETED).not_done
            progress(len(futures) - len(pending), len(futures))
        for future in futures:
            flaws += future.result()
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)
    return Verification(len(calls), tuple(flaws))


def check_package(folder: Path, archives: Sequence[Path], cancelled: Callable[[], bool]) -> list[Flaw]:
    """The flaws of an extracted package and its archives."""
    flaws: list[Flaw] = []
    record = record_in(folder)
    if is_link(folder):
        flaws.append(Flaw(folder, "foreign", "is a link, which conda ignores; what it leads to was not read"))
    elif folder.is_dir():
        flaws += _extracted(folder, cancelled, half=record is None)
    for archive in archives:
        if cancelled():
            break
        if record is None or record.get("fn") != archive.name or digest_of(record) is None:
            flaws.append(Flaw(archive, "no digest", "no record states its digest"))
            continue
        try:
            for each in archive_damage(archive, record, hashing=True):
                unit = " bytes" if each.trouble is Trouble.WRONG_SIZE else ""
                message = f"has {each.actual}{unit}, its record says {each.expected}{unit}"
                flaws.append(Flaw(archive, each.trouble.value, message))
            with archive.open("rb"):
                pass  # archive_damage skips what cannot be read
        except FileNotFoundError:
            continue  # removed meanwhile
        except OSError as error:
            flaws.append(Flaw(archive, "unreadable", f"cannot be read: {error.strerror or error}"))
    return flaws


def _extracted(folder: Path, cancelled: Callable[[], bool], *, half: bool) -> Iterator[Flaw]:
    try:
        files = tuple(altered_files(folder, cancelled))
    except OSError as error:
        yield Flaw(folder, "unreadable", f"cannot be read: {error.strerror or error}")
        return
    if not folder.is_dir():
        return  # removed meanwhile
    incomplete = any(True for _ in folder_damage(folder, None))
    if files or incomplete:
        count = f"{len(files)} of its files differ from its list" if files else "some of its files are missing"
        message = "it is partly extracted" if half and incomplete else count
        what = Trouble.HALF_EXTRACTED if half and incomplete else Trouble.DAMAGED
        yield Flaw(folder, what.value, message, files[:_MOST_NAMES])
    elif not has_digests(folder):
        yield Flaw(folder, "no digest", "its list of files has no digests; names and sizes are right")


def _wheels(folder: Path) -> list[Path]:
    try:
        names = sorted(fs.names_in(folder))
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(_WHEELS) and fs.is_regular(folder / name)]


def _wheel(path: Path, cancelled: Callable[[], bool]) -> list[Flaw]:
    try:
        check_archive(path, path.name, cancelled=cancelled)
    except IntegrityError as error:
        return [Flaw(path, "damaged", error.message)]
    except (Interrupted, FileNotFoundError):
        return []
    except OSError as error:
        return [Flaw(path, "unreadable", f"cannot be read: {error.strerror or error}")]
    return []

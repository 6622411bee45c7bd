"""The folder that a bundle is made in: ownership, generated files, removal of outdated files.

A bundle is complete once manifest.json and SHA256SUMS exist: they are removed before any other file changes, and
written last.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import tarfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.bundle.manifest import read_manifest
from resume_dl.errors import ConfigurationError, LockedError, NotWritableError, ResumeDLError, StoreError
from resume_dl.fs.removal import remove
from resume_dl.model.bundle import CHANNEL, KIND, MANIFEST, SIGNATURE, SUMS, WHEELS, BundleFile
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import make_folder, replace, replace_durably
from resume_dl.store.work_folder import make_work_folder
from resume_dl.transfer.destination import check_folder

_OURS = (CHANNEL, WHEELS, "simple", "explicit", "requirements")
"""Folders of a bundle that hold nothing else."""
_MOST_MANIFEST = 256 << 20
"""Largest manifest in bytes, as in ``bundle verify``."""
_OPTIONAL = ("environment.yml", "pylock.toml")
"""Optional files of a bundle."""


class BundleFolder:
    """The folder of a bundle; enter ``working`` first."""

    def __init__(self, root: Path, *, private: bool = False, option: str = "-o") -> None:
        """Raises ConfigurationError for a folder with other files in it, StoreError.

        ``private``: the folder is temporary, inside one that others may write to.
        """
        self._private = private
        self.root = check_folder(root, option)
        self._work = self.root / FOLDER
        self._mark = self._work / "bundle"
        """Exists while the bundle is unfinished, and marks the folder as ours."""
        self._is_begun = self._is_finished = False
        self._links: list[str] = []
        """Folders that were links, and were removed."""
        self._before = self._work / "before.json"
        """The manifest of the previous bundle."""
        others = root.is_dir() and any(path.name != FOLDER for path in root.iterdir())
        if others and not self._mark.is_file() and not is_bundle(root):
            raise ConfigurationError(
                f"{root} is not empty, and not a bundle", hint=f"name another folder with {option}, or a new one"
            )

    @contextmanager
    def working(self) -> Iterator[None]:
        """Lock the folder while the block runs; a bundle that was not begun leaves nothing behind.

        Raises LockedError, StoreError.
        """
        new = [path for path in (self._work, self.root) if not path.is_dir()]
        try:
            if self._private:
                make_work_folder(self.root)
            make_work_folder(self._work)
        except OSError as error:
            raise NotWritableError(f"{self._work}: {error.strerror}", hint="choose another folder with -o") from error
        lock = FileLock(self._work / "create.lock")
        try:
            lock.acquire()
        except LockedError as error:
            raise LockedError(
                f"{error.owner} is making a bundle in {self.root}",
                owner=error.owner,
                hint="wait until it ends, or choose another place with -o",
            ) from error
        try:
            yield
        finally:
            lock.release(remove=True)
            for path in [self._work] if self._is_finished else [] if self._is_begun else new:
                with suppress(OSError):  # another process has started one here
                    path.rmdir()

    def begin(self) -> None:
        """Start to change the folder: the previous bundle becomes unfinished.

        The folder may come from another machine, with links in place of folders, through which files would be written
        and removed elsewhere. A bundle has no links, so they are removed.
        """
        if not self._is_begun:
            os.close(fs.create_file(self._mark))
            for link in [link for top in _OURS for link in _linked_folders(self.root / top)]:
                remove(link)
                self._links.append(link.relative_to(self.root).as_posix())
            for name in (SUMS, SIGNATURE):
                (self.root / name).unlink(missing_ok=True)
            with suppress(FileNotFoundError):
                replace(self.root / MANIFEST, self._before)
            self._is_begun = True

    def write(self, path: str, chunks: Iterable[bytes]) -> BundleFile:
        """Write one generated file; ``path`` is below the folder, with ``/``. Raises StoreError."""
        target, waiting = self.root / path, self._work / f"new-{secrets.token_hex(4)}"
        digest, size = hashlib.sha256(), 0
        try:
            make_folder(target.parent)
            with os.fdopen(fs.create_file(waiting), "wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
            replace_durably(waiting, target)
        except OSError as error:
            raise StoreError(
                f"{target} cannot be written: {error.strerror or error}",
                hint="free some space or choose another folder with -o; run the command again: files fetched are kept",
            ) from error
        finally:
            with suppress(OSError):
                waiting.unlink()
        return BundleFile(path, size, digest.hexdigest())

    def tidy(self, keep: Collection[str]) -> list[str]:
        """Remove files of an earlier bundle in this folder; ``keep``: paths with ``/``.

        Returns the removed files that were not part of that bundle, if its content is known.
        """
        optional = [name for name in _OPTIONAL if name not in keep and (self.root / name).is_file()]
        for name in optional:
            (self.root / name).unlink()
        removed = [*self._links, *optional]
        for top in _OURS:
            for folder, folders, files in os.walk(self.root / top, topdown=False):
                links = (each for each in folders if Path(folder, each).is_symlink())
                for path in (Path(folder, each) for each in (*files, *links)):
                    name = path.relative_to(self.root).as_posix()
                    if name not in keep:
                        path.unlink()
                        removed.append(name)
                with suppress(OSError):  # it is not empty
                    Path(folder).rmdir()
        known = _paths_of(self._before)
        return [] if known is None else sorted({*removed} - known)

    def finish(self) -> None:
        """Remove the staging folder: only files of the bundle are left."""
        for folder in (self._work, self.root / WHEELS / FOLDER):
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name != "create.lock":
                    remove(path)
        with suppress(OSError):  # it is removed already
            (self.root / WHEELS / FOLDER).rmdir()
        self._is_finished = True


def _linked_folders(top: Path) -> Iterator[Path]:
    """``top`` if it is a link, else the links to folders in it."""
    with suppress(FileNotFoundError):
        if fs.is_link(top.lstat()):
            yield top
            return
    for folder, folders, _ in os.walk(top):
        yield from (path for path in (Path(folder, each) for each in folders) if fs.is_link(path.lstat()))


def is_bundle(folder: Path) -> bool:
    """Whether the folder holds a bundle's manifest."""
    try:
        return _is_manifest(fs.read_regular(folder / MANIFEST, _MOST_MANIFEST))
    except OSError:
        return False


def _is_manifest(data: bytes) -> bool:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and document.get("kind") == KIND


def _paths_of(manifest: Path) -> set[str] | None:
    """The paths in a manifest; None if it is missing or invalid."""
    try:
        before = read_manifest(fs.read_regular(manifest, _MOST_MANIFEST))
    except (OSError, ResumeDLError):
        return None
    return {*(each.path for each in before.packages), *(each.path for each in before.files)}


def is_bundle_tar(path: Path) -> bool:
    """Whether a file starts like a bundle's tar: with its manifest, checked by content as well as by name."""
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            content = None if first is None or first.name != MANIFEST else tar.extractfile(first)
            return content is not None and _is_manifest(content.read())
    except (OSError, tarfile.TarError):
        return False

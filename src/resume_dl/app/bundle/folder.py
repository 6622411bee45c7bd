"""The folder that a bundle is made in: whose it is, what is written into it, what does not belong there any more.

It counts as whole once manifest.json and SHA256SUMS are there: they are taken away before the first of its other files
changes, and written last.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
import tarfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from resume_dl.app.destination import check_folder
from resume_dl.bundle.manifest import read_manifest
from resume_dl.errors import ConfigurationError, LockedError, NotWritableError, ResumeDLError, StoreError
from resume_dl.model.bundle import CHANNEL, KIND, MANIFEST, SIGNATURE, SUMS, WHEELS, BundleFile
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import replace, sync_directory

_OURS = (CHANNEL, WHEELS, "simple", "explicit", "requirements")
"""Folders of a bundle in which nothing else may be."""
_AT_WILL = ("environment.yml", "pylock.toml")
"""Files that not every bundle has."""


class BundleFolder:
    """One folder; ``working`` before anything else."""

    def __init__(self, root: Path, *, option: str = "-o") -> None:
        """Raises ConfigurationError for a folder with other things in it, NotWritableError."""
        self.root = check_folder(root, option)
        self._work = self.root / FOLDER
        self._mark = self._work / "bundle"
        """There as long as the bundle is unfinished: the sign that this folder is ours."""
        self._is_begun = self._is_finished = False
        self._before = self._work / "before.json"
        """The manifest of the bundle that was here."""
        others = root.is_dir() and any(path.name != FOLDER for path in root.iterdir())
        if others and not self._mark.is_file() and not is_bundle(root):
            raise ConfigurationError(
                f"{root} is not empty, and no bundle", hint=f"name another folder with {option}, or a new one"
            )

    @contextmanager
    def working(self) -> Iterator[None]:
        """Nobody else makes a bundle here while the block runs; nothing is left of one that was not begun.

        Raises LockedError, StoreError.
        """
        new = [path for path in (self._work, self.root) if not path.is_dir()]
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NotWritableError(f"{self._work}: {error.strerror}", hint="choose another folder with -o") from error
        lock = FileLock(self._work / "create.lock")
        try:
            lock.acquire()
        except LockedError as error:
            raise LockedError(
                f"{error.owner} makes a bundle in {self.root}",
                owner=error.owner,
                hint="wait until it has ended, or choose another place with -o",
            ) from error
        try:
            yield
        finally:
            lock.release(remove=True)
            for path in [self._work] if self._is_finished else [] if self._is_begun else new:
                with suppress(OSError):  # another process has begun one here
                    path.rmdir()

    def begin(self) -> None:
        """What is here may change from now on: the bundle that it was is whole no more."""
        if not self._is_begun:
            self._mark.touch()
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
            target.parent.mkdir(parents=True, exist_ok=True)
            with waiting.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                    digest.update(chunk)
                    size += len(chunk)
                file.flush()
                os.fsync(file.fileno())
            replace(waiting, target)
            sync_directory(target.parent)
        except OSError as error:
            raise StoreError(
                f"{target} cannot be written: {error.strerror or error}",
                hint="free some space or choose another folder with -o; run the same command again: what came is kept",
            ) from error
        finally:
            with suppress(OSError):
                waiting.unlink()
        return BundleFile(path, size, digest.hexdigest())

    def tidy(self, keep: Collection[str]) -> list[str]:
        """Remove what an earlier bundle in this folder had and this one has not; ``keep``: paths with ``/``.

        Returned are the removed files that were not of that bundle, as far as it is known: somebody else put them here.
        """
        removed = [name for name in _AT_WILL if name not in keep and (self.root / name).is_file()]
        for name in removed:
            (self.root / name).unlink()
        for top in _OURS:
            for folder, folders, files in os.walk(self.root / top, topdown=False):
                links = (each for each in folders if Path(folder, each).is_symlink())
                for path in (Path(folder, each) for each in (*files, *links)):
                    name = path.relative_to(self.root).as_posix()
                    if name not in keep:
                        path.unlink()
                        removed.append(name)
                with suppress(OSError):  # it holds something
                    Path(folder).rmdir()
        known = _paths_of(self._before)
        return [] if known is None else sorted({*removed} - known)

    def finish(self) -> None:
        """Take the workshop away: only what belongs to the bundle is left."""
        for folder in (self._work, self.root / WHEELS / FOLDER):
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name != "create.lock":
                    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        with suppress(OSError):  # it is gone already
            (self.root / WHEELS / FOLDER).rmdir()
        self._is_finished = True


def is_bundle(folder: Path) -> bool:
    """Whether it holds a bundle's manifest."""
    try:
        document = json.loads((folder / MANIFEST).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("kind") == KIND


def _paths_of(manifest: Path) -> set[str] | None:
    """What belongs to its bundle; None where that is not known."""
    try:
        before = read_manifest(manifest.read_bytes())
    except (OSError, ResumeDLError):
        return None
    return {*(each.path for each in before.packages), *(each.path for each in before.files)}


def is_bundle_tar(path: Path) -> bool:
    """Whether a file begins as a bundle's tar does: with its manifest."""
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            return first is not None and first.name == MANIFEST
    except (OSError, tarfile.TarError):
        return False

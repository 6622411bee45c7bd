"""The folder that a bundle is made in: whose it is, what is written into it, what does not belong there any more.

It counts as whole once manifest.json and SHA256SUMS are there: they are taken away before the first of its other files
changes, and written last.
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
from resume_dl.model.bundle import CHANNEL, KIND, MANIFEST, SIGNATURE, SUMS, WHEELS, BundleFile
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.platform import make_folder, replace, replace_durably
from resume_dl.store.work_folder import make_work_folder
from resume_dl.transfer.destination import check_folder

_OURS = (CHANNEL, WHEELS, "simple", "explicit", "requirements")
"""Folders of a bundle in which nothing else may be."""
_MOST_MANIFEST = 256 << 20
"""Bytes; ``bundle verify`` reads no longer one."""
_AT_WILL = ("environment.yml", "pylock.toml")
"""Files that not every bundle has."""


class BundleFolder:
    """One folder; ``working`` before anything else."""

    def __init__(self, root: Path, *, private: bool = False, option: str = "-o") -> None:
        """Raises ConfigurationError for a folder with other things in it, StoreError.

        ``private``: it is for the time of the work alone, in a folder that others may write to.
        """
        self._private = private
        self.root = check_folder(root, option)
        self._work = self.root / FOLDER
        self._mark = self._work / "bundle"
        """There as long as the bundle is unfinished: the sign that this folder is ours."""
        self._is_begun = self._is_finished = False
        self._links: list[str] = []
        """Folders that were links, and were removed."""
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
        """What is here may change from now on: the bundle that it was is whole no more.

        The folder may have come back from another machine: where one of its folders is a link, files would be written,
        and others removed, where that leads. A bundle has no links, so they are taken away.
        """
        if not self._is_begun:
            os.close(fs.create_file(self._mark))
            for link in [link for top in _OURS for link in _linked_folders(self.root / top)]:
                fs.remove(link)
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
        at_will = [name for name in _AT_WILL if name not in keep and (self.root / name).is_file()]
        for name in at_will:
            (self.root / name).unlink()
        removed = [*self._links, *at_will]
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
                    fs.remove(path)
        with suppress(OSError):  # it is gone already
            (self.root / WHEELS / FOLDER).rmdir()
        self._is_finished = True


def _linked_folders(top: Path) -> Iterator[Path]:
    """``top`` where it is a link, else the links to folders that are in it."""
    with suppress(FileNotFoundError):
        if fs.is_link(top.lstat()):
            yield top
            return
    for folder, folders, _ in os.walk(top):
        yield from (path for path in (Path(folder, each) for each in folders) if fs.is_link(path.lstat()))


def is_bundle(folder: Path) -> bool:
    """Whether it holds a bundle's manifest."""
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
    """What belongs to its bundle; None where that is not known."""
    try:
        before = read_manifest(fs.read_regular(manifest, _MOST_MANIFEST))
    except (OSError, ResumeDLError):
        return None
    return {*(each.path for each in before.packages), *(each.path for each in before.files)}


def is_bundle_tar(path: Path) -> bool:
    """Whether a file begins as a bundle's tar does: with its manifest (other programs' tars have one of that name)."""
    try:
        with tarfile.open(path, "r:") as tar:
            first = tar.next()
            content = None if first is None or first.name != MANIFEST else tar.extractfile(first)
            return content is not None and _is_manifest(content.read())
    except (OSError, tarfile.TarError):
        return False

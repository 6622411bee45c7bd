"""A disk that loses power: what of a folder is sure to be on it, at every moment of what the code does there.

    disk = Disk(root, images)
    with disk:
        ...                       # the code at work below ``root``; ``disk.look`` is called with folders, see below

Nothing is written twice: the code works on real files, and the disk keeps, for each file and folder by its inode, what
it was at its last sync: a file's bytes, a folder's names. A name that was created, renamed or removed is forgotten
unless its folder was synced since, and a file's bytes unless the file was; ``syncfs`` covers all below ``root``.

Before and after every sync, and before every rename and removal, ``look`` is called with one folder for each state that
a power cut at this moment might leave: see ``_images``. A rename is never half done: a file may have both names, not
neither.

``sites`` are the places in the code that have synced something; what one of them asks for is not done where ``without``
names it, so that a test can show what it is needed for.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import resume_dl
from resume_dl.store import platform

_PACKAGE = str(Path(resume_dl.__file__).parent)
_THROUGH = {Path("store", "platform.py"), Path("fs", "regular.py"), Path("fs", "removal.py")}
"""Where everything that syncs goes through: a site is the place that asks them."""
_MOMENTS = ("replace", "rename", "unlink", "remove", "rmdir", "mkdir", "link")

Names = dict[str, int | str]
"""A folder's names: an inode, or where a symbolic link leads to."""


@dataclass
class State:
    """Contents of files and names in folders, each by inode."""

    data: dict[int, bytes]
    names: dict[int, Names]


@final
class Disk:
    def __init__(self, root: Path, images: Path, look: Callable[[Path], object], *, without: str = "") -> None:
        self._root, self._images, self._look, self._without = root, images, look, without
        self.sites: list[str] = []
        self.has_links = True
        """Whether the file system can give a file a second name."""
        self._sure = State({}, {})
        self._held: list[int] = []
        """Handles that keep an inode's number from being given to another file."""
        self._inodes: set[int] = set()
        self._seen: set[str] = set()
        self._busy = False
        self._real: dict[tuple[Any, str], Any] = {}

    def __enter__(self) -> Disk:
        assert sys.platform == "linux"
        self._sync_all()
        for name in _MOMENTS:
            self._stand_in(os, name, self._watched(name))
        self._stand_in(os, "fsync", self._synced(self._sync_one))
        self._stand_in(os, "fdatasync", self._synced(self._sync_one))
        self._stand_in(platform, "sync_file_system", self._synced(lambda _: self._sync_all()))
        return self

    def __exit__(self, *_: object) -> None:
        for (module, name), call in self._real.items():
            setattr(module, name, call)
        for fd in self._held:
            os.close(fd)

    def cut(self) -> None:
        """Look at what a power cut at this moment might leave."""
        if self._busy:
            return
        self._busy = True
        try:
            for number, (what, tree) in enumerate(self._images_now()):
                digest = hashlib.sha256(repr(sorted(tree.items())).encode()).hexdigest()
                if digest not in self._seen:
                    image = self._images / f"{len(self._seen)}-{number}-{what}"
                    _lay(image, tree)
                    self._look(image)
                    shutil.rmtree(image)
                    self._seen.add(digest)
        finally:
            self._busy = False

    def forget_seen(self) -> None:
        """Look at states anew that were right until now: something has been promised since."""
        self._seen.clear()

    # --- the calls ---------------------------------------------------------------------------------------------------

    def _stand_in(self, module: Any, name: str, call: Callable[..., Any]) -> None:
        self._real[module, name] = getattr(module, name)
        setattr(module, name, call)

    def _watched(self, name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.cut()
            if name == "link" and not self.has_links:
                raise PermissionError(1, "Operation not permitted")
            return real(*args, **kwargs)

        return call

    def _synced(self, sync: Callable[[int], None]) -> Callable[[int], bool]:
        def call(fd: int) -> bool:
            if self._busy:
                return True
            site = _site()
            if site and site not in self.sites:
                self.sites.append(site)
            if not site or site != self._without:
                self.cut()
                sync(fd)
                self.cut()
            return True

        return call

    # --- what is sure ------------------------------------------------------------------------------------------------

    def _sync_one(self, fd: int) -> None:
        found = os.fstat(fd)
        self._hold(found.st_ino, fd)
        if stat.S_ISDIR(found.st_mode):
            self._sure.names[found.st_ino] = names = _names(fd)
            for name, inode in names.items():
                if isinstance(inode, int):
                    child = os.open(name, os.O_PATH | os.O_NOFOLLOW, dir_fd=fd)
                    if stat.S_ISDIR(os.fstat(child).st_mode):
                        self._sure.names.setdefault(inode, {})
                    self._hold(inode, child)
                    os.close(child)
        else:
            self._sure.data[found.st_ino] = _content(fd)

    def _hold(self, inode: int, fd: int) -> None:
        if inode not in self._inodes:
            self._inodes.add(inode)
            self._held.append(os.dup(fd))

    def _sync_all(self) -> None:
        for name, folders, files in os.walk(self._root):
            for path in (Path(name, each) for each in ("", *folders, *files)):
                if not path.is_symlink():
                    fd = os.open(path, os.O_RDONLY)
                    self._sync_one(fd)
                    os.close(fd)

    # --- what a cut may leave ----------------------------------------------------------------------------------------

    def _images_now(self) -> Iterator[tuple[str, dict[str, bytes | str | None]]]:
        """Trees by a word for each: path -> content, None for a folder, a text for a symbolic link.

        - least: nothing but what was synced;
        - names: every name, and of contents what was synced;
        - zeros: the same, contents filled up with zeros to their length;
        - data: every content, of names those that were synced;
        - name: of the names that were not synced one alone;
        - content: every name, and of the contents that were not synced one alone;
        - all: what a killed process leaves.
        """
        root, now, sure = self._root.stat().st_ino, self._now(), self._sure
        for folder in now.names:
            sure.names.setdefault(folder, {})
        yield "least", _tree(root, sure.names, sure.data)
        yield "names", _tree(root, now.names, sure.data)
        lengths = {inode: sure.data.get(inode, b"").ljust(len(data), b"\0") for inode, data in now.data.items()}
        yield "zeros", _tree(root, now.names, {**sure.data, **lengths})
        yield "data", _tree(root, sure.names, {**sure.data, **now.data})
        for folder, names in now.names.items():
            before = sure.names.get(folder, {})
            for name in {*names, *before}:
                if names.get(name) != before.get(name):
                    one = dict(before)
                    if name in names:
                        one[name] = names[name]
                    elif any(before[name] in each.values() for each in now.names.values()):
                        continue  # a rename is not half done
                    else:
                        del one[name]
                    yield "name", _tree(root, {**sure.names, folder: one}, sure.data)
        for inode, data in now.data.items():
            if sure.data.get(inode) != data:
                yield "content", _tree(root, now.names, {**sure.data, inode: data})
        yield "all", _tree(root, now.names, now.data)

    def _now(self) -> State:
        state = State({}, {})
        for name, _, files in os.walk(self._root):
            fd = os.open(name, os.O_RDONLY)
            state.names[os.fstat(fd).st_ino] = _names(fd)
            os.close(fd)
            for path in (Path(name, each) for each in files):
                if not path.is_symlink():
                    fd = os.open(path, os.O_RDONLY)
                    state.data[os.fstat(fd).st_ino] = _content(fd)
                    os.close(fd)
        return state


def _names(fd: int) -> Names:
    with os.scandir(fd) as entries:
        return {each.name: os.readlink(each.name, dir_fd=fd) if each.is_symlink() else each.inode() for each in entries}


def _content(fd: int) -> bytes:
    return Path(f"/proc/self/fd/{fd}").read_bytes()


def _tree(folder: int, names: dict[int, Names], data: dict[int, bytes]) -> dict[str, bytes | str | None]:
    tree: dict[str, bytes | str | None] = {}

    def walk(inode: int, path: str) -> None:
        for name, each in names.get(inode, {}).items():
            place = f"{path}{name}"
            if isinstance(each, str):
                tree[place] = each
            elif each in names:
                tree[place] = None
                walk(each, f"{place}/")
            else:
                tree[place] = data.get(each, b"")

    walk(folder, "")
    return tree


def _lay(image: Path, tree: dict[str, bytes | str | None]) -> None:
    image.mkdir(parents=True)
    for name, content in tree.items():  # a folder comes before what is in it
        if content is None:
            (image / name).mkdir()
        elif isinstance(content, str):
            (image / name).symlink_to(content)
        else:
            (image / name).write_bytes(content)


def _site() -> str:
    """The place in the package that asks for a sync, through ``_THROUGH``; empty where a test asks."""
    through = []
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            name = os.path.relpath(code.co_filename, _PACKAGE)
            through.append(f"{name}:{frame.f_lineno} {code.co_name}")
            if Path(name) not in _THROUGH:
                return " < ".join(through)
        frame = frame.f_back
    return ""

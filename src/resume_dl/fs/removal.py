"""Removal of files and trees, without following links."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from resume_dl.fs.system import BY_FD, FOLDER, WINDOWS, Place, extended, flags_of, is_link

_DEEPEST = 64
"""Most folders open at once while a tree is removed; deeper ones are moved up first."""


def remove(path: Place) -> None:
    """Remove a file, a link, or a folder and its contents, read-only ones too; do nothing if it is missing.

    No link is followed, and only modes of the tree's own folders are changed. What cannot be removed is skipped; the
    first such OSError is raised at the end.
    """
    removal = _Removal()
    if BY_FD:
        removal.entry(os.fspath(path), None, 0)
    else:
        removal.by_path(_whole(os.fspath(path)))
    if removal.errors:
        raise removal.errors[0]


def _whole(path: str) -> str:
    """On Windows in the form that reaches names of any length and form; ``abspath`` takes trailing dots away."""
    if WINDOWS:
        return extended(path if os.path.isabs(path) else os.path.abspath(path), always=True)
    return path


class _Removal:
    def __init__(self) -> None:
        self.errors: list[OSError] = []
        self._top = -1
        """Descriptor of the folder being removed."""
        self._moved: list[str] = []
        """Names in ``_top`` of folders moved up from deep in the tree."""

    def entry(self, name: str, dir_fd: int | None, depth: int) -> None:
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=dir_fd)
                return
            with suppress(OSError):  # usually: it is not empty
                os.rmdir(name, dir_fd=dir_fd)
                return
            fd = _open_folder(name, dir_fd)
            try:
                if depth > _DEEPEST:
                    moved = f".removed-{os.urandom(8).hex()}"
                    os.rename(name, moved, src_dir_fd=dir_fd, dst_dir_fd=self._top)
                    self._moved.append(moved)
                    return
                self._empty(fd, depth)
            finally:
                os.close(fd)
            os.rmdir(name, dir_fd=dir_fd)
        except FileNotFoundError:
            pass  # another process has removed it
        except OSError as error:
            self.errors.append(error)

    def _empty(self, fd: int, depth: int) -> None:
        if depth == 0:
            self._top = fd
        with os.scandir(fd) as entries:
            names = [each.name for each in entries]
        for name in names:
            self.entry(name, fd, depth + 1)
        while depth == 0 and self._moved:
            self.entry(self._moved.pop(), fd, 1)

    def by_path(self, path: str) -> None:
        """Remove by path, each name checked before use, where the system has no calls relative to a descriptor."""
        try:
            found = os.lstat(path)
            is_folder = stat.S_ISDIR(found.st_mode) and not is_link(found)
            if is_folder:
                with os.scandir(path) as entries:
                    names = [each.path for each in entries]
                for name in names:
                    self.by_path(name)
            if WINDOWS and not is_link(found) and not found.st_mode & stat.S_IWRITE:
                os.chmod(path, stat.S_IWRITE)  # Windows removes nothing that is read-only
            (os.rmdir if is_folder else os.unlink)(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            self.errors.append(error)


def _open_folder(name: str, dir_fd: int | None) -> int:
    """Open a folder to be emptied; if it is ours, make it readable and writable first."""
    try:
        fd = os.open(name, FOLDER, dir_fd=dir_fd)
    except PermissionError:
        _permit(name, dir_fd)
        fd = os.open(name, FOLDER, dir_fd=dir_fd)
    found = os.fstat(fd)
    if found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(OSError):  # another user's: removed as far as possible
            os.fchmod(fd, stat.S_IRWXU)
    return fd


def _permit(name: str, dir_fd: int | None) -> None:
    """Make an unreadable folder readable, never the target of a link. Raises OSError."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, stat.S_IRWXU, dir_fd=dir_fd, follow_symlinks=False)
        return
    fd = os.open(name, flags_of("O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"), dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)  # Linux: that link is the descriptor itself
    finally:
        os.close(fd)

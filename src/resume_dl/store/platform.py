"""Positioned writes, syncs and durable renames on POSIX and Windows; no other module of the store differs by system.

The Windows side follows the documentation of the calls named below; its tests ran under Wine (docs/windows.md).
"""

from __future__ import annotations

import errno
import os
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.fs import folder_move

replace = fs.replace
"""The one rename; see there."""

_TO_SYNC = (
    (os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)  # FlushFileBuffers wants a handle that may write
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO in a package would block
)


class PositionedFile:
    """A file to which several threads write, each at its own position.

    POSIX has ``pwrite``; Windows does not, so there a lock covers seek and write.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self._fd = fs.open_regular(path, os.O_RDWR | (os.O_CREAT if create else 0))
        self._lock = threading.Lock()

    def write_at(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``. Raises OSError."""
        view = memoryview(data)
        while view:
            if sys.platform == "win32":
                with self._lock:
                    os.lseek(self._fd, offset, os.SEEK_SET)
                    count = os.write(self._fd, view)
            else:
                count = os.pwrite(self._fd, view, offset)
            offset += count
            view = view[count:]

    def read_at(self, offset: int, count: int) -> bytes:
        """Read ``count`` bytes from ``offset``; fewer only at the end of the file."""
        if sys.platform == "win32":
            with self._lock:
                os.lseek(self._fd, offset, os.SEEK_SET)
                return os.read(self._fd, count)
        return os.pread(self._fd, count, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from ``offset``, releasing the GIL; returns the bytes read, fewer only at the file's end."""
        if hasattr(os, "preadv"):  # Linux, the BSDs, macOS 11
            return os.preadv(self._fd, [buffer], offset)
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def reserve(self, size: int) -> None:
        """Set the file's length to ``size`` bytes, without allocating holes."""
        if sys.platform == "win32":
            _set_sparse(self._fd)
        os.ftruncate(self._fd, size)

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self._fd).st_size

    @property
    def links(self) -> int:
        """The number of hard links to the file."""
        return os.fstat(self._fd).st_nlink

    def sync(self) -> None:
        """Wait until the data is on the disk."""
        sync_fd(self._fd)

    def close(self) -> None:
        """Close the handle; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def sync_fd(fd: int) -> None:
    """Wait until a file's data is on the disk: F_FULLFSYNC on macOS, where fsync stops at the drive's cache."""
    if _flush_drive(fd):
        return
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_file(path: Path) -> None:
    """Sync a file that was written and closed, by ``sync_fd``. Raises OSError."""
    fd = os.open(path, _TO_SYNC)
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def sync_directory(path: Path) -> None:
    """Make names created in or renamed into ``path`` durable; does nothing on Windows, which has no such call."""
    if sys.platform == "win32":
        return
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP, errno.EBADF}:  # some network file systems
            raise
    finally:
        os.close(fd)


def sync_trees(folders: Sequence[Path]) -> None:
    """Wait until all files and names below these folders, all on one file system, are on the disk. Raises OSError.

    Linux has one call for a whole file system (``syncfs``). ``sync`` would wait for all others too, for example a hung
    network drive. On other systems each file is synced.
    """
    if not folders:
        return
    fd = os.open(folders[0], os.O_RDONLY) if sys.platform != "win32" else -1
    try:
        if fd >= 0 and sync_file_system(fd):
            return
        for folder in folders:
            _sync_tree(folder)
        if fd >= 0:
            _flush_drive(fd)
    finally:
        if fd >= 0:
            os.close(fd)


def sync_file_system(fd: int) -> bool:
    """Sync the file system of an open file or folder by ``syncfs``; False if there is no such call.

    Raises OSError if the disk has failed.
    """
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):  # a C library without it
        return False
    if syncfs(fd) == 0:
        return True
    number = ctypes.get_errno()
    if number in {errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.ENOTSUP}:  # old kernels, sandboxes
        return False
    raise OSError(number, os.strerror(number))


def move_folder(source: Path, destination: Path, *, last: Sequence[str]) -> None:
    """``folder_move.move_folder`` of a folder that is on the disk; it is there at its new name too. Raises OSError."""
    if folder_move.move_folder(source, destination, last=last):
        sync_trees([destination])


def replace_durably(source: Path, destination: Path) -> None:
    """Sync a written file, rename it over ``destination``, sync that folder.

    After a power cut at any moment, ``destination`` is either the old file or the whole new one; once this has
    returned, the new one. Raises OSError.
    """
    sync_file(source)
    rename_durably(source, destination)


def rename_durably(source: Path, destination: Path) -> None:
    """Rename a synced file over ``destination`` and sync that folder. Raises OSError."""
    replace(source, destination)
    sync_directory(destination.parent)


def write_durably(path: Path, data: bytes, *, temporary: Path | None = None) -> None:
    """Replace ``path`` by a file with ``data``, by ``replace_durably``; its folder must exist.

    The file is written at ``temporary`` first; default: a unique name next to ``path``. Raises OSError; then the
    temporary file is removed.
    """
    if temporary is None:
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        fs.write_file(temporary, data)
        replace_durably(temporary, path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def remove_durably(path: Path) -> None:
    """Remove a file, if it exists, so that a power cut cannot bring it back. Raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    sync_directory(path.parent)


def _make_with_parents(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def make_folder(path: Path, make: Callable[[Path], object] = _make_with_parents) -> None:
    """Make a folder and its parents durably, so that a power cut does not lose it with files synced in it.

    ``make`` makes it, or accepts an existing one. Raises OSError, and what ``make`` raises.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    make(path)
    for folder in missing:
        with suppress(PermissionError):  # a folder that is writable but not readable
            sync_directory(folder.parent)


def _sync_tree(folder: Path) -> None:
    """Call ``fsync`` for ``folder`` and everything below it; on macOS that reaches only the drive's cache."""
    for name, _, names in os.walk(folder):
        for path in (Path(name, each) for each in names):
            if not path.is_symlink():
                with suppress(PermissionError):  # Windows: read-only; elsewhere: not readable
                    fd = os.open(path, _TO_SYNC)
                    try:
                        os.fsync(fd)
                    finally:
                        os.close(fd)
        sync_directory(Path(name))


def _flush_drive(fd: int) -> bool:
    """Call macOS's F_FULLFSYNC, which flushes the drive's own cache too; False if there is no such call."""
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return True
    return False


def _set_sparse(fd: int) -> None:
    """Make the file sparse, else Windows fills holes with zeros. A refusal (FAT, network) is ignored."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        fsctl_set_sparse = 0x000900C4
        handle, returned = ctypes.c_void_p(msvcrt.get_osfhandle(fd)), ctypes.c_ulong(0)
        ctypes.windll.kernel32.DeviceIoControl(handle, fsctl_set_sparse, None, 0, None, 0, ctypes.byref(returned), None)

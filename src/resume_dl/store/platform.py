"""What differs between POSIX and Windows when bytes have to stay where they were put; nothing else may.

Reasoned from the documentation of the Windows calls named below; only the POSIX side ran in tests.
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

replace = fs.replace
"""The one rename; see there."""

_TO_SYNC = (
    (os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)  # FlushFileBuffers wants a handle that may write
    | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # a FIFO that a package brought would be waited for
)


class PositionedFile:
    """A file that several threads write at positions of their own.

    POSIX has ``pwrite``; Windows has not, so there a lock joins seek and write.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self._fd = fs.open_regular(path, os.O_RDWR | (os.O_CREAT if create else 0))
        self._lock = threading.Lock()

    def write_at(self, offset: int, data: bytes | memoryview) -> None:
        """Write all of ``data`` at ``offset``; raises OSError."""
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
        """At most ``count`` bytes from ``offset``; fewer only at the end of the file."""
        if sys.platform == "win32":
            with self._lock:
                os.lseek(self._fd, offset, os.SEEK_SET)
                return os.read(self._fd, count)
        return os.pread(self._fd, count, offset)

    def read_into(self, buffer: memoryview, offset: int) -> int:
        """Fill ``buffer`` from ``offset`` on, without the interpreter's lock; how many bytes, fewer only at the end."""
        if hasattr(os, "preadv"):  # Linux, the BSDs, macOS 11
            return os.preadv(self._fd, [buffer], offset)
        data = self.read_at(offset, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def reserve(self, size: int) -> None:
        """Make the file ``size`` bytes long, without holes filled."""
        if sys.platform == "win32":
            _set_sparse(self._fd)
        os.ftruncate(self._fd, size)

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return os.fstat(self._fd).st_size

    @property
    def links(self) -> int:
        """How many names the file has."""
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
    """``sync_fd`` for a file that was written and closed. Raises OSError."""
    fd = os.open(path, _TO_SYNC)
    try:
        sync_fd(fd)
    finally:
        os.close(fd)


def sync_directory(path: Path) -> None:
    """Make names that were created in or renamed into ``path`` survive a power cut; Windows has no such call."""
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
    """Wait until all files and names below these folders, of one file system, are on the disk. Raises OSError.

    Linux has one call for all of them, which asks that file system alone: ``sync`` would wait for every other one too,
    a hung network drive for example. Elsewhere each file is synced.
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
    """``syncfs`` of the file system that an open file or folder is on; False where there is no such call.

    Raises OSError where the disk has failed.
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
    """``fs.move_folder`` of a folder that is on the disk; it is there at its new name too. Raises OSError."""
    if fs.move_folder(source, destination, last=last):
        sync_trees([destination])


def replace_durably(source: Path, destination: Path) -> None:
    """Sync a written file, rename it over ``destination``, sync that folder.

    Whenever the power goes, ``destination`` is what it was before or the whole new file; the new one for good once this
    has returned. Raises OSError.
    """
    sync_file(source)
    rename_durably(source, destination)


def rename_durably(source: Path, destination: Path) -> None:
    """Rename a synced file over ``destination`` and sync that folder; raises OSError."""
    replace(source, destination)
    sync_directory(destination.parent)


def write_durably(path: Path, data: bytes, *, temporary: Path | None = None) -> None:
    """Replace ``path`` by a file with ``data``, by ``replace_durably``; its folder exists.

    It is written under the name ``temporary``, else beside ``path`` under a name that no other process takes. Raises
    OSError; then nothing is left of it.
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
    """Remove a file, if it is there, so that no power cut brings it back; raises OSError."""
    try:
        path.unlink()
    except FileNotFoundError:
        return
    sync_directory(path.parent)


def _make_with_parents(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)


def make_folder(path: Path, make: Callable[[Path], object] = _make_with_parents) -> None:
    """Make a folder, its parents too, so that a power cut does not take it away with what was synced in it.

    ``make`` makes it, or finds it to be there. Raises OSError, and what ``make`` raises.
    """
    missing = []
    for folder in (path, *path.parents):
        if folder.is_dir():
            break
        missing.append(folder)
    make(path)
    for folder in missing:
        with suppress(PermissionError):  # a folder that may be written and not be read
            sync_directory(folder.parent)


def _sync_tree(folder: Path) -> None:
    """``fsync`` for each file and folder below ``folder``, and for itself: what stops at the drive's cache on macOS."""
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
    """F_FULLFSYNC of macOS, which empties the drive's own cache too; False where there is none."""
    if sys.platform == "darwin":
        import fcntl

        with suppress(OSError):
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
            return True
    return False


def _set_sparse(fd: int) -> None:
    """FSCTL_SET_SPARSE, else Windows fills a hole with zeros on the disk; a refusal (FAT, network) is no error."""
    if sys.platform == "win32":
        import ctypes
        import msvcrt

        fsctl_set_sparse = 0x000900C4
        handle, returned = ctypes.c_void_p(msvcrt.get_osfhandle(fd)), ctypes.c_ulong(0)
        ctypes.windll.kernel32.DeviceIoControl(handle, fsctl_set_sparse, None, 0, None, 0, ctypes.byref(returned), None)

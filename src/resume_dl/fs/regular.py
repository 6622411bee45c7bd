"""Regular files: opened, read, written and replaced without following a link."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import Iterator, NamedTuple

from resume_dl.fs.busy_names import replace
from resume_dl.fs.system import BY_FD, FOLDER, WINDOWS, Place, flags_of, is_link, native

_AT_ONCE = 64 << 10
_FILE = flags_of("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")
"""Non-blocking: opening a FIFO would wait for its other end."""


def is_regular(path: Place, size: int | None = None) -> bool:
    """Whether ``path`` is a regular file, of this size if one is given, and not a link."""
    try:
        found = os.lstat(native(path))
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and not is_link(found) and size in (None, found.st_size)


def open_regular(path: Place, flags: int = os.O_RDONLY, mode: int = 0o666, *, dir_fd: int | None = None) -> int:
    """Open a regular file that is not a link, as ``os.open`` does. Raises OSError.

    ``O_TRUNC`` takes effect only after the file was checked.
    """
    path = native(path)
    with suppress(FileNotFoundError):
        # before opening: opening some devices has side effects
        _check_regular(path, os.stat(path, dir_fd=dir_fd, follow_symlinks=False))
    try:
        fd = os.open(path, (flags & ~os.O_TRUNC) | _FILE, mode, dir_fd=dir_fd)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK):  # EMLINK: FreeBSD's answer to O_NOFOLLOW
            raise _refused(path, "is a link, which is not followed", errno.ELOOP) from error
        raise
    try:
        found = os.fstat(fd)
        _check_regular(path, found)
        if WINDOWS:
            _check_regular(path, os.lstat(path))
        if flags & os.O_TRUNC:
            os.ftruncate(fd, 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_regular(path: Place, limit: int, *, dir_fd: int | None = None) -> bytes:
    """Read a regular file of at most ``limit`` bytes that is not a link. Raises OSError."""
    fd = open_regular(path, dir_fd=dir_fd)
    try:  # no file object: it costs more than the read, and the conda plugin reads hundreds of small files
        parts: list[bytes] = []
        length = 0
        while length <= limit:
            part = os.read(fd, _AT_ONCE)
            if not part:
                return b"".join(parts)
            parts.append(part)
            length += len(part)
    finally:
        os.close(fd)
    raise _refused(path, f"is longer than {limit:,} bytes", errno.EFBIG)


def create_file(path: Place, *, dir_fd: int | None = None) -> int:
    """Create a file, replacing one of that name, and return its descriptor. Raises OSError.

    A link is removed, not its target. Raises FileExistsError if another process makes the file first.
    """
    with suppress(FileNotFoundError):
        os.unlink(native(path), dir_fd=dir_fd)
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=dir_fd)


def write_file(path: Place, data: bytes, *, sync: bool = False) -> None:
    """Write a file, replacing one of that name; ``sync`` flushes it to the disk. Raises OSError."""
    with open(create_file(path), "wb") as file:
        _put(file.fileno(), data, sync=sync)


def read_below(folder: Place, *parts: str, limit: int) -> bytes:
    """Read ``folder/parts`` as ``read_regular`` does; neither ``folder`` nor a folder in it may be a link."""
    with _folder(folder, parts[:-1]) as place:
        return read_regular(place.name(parts[-1]), limit, dir_fd=place.fd)


def replace_below(folder: Place, *parts: str, data: bytes, sync: bool, mode: int | None = None) -> None:
    """Replace ``folder/parts`` atomically; neither ``folder`` nor a folder in it may be a link.

    A link of that name is replaced, not its target. With ``sync`` the new file survives a power cut.
    ``mode``: its permissions from the first byte on (POSIX); default: those of a new file.
    Raises OSError.
    """
    with _folder(folder, parts[:-1]) as place:
        new = place.name(f".{parts[-1]}.{os.urandom(8).hex()}")
        first = 0o666 if mode is None else 0o600
        fd = open_regular(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first, dir_fd=place.fd)
        try:
            try:
                if mode is not None and not WINDOWS:
                    os.fchmod(fd, mode)
                _put(fd, data, sync=sync)
            finally:
                os.close(fd)
            replace(new, place.name(parts[-1]), dir_fd=place.fd)
            if sync and place.fd is not None:
                os.fsync(place.fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(new, dir_fd=place.fd)
            raise


class _Opened(NamedTuple):
    """A folder by its descriptor, or by its path where the system has no calls relative to a descriptor."""

    fd: int | None
    path: str

    def name(self, name: str) -> str:
        return name if self.fd is not None else os.fspath(native(os.path.join(self.path, name)))


@contextmanager
def _folder(folder: Place, parts: tuple[str, ...]) -> Iterator[_Opened]:
    path = os.fspath(folder)
    if not BY_FD:
        for part in ("", *parts):
            path = os.fspath(native(os.path.join(path, part) if part else path))
            _check_folder(path, os.lstat(path))
        yield _Opened(None, path)
        return
    fd = os.open(path, FOLDER)
    try:
        for part in parts:
            inner = os.open(part, FOLDER, dir_fd=fd)
            os.close(fd)
            fd = inner
        yield _Opened(fd, path)
    finally:
        os.close(fd)


def _put(fd: int, data: bytes, *, sync: bool) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    if sync:
        os.fsync(fd)


def _check_regular(path: Place, found: os.stat_result) -> None:
    if is_link(found):
        raise _refused(path, "is a link, which is not followed", errno.ELOOP)
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "is not a regular file", errno.EINVAL)


def _check_folder(path: Place, found: os.stat_result) -> None:
    if is_link(found) or not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "is not a folder", errno.ENOTDIR)


def _refused(path: Place, why: str, number: int) -> OSError:
    return OSError(number, why, os.fspath(path))

# ruff: noqa: FA100 - as in all scripts of a bundle: see this package's docstring
"""Files and folders that other users may have made: opened, read, written and removed without following a link.

The one place for it, for resume-dl and for the scripts of a bundle: Python 3.8, the standard library. POSIX has
``O_NOFOLLOW`` and calls relative to an open folder, which leave no time to put a link in place of what was looked
at. Windows has neither: there each name is looked at before it is used, and a link or junction is a reparse point whose
tag is a name surrogate. Making links takes a privilege there, junctions do not; that gap is known.
"""

import errno
import os
import stat
import sys
from contextlib import contextmanager, suppress
from typing import Iterator, List, NamedTuple, Optional, Union

_Place = Union[str, "os.PathLike[str]"]

WINDOWS = sys.platform == "win32"
_BY_FD = not WINDOWS and {os.open, os.stat, os.unlink, os.rmdir, os.rename} <= os.supports_dir_fd
_SURROGATE = 0x20000000
"""Of a reparse tag: the name stands for another one. Files in a cloud or deduplicated ones lack it."""
_AT_ONCE = 64 << 10
_DEEPEST = 64
"""Folders open at once while a tree is removed; what lies deeper is first moved up."""


def _flags(*names: str) -> int:
    return sum(getattr(os, name, 0) for name in names)


_FILE = _flags("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")
"""Non-blocking: to open a FIFO would wait for its other end."""
_FOLDER = _flags("O_RDONLY", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")


class UntrustedFolderError(OSError):
    """A folder that must be private to this user is a link, another user's, or writable by others."""

    def __init__(self, folder: _Place, why: str, hint: str) -> None:
        super().__init__(errno.EPERM, why, os.fspath(folder))
        self.folder = os.fspath(folder)
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.folder} {self.why}"


def is_link(found: os.stat_result) -> bool:
    """Whether what ``lstat`` returned is a symbolic link, or a junction of Windows."""
    return stat.S_ISLNK(found.st_mode) or bool(getattr(found, "st_reparse_tag", 0) & _SURROGATE)


def is_regular(path: _Place, size: Optional[int] = None) -> bool:
    """Whether there is a regular file of this size, and not a link to one."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISREG(found.st_mode) and not is_link(found) and size in (None, found.st_size)


def is_others_link(path: _Place) -> bool:
    """Whether ``path`` is a link that neither this user or root made nor the owner of its folder, as in ``/tmp``.

    The rule of Linux's ``protected_symlinks``, which holds for the kernel's own following of a link alone.
    """
    try:
        found = os.lstat(path)
        owner = os.stat(os.path.dirname(os.path.abspath(path))).st_uid
    except (OSError, ValueError):
        return False
    return not WINDOWS and is_link(found) and found.st_uid not in (os.geteuid(), owner, 0)


def others_link_on(path: _Place) -> Optional[str]:
    """The first link on the way to ``path``, itself included, that ``is_others_link``; None where there is none."""
    place, found = os.path.abspath(os.fspath(path)), None
    while place != os.path.dirname(place):
        if is_others_link(place):
            found = place
        place = os.path.dirname(place)
    return found


# ---------------------------------------------------------------------------------------------------------------------
# Files


def open_regular(path: _Place, flags: int = os.O_RDONLY, mode: int = 0o666, *, dir_fd: Optional[int] = None) -> int:
    """``os.open`` for a regular file that is not a link, made where ``flags`` say so. Raises OSError.

    ``O_TRUNC`` takes effect only once the file is known to be one.
    """
    with suppress(FileNotFoundError):
        # before it is opened: to open some devices does something
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


def read_regular(path: _Place, limit: int, *, dir_fd: Optional[int] = None) -> bytes:
    """The whole content of a regular file of at most ``limit`` bytes that is not a link. Raises OSError."""
    fd = open_regular(path, dir_fd=dir_fd)
    try:  # without a file object, which costs more than the reading: the conda plugin reads hundreds of small ones
        parts: List[bytes] = []
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


def create_file(path: _Place, *, dir_fd: Optional[int] = None) -> int:
    """A descriptor to write a new file by; what has its name now is removed first. Raises OSError.

    A link goes, and what it leads to stays. Raises FileExistsError where another process is as quick.
    """
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=dir_fd)
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, dir_fd=dir_fd)


def write_file(path: _Place, data: bytes, *, sync: bool = False) -> None:
    """Write a new file in place of what has its name; with ``sync`` its data is on the disk then. Raises OSError."""
    with open(create_file(path), "wb") as file:
        _put(file.fileno(), data, sync=sync)


def read_below(folder: _Place, *parts: str, limit: int) -> bytes:
    """``read_regular`` of ``folder/parts``, where neither ``folder`` nor a folder in it may be a link."""
    with _folder(folder, parts[:-1]) as place:
        return read_regular(place.name(parts[-1]), limit, dir_fd=place.fd)


def replace_below(folder: _Place, *parts: str, data: bytes, sync: bool, mode: Optional[int] = None) -> None:
    """Write ``folder/parts`` whole or not at all; neither ``folder`` nor a folder in it may be a link.

    A link of that name is replaced, and what it leads to stays. With ``sync`` no power cut brings the old file back.
    ``mode``: the permissions it has from its first byte on, where the system has any; else those of a new file.
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
            os.replace(new, place.name(parts[-1]), src_dir_fd=place.fd, dst_dir_fd=place.fd)
            if sync and place.fd is not None:
                os.fsync(place.fd)
        except BaseException:
            with suppress(OSError):
                os.unlink(new, dir_fd=place.fd)
            raise


class _Opened(NamedTuple):
    """A folder by its descriptor, or, where the system has no calls relative to one, by its path."""

    fd: Optional[int]
    path: str

    def name(self, name: str) -> str:
        return name if self.fd is not None else os.path.join(self.path, name)  # a text is needed


@contextmanager
def _folder(folder: _Place, parts: "tuple[str, ...]") -> Iterator[_Opened]:
    path = os.fspath(folder)
    if not _BY_FD:
        for part in ("", *parts):
            path = os.path.join(path, part) if part else path
            _check_folder(path, os.lstat(path))
        yield _Opened(None, path)
        return
    fd = os.open(path, _FOLDER)
    try:
        for part in parts:
            inner = os.open(part, _FOLDER, dir_fd=fd)
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


def _check_regular(path: _Place, found: os.stat_result) -> None:
    if is_link(found):
        raise _refused(path, "is a link, which is not followed", errno.ELOOP)
    if not stat.S_ISREG(found.st_mode):
        raise _refused(path, "is not a regular file", errno.EINVAL)


def _check_folder(path: _Place, found: os.stat_result) -> None:
    if is_link(found) or not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "is not a folder", errno.ENOTDIR)


def _refused(path: _Place, why: str, number: int) -> OSError:
    return OSError(number, why, os.fspath(path))


# ---------------------------------------------------------------------------------------------------------------------
# Folders of ours in folders of others


def make_private(folder: _Place) -> None:
    """Make a folder for this user alone (0700), and what lies above it; one that is there has to be such a folder.

    Where the folder above is shared by a group (setgid, writable by it, not by others), it is shared too (2770).
    Raises UntrustedFolderError or OSError.
    """
    path = os.fspath(folder)
    parent = os.path.dirname(os.path.abspath(path))  # links above it are followed
    try:
        is_shared = not WINDOWS and _is_shared(os.stat(parent))
        os.mkdir(path, 0o770 if is_shared else 0o700)
    except FileNotFoundError:
        os.makedirs(parent, exist_ok=True)
        return make_private(path)
    except FileExistsError:
        return check_private(path)
    if is_shared:  # whatever the umask took away
        fd = os.open(path, _FOLDER)
        try:
            with suppress(OSError):  # some file systems have modes of their own
                os.fchmod(fd, 0o2770)
        finally:
            os.close(fd)
    return check_private(path)


def check_private(folder: _Place, *, alone: bool = False) -> None:
    """Raise UntrustedFolderError unless only this user, root or the group that shares the place can write here.

    With ``alone`` it must be this user's, writable by no group, wherever it lies. Root may also use what belongs to the
    owner of the folder above, where root was told to work. What a folder that is made beside it now looks like, it may
    look like too: FAT, some network shares and the disks of virtual machines have one owner and one mode for all.
    Raises FileNotFoundError where it is not there, or another OSError.
    """
    found = os.lstat(folder)
    if is_link(found):
        why = "is a link: what is written into it would be written where the link leads"
        raise UntrustedFolderError(folder, why, "remove this link, or choose another folder")
    if not stat.S_ISDIR(found.st_mode):
        raise UntrustedFolderError(folder, "is not a folder", "move it away, or choose another folder")
    if WINDOWS:
        return
    parent = os.path.dirname(os.path.abspath(os.fspath(folder)))
    above = os.stat(parent)
    if not alone and _is_shared(above) and found.st_gid == above.st_gid and not found.st_mode & stat.S_IWOTH:
        return
    user = os.geteuid()
    own = {user} if alone else {user, 0} if user else {0, above.st_uid}
    if found.st_uid not in own:
        why = f"belongs to another user, {_user(found.st_uid)}, who can put links and other files into it"
        hint = "remove it, or choose another folder (a group can share one: chmod g+ws on the folder above it)"
    elif found.st_mode & stat.S_IWOTH:
        why = "can be written to by every user of this machine, who can put links and other files into it"
        hint = "remove it, and it is made anew for you alone; or choose another folder"
    elif found.st_mode & stat.S_IWGRP and (alone or not _is_own_group(found, above)):
        why = f"can be written to by group {found.st_gid}, which can put links and other files into it"
        hint = "remove it, and it is made anew for you alone (a group can share one: chmod g+ws on the folder above it)"
    else:
        return
    if not _looks_as_all_do(parent, found):
        raise UntrustedFolderError(folder, why, hint)


def owner_of_unshared(path: _Place) -> Optional[str]:
    """The owner of another user's file that lies in a folder shared by a group, and that the group may not write.

    So are files made under umask 022. None for any other file.
    """
    try:
        found = os.lstat(path)
        above = os.stat(os.path.dirname(os.path.abspath(os.fspath(path))))
    except (OSError, ValueError):
        return None
    if WINDOWS or not stat.S_ISREG(found.st_mode) or not _is_shared(above):
        return None
    return None if found.st_uid == os.geteuid() or found.st_mode & stat.S_IWGRP else _user(found.st_uid)


def _is_shared(above: os.stat_result) -> bool:
    """Whether a folder is arranged for a group: what is made in it belongs to the group, which may write here."""
    mode = above.st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP and not mode & stat.S_IWOTH)


def _is_own_group(found: os.stat_result, above: os.stat_result) -> bool:
    """Whether its group can write into the folder above too, or has this user alone (as each user has on Debian)."""
    if found.st_gid == above.st_gid and above.st_mode & stat.S_IWGRP and not above.st_mode & stat.S_IWOTH:
        return True
    if sys.platform == "win32":
        return True
    import grp  # noqa: PLC0415 - POSIX alone has them
    import pwd  # noqa: PLC0415

    try:
        user, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return user.pw_gid == found.st_gid and user.pw_name == group.gr_name and not {*group.gr_mem} - {user.pw_name}


def _looks_as_all_do(parent: str, found: os.stat_result) -> bool:
    place = os.path.join(parent, f".resume-dl-{os.urandom(8).hex()}")
    try:
        os.mkdir(place, 0o700)
        made = os.lstat(place)
        os.rmdir(place)
    except OSError:
        return False
    return (made.st_uid, made.st_mode & 0o777) == (found.st_uid, found.st_mode & 0o777)


def _user(number: int) -> str:
    if sys.platform != "win32":
        import pwd  # noqa: PLC0415 - POSIX alone has it

        with suppress(KeyError):
            return pwd.getpwuid(number).pw_name
    return str(number)


# ---------------------------------------------------------------------------------------------------------------------
# Removal


def remove(path: _Place) -> None:
    """Remove a file, a link, or a folder with all that is in it, read-only ones too; nothing if it is not there.

    No link is followed, and no mode of anything but a folder of the tree itself is changed. What cannot be removed is
    passed over, and the first such OSError is raised at the end.
    """
    removal = _Removal()
    if _BY_FD:
        removal.entry(os.fspath(path), None, 0)
    else:
        removal.by_path(os.fspath(path))
    if removal.errors:
        raise removal.errors[0]


class _Removal:
    def __init__(self) -> None:
        self.errors: List[OSError] = []
        self._top = -1
        """The folder that is removed, open."""
        self._moved: List[str] = []
        """Folders from deep in the tree, in ``_top`` under names of their own."""

    def entry(self, name: str, dir_fd: Optional[int], depth: int) -> None:
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=dir_fd)
                return
            with suppress(OSError):  # it is not empty, mostly
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
            pass  # another process removes it too
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
        """Where a folder cannot be named by its descriptor: each name is looked at before it is used."""
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


def _open_folder(name: str, dir_fd: Optional[int]) -> int:
    """Open a folder that is to be emptied; if it is ours and has not the mode for that, it gets it."""
    try:
        fd = os.open(name, _FOLDER, dir_fd=dir_fd)
    except PermissionError:
        _permit(name, dir_fd)
        fd = os.open(name, _FOLDER, dir_fd=dir_fd)
    found = os.fstat(fd)
    if found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with suppress(OSError):  # another user's: what can be removed of it will be
            os.fchmod(fd, stat.S_IRWXU)
    return fd


def _permit(name: str, dir_fd: Optional[int]) -> None:
    """Make a folder that cannot be opened readable, and never what a link leads to. Raises OSError."""
    if os.chmod in os.supports_follow_symlinks:
        os.chmod(name, stat.S_IRWXU, dir_fd=dir_fd, follow_symlinks=False)
        return
    fd = os.open(name, _flags("O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"), dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IRWXU)  # Linux: that link is the descriptor itself
    finally:
        os.close(fd)

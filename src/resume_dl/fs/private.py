"""Private folders inside shared ones: for this user only, or for the group that shares the parent."""

from __future__ import annotations

import errno
import os
import stat
import sys
from contextlib import suppress

from resume_dl.fs.system import FOLDER, WINDOWS, Place, is_link, native


class UntrustedFolderError(OSError):
    """A folder that must be private to this user is a link, another user's, or writable by others."""

    def __init__(self, folder: Place, why: str, hint: str) -> None:
        super().__init__(errno.EPERM, why, os.fspath(folder))
        self.folder = os.fspath(folder)
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.folder} {self.why}"


def make_private(folder: Place) -> None:
    """Make a folder for this user only (0700), and its parents; an existing one must be private already.

    If the parent is shared by a group (setgid, writable by the group and not by others), so is the folder (2770).
    Raises UntrustedFolderError or OSError.
    """
    path = os.fspath(native(folder))
    parent = os.path.dirname(os.path.abspath(path))  # links above the folder are followed
    try:
        is_shared = not WINDOWS and _is_shared(os.stat(parent))
        os.mkdir(path, 0o770 if is_shared else 0o700)
    except FileNotFoundError:
        os.makedirs(parent, exist_ok=True)
        return make_private(path)
    except FileExistsError:
        return check_private(path)
    if is_shared:  # the umask may have cleared bits
        fd = os.open(path, FOLDER)
        try:
            with suppress(OSError):  # some file systems ignore modes
                os.fchmod(fd, 0o2770)
        finally:
            os.close(fd)
    return check_private(path)


def check_private(folder: Place, *, alone: bool = False) -> None:
    """Raise UntrustedFolderError unless only this user, root or the group that shares the place can write here.

    With ``alone`` it must be this user's and not writable by a group. Root may also use a folder of the parent's owner.
    A folder with the same owner and mode as one newly made next to it is accepted: FAT, some network shares and virtual
    disks have one owner and one mode for everything. Raises FileNotFoundError if it is missing, or another OSError.
    """
    found = os.lstat(native(folder))
    if is_link(found):
        why = "is a link: files written to it would land where the link leads"
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
        hint = "remove it, or choose another folder (to share it in a group: chmod g+ws on its parent)"
    elif found.st_mode & stat.S_IWOTH:
        why = "can be written to by every user of this machine, who can put links and other files into it"
        hint = "remove it, and it is created again for you alone; or choose another folder"
    elif found.st_mode & stat.S_IWGRP and (alone or not _is_own_group(found, above)):
        why = f"can be written to by group {found.st_gid}, which can put links and other files into it"
        hint = "remove it, and it is created again for you alone (to share it in a group: chmod g+ws on its parent)"
    else:
        return
    if not _looks_as_all_do(parent, found):
        raise UntrustedFolderError(folder, why, hint)


def owner_of_unshared(path: Place) -> str | None:
    """The owner of another user's file in a group-shared folder that the group cannot write (umask 022).

    None for any other file.
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
    """Whether a folder is shared by a group: setgid, writable by the group and not by others."""
    mode = above.st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP and not mode & stat.S_IWOTH)


def _is_own_group(found: os.stat_result, above: os.stat_result) -> bool:
    """Whether the folder's group can write to the parent too, or consists of this user alone (as on Debian)."""
    if found.st_gid == above.st_gid and above.st_mode & stat.S_IWGRP and not above.st_mode & stat.S_IWOTH:
        return True
    if sys.platform == "win32":
        return True
    import grp
    import pwd

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
        import pwd

        with suppress(KeyError):
            return pwd.getpwuid(number).pw_name
    return str(number)

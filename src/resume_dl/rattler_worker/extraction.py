"""Extraction of an archive into a folder that the caller renames afterwards."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from resume_dl.errors import IntegrityError, NotWritableError, OutOfSpaceError
from resume_dl.fs.removal import remove
from resume_dl.rattler_worker.adapter import extract_archive
from resume_dl.rattler_worker.lifeline import ends_with_parent

_NO_SPACE = (f"os error {errno.ENOSPC}", "No space left", "os error 112")
"""Substrings of rattler's messages; 112 is ERROR_DISK_FULL of Windows."""
_DENIED = ("Permission denied", "Read-only file system", "os error 5)")


def _umask() -> int:
    """Return this process's umask, which can be read only by setting it (to a restrictive one, for a moment)."""
    umask = os.umask(0o077)
    os.umask(umask)
    return umask


_UMASK = _umask()  # read once, before an extraction's threads create files


def extract(args: Mapping[str, Any]) -> dict[str, Any]:
    """Unpack ``archive`` (.conda or .tar.bz2) into ``target``, which must not exist and is removed on failure.

    rattler refuses members that would leave the folder by ``..``, an absolute name or a link. Modes are the archive's
    less the umask, as in conda; rattler drops setuid and setgid. Returns the archive's ``sha256`` and ``md5`` as hex,
    the ``unpacked`` size in bytes and the number of ``files``. Raises IntegrityError (not a valid archive),
    OutOfSpaceError or NotWritableError.
    """
    archive, target = Path(args["archive"]), Path(args["target"])
    if not archive.is_file():
        raise NotWritableError(f"the archive {archive} is missing", hint="run it again")
    try:
        target.mkdir(parents=True)
    except FileExistsError:
        raise NotWritableError(f"{target} exists already and would be overwritten", hint="remove it") from None
    except OSError as error:
        raise NotWritableError(f"cannot make the folder {target}: {error.strerror}", hint="check who owns it") from None
    try:
        with ends_with_parent():
            sha256, md5 = extract_archive(archive, target)
    except Exception as error:  # noqa: BLE001 - rattler raises different types in different versions
        free = shutil.disk_usage(target).free
        with suppress(OSError):
            remove(target)
        text = str(error)
        if any(sign in text for sign in _NO_SPACE):
            raise OutOfSpaceError(
                f"no space left to unpack {archive.name}", needed=archive.stat().st_size, free=free, hint="make room"
            ) from None
        if any(sign in text for sign in _DENIED):
            raise NotWritableError(f"cannot unpack {archive.name}: {text}", hint="check who owns the folder") from None
        raise IntegrityError(
            f"{archive.name} cannot be unpacked: {text}", hint="the archive is damaged at its source, or malicious"
        ) from None
    unpacked, files = _apply_umask(target)
    return {"sha256": sha256.hex(), "md5": md5.hex(), "unpacked": unpacked, "files": files}


def _apply_umask(target: Path) -> tuple[int, int]:
    """Apply the umask below ``target``, as rattler keeps archived modes; return the files' total bytes and number."""
    unpacked = files = 0
    for name, _, names in os.walk(target, topdown=False):  # folders after their content: they may become unreadable
        folder = Path(name)
        for path in map(folder.joinpath, names):
            status = path.lstat()
            _remove_masked_bits(path, status.st_mode)
            unpacked += status.st_size
            files += 1
        _remove_masked_bits(folder, folder.lstat().st_mode)
    return unpacked, files


def _remove_masked_bits(path: Path, mode: int) -> None:
    if mode & _UMASK and not stat.S_ISLNK(mode):  # never true on Windows, where the umask is 0
        with suppress(OSError):  # as in conda: some file systems reject modes
            path.chmod(stat.S_IMODE(mode) & ~_UMASK)

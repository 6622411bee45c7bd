"""The folder of unfinished files, ``.resume-dl``: private to this user, in a folder to which others may write.

Another user who can write to it could put a link in place of a part file, a journal or a lock. So it is created with
mode 0700 and checked before each use (``private.check_private`` has the rules). Besides, no file in it is opened
through a link.
"""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl.errors import NotWritableError, UntrustedFolderError
from resume_dl.fs import private
from resume_dl.shell_commands import quote_word
from resume_dl.store.platform import make_folder


def make_work_folder(folder: Path) -> None:
    """Make ``folder`` durably, or check the existing one.

    Raises UntrustedFolderError or OSError.
    """
    try:
        make_folder(folder, private.make_private)
    except private.UntrustedFolderError as error:
        raise _mapped(error) from error


def check_work_folder(folder: Path) -> None:
    """Raise UntrustedFolderError if ``folder`` exists and others may have written to it; or OSError."""
    try:
        if os.path.lexists(folder):
            private.check_private(folder)
    except private.UntrustedFolderError as error:
        raise _mapped(error) from error


def is_trusted(folder: Path) -> bool:
    """Whether ``folder`` exists and only this user, root or the group that shares the place can write to it."""
    try:
        private.check_private(folder)
    except OSError:
        return False
    return True


def not_writable(error: OSError, folder: Path) -> NotWritableError:
    """Return the error for a folder of ours, or a file in it, that we may not write."""
    denied = error.filename if isinstance(error.filename, str) else ""
    owner = private.owner_of_unshared(denied) if denied else None
    if owner is None:
        why, hint = error.strerror, "choose another folder with --pkgs-dir"
        return NotWritableError(f"{folder} cannot be written: {why}", hint=hint)
    return NotWritableError(
        f"{denied} belongs to {owner}, and the group that shares this folder cannot write to it",
        hint=f"all users of the folder need umask 002; let {owner} run: chmod -R g+w {quote_word(str(folder))}"
        "; or choose another folder with --pkgs-dir",
    )


def _mapped(error: private.UntrustedFolderError) -> UntrustedFolderError:
    return UntrustedFolderError(f"{error}; it is not used", hint=error.hint)

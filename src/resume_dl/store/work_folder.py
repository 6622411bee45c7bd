"""The folder of unfinished files, ``.resume-dl``: private to this user, in a place that others may write to.

Another user who can write into it could put a link where a part file, a journal or a lock will be. So it is made 0700
and looked at before each use (``fs.check_private`` has the rules); what is opened in it follows no link all the same.
"""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import NotWritableError, UntrustedFolderError
from resume_dl.shell_commands import quote_word
from resume_dl.store.platform import make_folder


def make_work_folder(folder: Path) -> None:
    """Make ``folder`` so that no power cut takes it away, or check the one that is there.

    Raises UntrustedFolderError or OSError.
    """
    try:
        make_folder(folder, fs.make_private)
    except fs.UntrustedFolderError as error:
        raise _mapped(error) from error


def check_work_folder(folder: Path) -> None:
    """Raise UntrustedFolderError where ``folder`` is there and others may have written into it; or OSError."""
    try:
        if os.path.lexists(folder):
            fs.check_private(folder)
    except fs.UntrustedFolderError as error:
        raise _mapped(error) from error


def is_trusted(folder: Path) -> bool:
    """Whether ``folder`` is there and was written to by this user, root or the group that shares the place alone."""
    try:
        fs.check_private(folder)
    except OSError:
        return False
    return True


def not_writable(error: OSError, folder: Path) -> NotWritableError:
    """The error for a folder of ours, or a file in it, that may not be written."""
    denied = error.filename if isinstance(error.filename, str) else ""
    owner = fs.owner_of_unshared(denied) if denied else None
    if owner is None:
        why, hint = error.strerror, "choose another folder with --pkgs-dir"
        return NotWritableError(f"{folder} cannot be written: {why}", hint=hint)
    return NotWritableError(
        f"{denied} belongs to {owner}, and the group that shares this folder cannot write to it",
        hint=f"use umask 002, all who share the folder, and let {owner} run: chmod -R g+w {quote_word(str(folder))}"
        "; or choose another folder with --pkgs-dir",
    )


def _mapped(error: fs.UntrustedFolderError) -> UntrustedFolderError:
    return UntrustedFolderError(f"{error}; it is not used", hint=error.hint)

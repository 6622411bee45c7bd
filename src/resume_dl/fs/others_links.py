"""Links on a path that another user may have made to redirect a write."""

from __future__ import annotations

import os

from resume_dl.fs.system import WINDOWS, Place, is_link


def is_others_link(path: Place) -> bool:
    """Whether ``path`` is a link made by neither this user, root nor the owner of its folder (as in ``/tmp``).

    The rule of Linux's ``protected_symlinks``, which covers only links that the kernel itself follows.
    """
    try:
        found = os.lstat(path)
        owner = os.stat(os.path.dirname(os.path.abspath(path))).st_uid
    except (OSError, ValueError):
        return False
    return not WINDOWS and is_link(found) and found.st_uid not in (os.geteuid(), owner, 0)


def others_link_on(path: Place) -> str | None:
    """The topmost component of ``path`` that ``is_others_link``, or None."""
    place, found = os.path.abspath(os.fspath(path)), None
    while place != os.path.dirname(place):
        if is_others_link(place):
            found = place
        place = os.path.dirname(place)
    return found

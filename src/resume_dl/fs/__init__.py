"""Files and folders that other users may have made: opened, read, written and removed without following a link.

The one place for it, for resume-dl and for the offline tools: Python 3.8, the standard library. POSIX has
``O_NOFOLLOW`` and calls relative to an open folder, which leave no time to put a link in place of what was looked
at. Windows has neither: there each name is looked at before it is used, and a link or junction is a reparse point whose
tag is a name surrogate. Making links takes a privilege there, junctions do not; that gap is known.
"""

from resume_dl.fs.private import UntrustedFolderError, check_private, make_private, owner_of_unshared
from resume_dl.fs.regular import (
    create_file,
    is_others_link,
    is_regular,
    open_regular,
    others_link_on,
    read_below,
    read_regular,
    replace_below,
    write_file,
)
from resume_dl.fs.removal import remove
from resume_dl.fs.system import WINDOWS, absolute, is_link, names_in

__all__ = [
    "WINDOWS",
    "UntrustedFolderError",
    "absolute",
    "check_private",
    "create_file",
    "is_link",
    "is_others_link",
    "is_regular",
    "make_private",
    "names_in",
    "open_regular",
    "others_link_on",
    "owner_of_unshared",
    "read_below",
    "read_regular",
    "remove",
    "replace_below",
    "write_file",
]

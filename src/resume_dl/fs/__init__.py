"""Files and folders that other users can influence: opened, read, written and removed without following links.

Shared by resume-dl and the offline tools: Python 3.8, the standard library. POSIX has ``O_NOFOLLOW`` and calls
relative to an open folder, so a name cannot be replaced by a link between check and use. Windows has neither: each name
is checked before use, and links and junctions are reparse points with the name-surrogate bit. Making links takes a
privilege there, making junctions does not: a known gap.
"""

from resume_dl.fs.busy_names import move_folder, replace
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
from resume_dl.fs.system import WINDOWS, absolute, extended, is_link, names_in, roomy

__all__ = [
    "WINDOWS",
    "UntrustedFolderError",
    "absolute",
    "check_private",
    "create_file",
    "extended",
    "is_link",
    "is_others_link",
    "is_regular",
    "make_private",
    "move_folder",
    "names_in",
    "open_regular",
    "others_link_on",
    "owner_of_unshared",
    "read_below",
    "read_regular",
    "remove",
    "replace",
    "replace_below",
    "roomy",
    "write_file",
]

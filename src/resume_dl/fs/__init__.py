"""Files and folders that other users can influence: opened, read, written and removed without following links.

Shared by resume-dl and the offline tools: Python 3.8, the standard library. POSIX has ``O_NOFOLLOW`` and calls
relative to an open folder, so a name cannot be replaced by a link between check and use. Windows has neither: each name
is checked before use, and links and junctions are reparse points with the name-surrogate bit. Making links takes a
privilege there, making junctions does not: a known gap.

The names here are those that most modules use. The others are imported from their modules, so that the archive of an
offline tool holds only what the tool needs.
"""

from resume_dl.fs.busy_names import replace
from resume_dl.fs.regular import (
    create_file,
    is_regular,
    open_regular,
    read_below,
    read_regular,
    replace_below,
    write_file,
)
from resume_dl.fs.system import WINDOWS, absolute, extended, is_link, names_in, roomy

__all__ = [
    "WINDOWS",
    "absolute",
    "create_file",
    "extended",
    "is_link",
    "is_regular",
    "names_in",
    "open_regular",
    "read_below",
    "read_regular",
    "replace",
    "replace_below",
    "roomy",
    "write_file",
]

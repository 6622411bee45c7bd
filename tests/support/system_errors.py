"""What the system says of an error, in its own language: tests compare messages with it."""

from __future__ import annotations

import errno
import os
import sys

_WINDOWS = {errno.ENOENT: 2, errno.EISDIR: 5, errno.ENOTEMPTY: 5}
"""Windows' number for the same mistake; to rename over a folder is 'access denied' there."""


def said_of(number: int) -> str:
    """The words for this errno, or for what Windows gives in its place."""
    if sys.platform != "win32":
        return os.strerror(number)
    import ctypes

    return ctypes.FormatError(_WINDOWS[number]).strip().rstrip(".")

"""Reads a settings file of the user's: a text of a sensible length, never a pipe, a device or a folder."""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl import fs

MOST_BYTES = 4 << 20
"""A hand-written file is a few kilobytes long."""


def read_own(file: Path, encoding: str = "utf-8") -> str:
    """The file's text; links are followed, since many users keep their settings elsewhere.

    Raises FileNotFoundError, OSError for whatever else cannot be read or is no such file, and UnicodeDecodeError.
    """
    return fs.read_regular(os.path.realpath(file), MOST_BYTES).decode(encoding)

"""Safe reading of the user's settings files: texts of bounded length, never pipes, devices or folders."""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl import fs
from resume_dl.text_encoding import decode_text

MOST_BYTES = 4 << 20
"""Largest file in bytes; hand-written ones have a few kilobytes."""


def read_own(file: Path) -> str:
    """Read the file's text; links are followed, since many users keep their settings elsewhere.

    Raises FileNotFoundError, OSError for a file that is unreadable or not regular, and UnicodeDecodeError.
    """
    return decode_text(fs.read_regular(os.path.realpath(file), MOST_BYTES))

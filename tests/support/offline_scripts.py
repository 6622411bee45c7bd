"""The offline tools as they lie in a bundle: one archive under each of its names."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from resume_dl.offline_tools.archive import NAMES, write_archive


@functools.cache
def archive() -> bytes:
    """Its bytes, the same under each name."""
    return write_archive()


@functools.cache
def scripts() -> Path:
    """A folder of this process's own with nothing but the archive under all its names."""
    folder = Path(tempfile.mkdtemp(prefix="offline-scripts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in NAMES:
        (folder / name).write_bytes(archive())
    return folder

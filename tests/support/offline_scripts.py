"""The offline tools as they lie in a bundle: an archive each."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from resume_dl.offline_tools.archive import write_archive
from resume_dl.offline_tools.tool_names import NAMES


@functools.cache
def archive(name: str) -> bytes:
    """The bytes of a script."""
    return write_archive(name.removesuffix(".py"))


@functools.cache
def scripts() -> Path:
    """A folder of this process's own with nothing but the scripts."""
    folder = Path(tempfile.mkdtemp(prefix="offline-scripts-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in NAMES:
        (folder / name).write_bytes(archive(name))
    return folder

"""Environments as they stand on the disk: conda's, and virtual ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Mapping

from resume_dl import fs
from resume_dl.offline_tools.machine.programs import SHORT, run_quietly

_MOST_JSON = 64 << 20
"""Bytes of a file that describes one package: what is longer would take the memory."""


def read_info(package: Path, name: str) -> str:
    """A text that an unpacked package brought; never one to which a link of it leads. Raises OSError, ValueError."""
    return str(fs.read_below(package, "info", name, limit=_MOST_JSON), "utf-8")


def read_text(path: Path) -> str:
    """A text where packages put files. Raises OSError, ValueError."""
    return str(fs.read_regular(path, _MOST_JSON), "utf-8")


def is_conda_environment(prefix: Path) -> bool:
    """Whether conda has made it."""
    return (prefix / "conda-meta" / "history").is_file()


def is_environment(prefix: Path) -> bool:
    """Whether it is conda's or a virtual environment."""
    return is_conda_environment(prefix) or (prefix / "pyvenv.cfg").is_file()


def lacks_files(record: Path, prefix: Path) -> bool:
    """Whether a file that conda's record of a package names is not there."""
    try:
        files = json.loads(read_text(record))["files"]
        return not all(os.path.lexists(str(prefix / file)) for file in files)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def is_of_another(record: Path, digests: Mapping[str, str | None]) -> bool:
    """Whether conda's record of a package is of an archive with other digests; what it does not say is not compared."""
    try:
        said = json.loads(read_text(record))
        return any(said.get(kind) and own and said[kind] != own for kind, own in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def is_empty(folder: Path) -> bool:
    """Whether it is a folder with nothing in it."""
    return folder.is_dir() and not any(folder.iterdir())


def can_be_made(folder: Path) -> bool:
    """Whether this user can make it, with the folders above it."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(str(folder), os.W_OK)


def ask_version(python: Path, env: Mapping[str, str]) -> str:
    """``3.10.4``; empty where it does not run."""
    script = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    code, text = run_quietly((str(python), "-I", "-c", script), env, SHORT)
    return text.strip() if code == 0 else ""

"""Environments on the disk: conda's, and virtual ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Mapping

from resume_dl import fs
from resume_dl.offline_tools.machine.programs import SHORT, run_quietly
from resume_dl.python_command import isolated_command

_MOST_JSON = 64 << 20
"""Largest size in bytes of a file that describes one package."""


def read_info(package: Path, name: str) -> str:
    """Read a text file of an unpacked package, without following links. Raises OSError, ValueError."""
    return str(fs.read_below(package, "info", name, limit=_MOST_JSON), "utf-8")


def read_text(path: Path) -> str:
    """Read a text file among files of packages. Raises OSError, ValueError."""
    return str(fs.read_regular(path, _MOST_JSON), "utf-8")


def is_conda_environment(prefix: Path) -> bool:
    """Whether the folder is a conda environment."""
    return (prefix / "conda-meta" / "history").is_file()


def is_environment(prefix: Path) -> bool:
    """Whether the folder is a conda or a virtual environment."""
    return is_conda_environment(prefix) or (prefix / "pyvenv.cfg").is_file()


def lacks_files(record: Path, prefix: Path) -> bool:
    """Whether a file named in conda's record of a package is missing."""
    try:
        files = json.loads(read_text(record))["files"]
        return not all(os.path.lexists(str(prefix / file)) for file in files)
    except (OSError, ValueError, KeyError, TypeError):
        return True


def is_of_another(record: Path, digests: Mapping[str, str | None]) -> bool:
    """Whether conda's record of a package states other digests; missing ones are not compared."""
    try:
        said = json.loads(read_text(record))
        return any(said.get(kind) and own and said[kind] != own for kind, own in digests.items())
    except (OSError, ValueError, AttributeError):
        return False


def is_empty(folder: Path) -> bool:
    """Whether ``folder`` is an empty folder."""
    return folder.is_dir() and not any(folder.iterdir())


def can_be_made(folder: Path) -> bool:
    """Whether this user can make the folder and its parents."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return os.access(str(folder), os.W_OK)


def ask_version(python: Path, env: Mapping[str, str]) -> str:
    """The version, such as ``3.10.4``; empty if this Python does not run."""
    script = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    code, text = run_quietly(isolated_command(str(python), "-c", script), env, SHORT)
    return text.strip() if code == 0 else ""

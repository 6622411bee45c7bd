"""A cache of pip's help, which lists its options and takes half a second to print."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import ConfigurationError
from resume_dl.settings.pip_find import PATIENCE, TargetPython, install_help
from resume_dl.shell_commands import Step, command_line

_SOURCES = (
    ("__init__.py",),  # its version
    ("_internal/cli/cmdoptions.py", "_internal/cli/cmdoptions.pyc"),
    ("_internal/commands/install.py", "_internal/commands/install.pyc"),
)
"""Files of pip that determine its help, as source or as bytecode."""
_LARGEST = 1 << 20
"""Largest file in bytes; pip's own have 50 kB, its help 20."""
_IS_HELP = re.compile(r"\A\s*Usage:")


def kept_install_help(python: TargetPython, env: Mapping[str, str], folder: Path) -> str:
    """The result of ``install_help``, cached in ``folder`` by the content of pip's files.

    Without readable files of pip nothing is cached. Raises ConfigurationError if that pip prints no help.
    """
    digest = _digest(python)
    if digest is None:
        return _asked(python, env)
    name = f"{digest}.txt"
    with suppress(OSError, UnicodeDecodeError):
        text = fs.read_below(folder, name, limit=_LARGEST).decode()
        if _IS_HELP.match(text):
            return text
    text = _asked(python, env)
    with suppress(OSError):  # an unwritable cache costs only time
        folder.mkdir(parents=True, exist_ok=True)
        fs.replace_below(folder, name, data=text.encode(), sync=False)
    return text


def _asked(python: TargetPython, env: Mapping[str, str]) -> str:
    text = install_help(python, env)
    if not _IS_HELP.match(text):
        asked = command_line([Step((*python.pip, "install", "--help"))])
        raise ConfigurationError(
            f"the pip of {python.executable} did not list its options: it failed or took over {PATIENCE:g} s",
            hint=f"run {asked} to see why",
        )
    return text


def _digest(python: TargetPython) -> str | None:
    """A digest of the files that determine the help, and of the Python; None if one is unreadable."""
    if python.pip_folder is None:
        return None
    digest = hashlib.sha256(python.full_version.encode())
    for names in _SOURCES:
        data = next(filter(None, (_read(python.pip_folder / name) for name in names)), b"")
        if not data:
            return None
        digest.update(hashlib.sha256(data).digest())
    return digest.hexdigest()[:32]


def _read(path: Path) -> bytes:
    with suppress(OSError):
        return fs.read_regular(path, _LARGEST)
    return b""

"""The help of a pip, kept: it lists that pip's options, and a pip takes half a second to print it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from resume_dl import fs
from resume_dl.settings.pip_find import TargetPython, install_help

_SOURCES = (
    ("__init__.py",),  # its version
    ("_internal/cli/cmdoptions.py", "_internal/cli/cmdoptions.pyc"),
    ("_internal/commands/install.py", "_internal/commands/install.pyc"),
)
"""Files of pip that its help is made from, each as source, or as bytecode where there is no source."""
_LARGEST = 1 << 20
"""Bytes of any file that is read here; pip's own have 50 kB, its help 20."""
_IS_HELP = re.compile(r"\A\s*Usage:")


def kept_install_help(python: TargetPython, env: Mapping[str, str], folder: Path) -> str:
    """What ``install_help`` returns, asked once for the same files of pip; the answers are kept in ``folder``.

    A pip whose files cannot be read is asked every time.
    """
    digest = _digest(python)
    if digest is None:
        return install_help(python, env)
    name = f"{digest}.txt"
    with suppress(OSError, UnicodeDecodeError):
        text = fs.read_below(folder, name, limit=_LARGEST).decode()
        if _IS_HELP.match(text):
            return text
    text = install_help(python, env)
    if _IS_HELP.match(text):
        with suppress(OSError):  # a cache that cannot be written costs time, nothing else
            folder.mkdir(parents=True, exist_ok=True)
            fs.replace_below(folder, name, data=text.encode(), sync=False)
    return text


def _digest(python: TargetPython) -> str | None:
    """Of the files that make the help, and of the Python that runs them; None if one cannot be read."""
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

"""Command lines for the user's shell (cmd.exe on Windows), to show and paste."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path


def setting(name: str, value: str) -> str:
    """An environment variable for the command that follows."""
    return f"{name}={shlex.quote(value)} " if os.name != "nt" else f'set "{name}={value}" && '


def quoted(path: Path) -> str:
    """Quote a path as one word."""
    return shlex.quote(str(path)) if os.name != "nt" else f'"{path}"'


def command_line(words: Sequence[str], cwd: Path) -> str:
    """Join words into a line to run in ``cwd``, with a ``cd`` if that is not the current folder."""
    line = shlex.join(words) if os.name != "nt" else subprocess.list2cmdline(words)
    try:
        here = Path.cwd() == cwd
    except OSError:
        here = False
    if here:
        return line
    return f"cd {'/d ' if os.name == 'nt' else ''}{quoted(cwd)} && {line}"

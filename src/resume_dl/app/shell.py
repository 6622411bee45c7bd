"""Commands as the user's own shell wants them (cmd.exe on Windows), to be shown and pasted."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


def setting(name: str, value: str) -> str:
    """A variable for the one command that follows."""
    return f"{name}={shlex.quote(value)} " if os.name != "nt" else f'set "{name}={value}" && '


def quoted(path: Path) -> str:
    """A path as one word."""
    return shlex.quote(str(path)) if os.name != "nt" else f'"{path}"'

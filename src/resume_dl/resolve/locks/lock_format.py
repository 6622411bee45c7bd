"""Which kind of lock file a file is, by its name, else by its content."""

from __future__ import annotations

import enum
import os
import re
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import ConfigurationError
from resume_dl.text_encoding import decode_text

MOST_BYTES = 64 << 20
"""Largest lock file in bytes; the largest known ones have a few million."""
PYLOCK = re.compile(r"pylock(?:\.[^.]+)?\.toml")
"""The names that PEP 751 allows."""
_SUFFIXES = (".yml", ".yaml", ".lock", ".toml")


class LockFormat(enum.Enum):
    """A format, by the name of its usual file."""

    CONDA_LOCK = "conda-lock.yml"
    PIXI = "pixi.lock"
    UV = "uv.lock"
    PYLOCK = "pylock.toml"
    POETRY = "poetry.lock"

    @property
    def has_conda_packages(self) -> bool:
        """Whether it locks packages of conda, and perhaps of pip."""
        return self in {LockFormat.CONDA_LOCK, LockFormat.PIXI}


_NAMES = tuple(
    (re.compile(pattern), found)
    for pattern, found in (
        (r"(?:.+\.)?conda-lock\.ya?ml", LockFormat.CONDA_LOCK),
        (r"pixi\.lock", LockFormat.PIXI),
        (r"uv\.lock", LockFormat.UV),
        (r"poetry\.lock", LockFormat.POETRY),
        (PYLOCK.pattern, LockFormat.PYLOCK),
    )
)
_CONTENT = tuple(
    (tuple(re.compile(line, re.MULTILINE) for line in lines), found)
    for lines, found in (
        ((r"^version:", r"^metadata:", r"^package:"), LockFormat.CONDA_LOCK),
        ((r"^version:", r"^environments:", r"^packages:"), LockFormat.PIXI),
        ((r"^\[\[package\]\]", r"^lock-version = "), LockFormat.POETRY),
        ((r"^version = \d", r"^requires-python = ", r"^\[\[package\]\]"), LockFormat.UV),
    )
)
"""Lines that a file of the format has."""
_NOT_READ = {
    LockFormat.POETRY: (
        "is a lock file of Poetry, which has no URLs of its packages",
        "poetry export -o requirements.txt (poetry-plugin-export), then --file requirements.txt",
    ),
}
"""Why a format is refused, and what to do."""
_PIP = re.compile(r"manager['\"]?[ \t]*:\s*['\"]?pip\b|\bpypi['\"]?[ \t]*:|\bkind['\"]?[ \t]*:\s*['\"]?pypi\b")
"""What pip's packages in conda-lock.yml and pixi.lock have."""


def lock_format(path: Path) -> LockFormat | None:
    """Return the format; None if the file is no lock file, or cannot be read (its reader reports that)."""
    for name, found in _NAMES:
        if name.fullmatch(path.name):
            return found
    if path.suffix not in _SUFFIXES:
        return None
    try:
        text = read_lock_text(path)
    except ConfigurationError:
        return None
    return next((found for lines, found in _CONTENT if all(line.search(text) for line in lines)), None)


def read_lock_text(path: Path) -> str:
    """The text of a lock file. Raises ConfigurationError if it cannot be read, is no text, or is too large."""
    try:
        return lock_text(path)
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{path} is not text in {error.encoding}", hint="create the lock file again"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error


def lock_text(path: Path) -> str:
    """The text of a lock file or of what a link leads to. Raises OSError, for a pipe too, and UnicodeDecodeError."""
    return decode_text(fs.read_regular(os.path.realpath(path), MOST_BYTES))


def locks_pip(path: Path) -> bool:
    """Whether a lock file with conda packages may have packages of pip too; its reader reports what is wrong in it."""
    try:
        return _PIP.search(read_lock_text(path)) is not None
    except ConfigurationError:
        return False


def check_supported(path: Path, found: LockFormat) -> None:
    """Raise ConfigurationError for a format that is not read; the hint names what its own tool can write instead."""
    if found in _NOT_READ:
        problem, hint = _NOT_READ[found]
        raise ConfigurationError(f"{path} {problem}", hint=hint)

"""Decisions for fetches with conda and pip parts: which files are pip's, which Python. Every fetch imports it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.environment_file import read_environment_file
from resume_dl.resolve.explicit import is_explicit
from resume_dl.resolve.installed import read_installed
from resume_dl.resolve.locks.lock_format import lock_format, locks_pip
from resume_dl.resolve.request import Solution
from resume_dl.text_encoding import read_text

_SUFFIXES = {".txt", ".in", ".toml"}
_MAJOR_MINOR = re.compile(r"\d+\.\d+")


def is_pip_file(path: Path) -> bool:
    """Whether a ``--file`` is for pip alone: requirements, pyproject.toml, a lock file without conda packages."""
    found = lock_format(path)
    if found is not None:
        return not found.has_conda_packages
    if path.suffix not in _SUFFIXES:
        return False
    try:
        return not is_explicit(read_text(path))
    except (OSError, UnicodeDecodeError):
        return True  # its reader reports the error


def has_pip_part(path: Path) -> bool:
    """Whether a ``--file`` for conda, an environment.yml or a lock file, has a part for pip."""
    found = lock_format(path)
    if found is not None:
        return found.has_conda_packages and locks_pip(path)
    if path.suffix not in {".yml", ".yaml"}:
        return False
    try:
        return bool(read_environment_file(path).pip)
    except ConfigurationError:
        return False  # as above


def pythons_of(
    solutions: Sequence[tuple[str, Solution]],
    explicit: Sequence[Artifact],
    platforms: Sequence[str],
    prefix: Path | None,
) -> dict[str, str]:
    """Return platform -> version (``3.10``) of the Python that conda installs or that the environment already has.

    The first of ``platforms`` is that of ``prefix``, and of artifacts in ``explicit`` that do not state theirs.
    Platforms without a Python are left out.
    """
    found: dict[str, str] = {}
    platform = platforms[0]
    if prefix is not None:
        for path in read_installed(prefix).records:
            with suppress(OSError, ValueError, KeyError):
                record = json.loads(path.read_text(encoding="utf-8"))
                if record["name"] == "python":
                    found[platform] = record["version"]
    every = [(artifact.subdir if artifact.subdir in platforms else platform, artifact) for artifact in explicit]
    every += [(name, artifact) for name, solution in solutions for artifact in solution.artifacts]
    found.update((name, artifact.version) for name, artifact in every if artifact.name == "python")
    return {name: match[0] for name, version in found.items() if (match := _MAJOR_MINOR.match(version)) is not None}

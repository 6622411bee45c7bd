"""Packages of lock files that conda installs without a solve: ``create --file conda-lock.yml`` or ``pixi.lock``.

conda reads them by a plugin (conda-lockfiles), which downloads each package by its URL and digests, as conda does with
a line of an ``@EXPLICIT`` list. It takes the category ``main`` of a conda-lock.yml, and the environment ``default`` of
a pixi.lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.compat import Listed
from resume_dl.conda_plugin.messages import in_one_line, say
from resume_dl.errors import ConfigurationError

_TAKEN = {"conda-lock": ("main",), "rattler-lock": (), "pixi": ()}
"""The beginning of the name of conda's reader -> the groups that it installs; none for the lock's own default."""


def locks_among(files: Iterable[Path]) -> list[Path]:
    """Those of ``files`` that are lock files of conda packages."""
    from resume_dl.resolution.lock_files import is_conda_lock

    return [file for file in files if is_conda_lock(file)]


def locked_packages(locks: Iterable[Path]) -> list[Listed]:
    """The packages of those lock files that this conda has a reader for.

    A lock file that we refuse is reported in one line, and left to conda.
    """
    from resume_dl.resolution.lock_files import read_conda_locks

    found: list[Listed] = []
    for lock in locks:
        reader = compat.lock_reader(lock)
        groups = next((groups for start, groups in _TAKEN.items() if reader.startswith(start)), None)
        if groups is None:
            continue
        try:
            (selected,) = read_conda_locks(lock, platforms=[compat.subdir()], environments=groups, canonical=str)
        except ConfigurationError as error:
            say(f"{in_one_line(error)}; conda continues on its own")
            continue
        found += [Listed(each.url.reveal(), md5=each.md5, sha256=each.sha256) for each in selected.conda]
    return found

"""The help of pips for users who have asked for it before: half a second of processor time less for each run."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from pathlib import Path

from resume_dl.settings.pip_find import TargetPython
from resume_dl.settings.pip_help import kept_install_help
from support.fetching import User


def help_of(python: TargetPython) -> str:
    """What this pip says of ``pip install``, asked once in all tests of a process."""
    return kept_install_help(python, os.environ, _kept())


def remember_help(user: User, python: TargetPython) -> None:
    """Put the answer of this pip into the user's cache."""
    help_of(python)
    shutil.copytree(_kept(), user.own["cache"] / "pip-help", dirs_exist_ok=True)


@functools.cache
def _kept() -> Path:
    folder = tempfile.mkdtemp(prefix="pip-help-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)

"""The Pythons of this machine, asked for by the tests that run on them and never while tests are collected.

Each process of a test run collects every file: programs that were started at an import would start in all of them.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SUPPORTED = ("ours", "oldest", "newest")
OURS_AND_3_8 = ("ours", "3.8")


def python_of(which: str) -> str:
    """Path of a Python that runs here: ``ours``, ``3.8``, the ``oldest`` other from 3.8 on, the ``newest``; or skip."""
    if which == "ours":
        return sys.executable
    found = _others()
    if which == "3.8":
        if 8 not in found:
            pytest.skip("no Python 3.8 is here")
        return found[8]
    if len(found) <= (which == "newest"):
        pytest.skip(f"no Python is here to be the {which} beside ours")
    return found[min(found) if which == "oldest" else max(found)]


@functools.cache
def _others() -> dict[int, str]:
    """Those that run here (pyenv's too), from 3.8 on, one a minor version, less this one."""
    named = [shutil.which(f"python3.{minor}") for minor in range(8, 30)]
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found: dict[int, str] = {}
    for place in [*filter(None, named), *map(str, kept.glob("3.*/bin/python3"))]:
        minor = _minor(place)
        if minor >= 8 and minor != sys.version_info[1]:
            found.setdefault(minor, place)
    return found


def _minor(python: str) -> int:
    """The minor version, or 0 if it does not run: pyenv puts names on PATH behind which nothing is."""
    asked = [python, "-c", "import sys; print(sys.version_info[1])"]
    done = subprocess.run(asked, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else 0

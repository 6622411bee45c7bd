"""The Python that pip installs for."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Mapping

from resume_dl.offline_tools.machine.conda_info import public_version
from resume_dl.offline_tools.machine.programs import SHORT, WINDOWS, find_program, is_file, run_quietly
from resume_dl.python_command import users_command

_ASK_PYTHON = """
import sys, sysconfig
if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("wheels are chosen for the usual CPython")
try:
    from importlib.metadata import version
except ImportError:
    from pkg_resources import get_distribution
    version = lambda name: get_distribution(name).version
try:
    pip = version("pip")
except Exception:
    pip = ""
print("%d.%d.%d" % sys.version_info[:3], pip, sep="\\n")
"""


def pip_python(env: Mapping[str, str]) -> tuple[str, str] | None:
    """Versions of the Python that pip installs for and of its pip; None if no Python has pip.

    ``RESUME_DL_PIP_PYTHON``, else the active environment's, else the one that runs this, else the first on PATH.
    """
    named = env.get("RESUME_DL_PIP_PYTHON", "")
    candidates = [Path(named)] if named else _pythons(env)
    for place in dict.fromkeys(candidates):
        if not is_file(place):
            continue
        code, text = run_quietly(users_command(str(place.absolute()), "-c", _ASK_PYTHON), env, SHORT)
        said = text.splitlines() if code == 0 else []
        if len(said) == 2 and re.fullmatch(r"\d+\.\d+\.\d+", said[0]) and public_version(said[1]):
            return said[0], public_version(said[1])
    return None


def _pythons(env: Mapping[str, str]) -> list[Path]:
    folders = env.get("PATH", "").split(os.pathsep)
    active = [python_of(Path(env[name])) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]

    def rank(place: Path) -> int:
        return folders.index(str(place.parent)) if str(place.parent) in folders else len(folders)

    on_path = [find_program(name, env) for name in ("python3", "python")]
    own = [Path(sys.executable)] if sys.executable else []
    return [*sorted(active, key=rank), *own, *(place for place in on_path if place is not None)]


def python_of(prefix: Path) -> Path:
    """The path of an environment's Python, which may be missing."""
    if not WINDOWS:
        return prefix / "bin" / "python"
    of_venv = prefix / "Scripts" / "python.exe"
    return of_venv if is_file(of_venv) else prefix / "python.exe"

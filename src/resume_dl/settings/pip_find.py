"""The Python that pip would install into, and the default index of uv or pip."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.model.url import RedactedUrl
from resume_dl.python_command import module_arguments, users_command, utf8_output

_ASK = (
    "import importlib.util as u, sys; pip = u.find_spec('pip'); "
    "print(sys.prefix, '%d.%d.%d' % sys.version_info[:3], 'yes' if pip else 'no', pip and pip.origin, sep='\\n')"
)
_DEFAULT = re.compile(r"\((?:by\s+)?default:?\s+<?(?P<url>https?://[^\s<>()]+)>?\)")
"""``(default https://…)`` in the help of pip, ``(by default: <https://…>)`` in that of uv, wrapped anywhere."""
_ANSWERS: dict[tuple[str, int, frozenset[tuple[str, str]]], TargetPython] = {}
PATIENCE = 30.0
"""Seconds for a Python to start; pip itself takes half a second."""


@dataclass(frozen=True, slots=True)
class TargetPython:
    """A Python on this machine."""

    executable: Path
    prefix: Path
    """Its environment's folder, which holds the pip.conf of that environment."""
    full_version: str
    """``3.10.4``."""
    has_pip: bool
    pip_folder: Path | None = None
    """The folder of its package ``pip``, if known."""

    @property
    def version(self) -> str:
        """``3.10``."""
        return ".".join(self.full_version.split(".")[:2])

    @property
    def pip(self) -> tuple[str, ...]:
        """The command line of its pip; empty without pip."""
        return (str(self.executable), *module_arguments("pip"))


def find_python(env: Mapping[str, str]) -> TargetPython:
    """The Python that ``pip install`` would install into, as its user sees it.

    The one that ``RESUME_DL_PIP_PYTHON`` names (or ConfigurationError); else the active environment's (``VIRTUAL_ENV``,
    ``CONDA_PREFIX``; of two the one that stands first on PATH); else our own if it has pip; else the first on PATH that
    has pip; else our own.
    """
    if named := env.get("RESUME_DL_PIP_PYTHON", ""):
        found = _ask(Path(named), env)
        if found is None:
            raise ConfigurationError(f"{named} does not run as Python", hint="name the program itself, or leave it out")
        return found
    for prefix in _active(env):
        found = _ask(_python_of(prefix), env)
        if found is not None:
            return found
    own = own_python()
    if own.has_pip:
        return own
    for name in ("python3", "python"):
        place = shutil.which(name, path=env.get("PATH", ""))
        found = None if place is None else _ask(Path(place), env)
        if found is not None and found.has_pip:
            return found
    return own


def own_python() -> TargetPython:
    """The running Python."""
    version, pip = ".".join(map(str, sys.version_info[:3])), importlib.util.find_spec("pip")
    return TargetPython(
        Path(sys.executable), Path(sys.prefix), version, pip is not None, _folder_of(pip.origin if pip else None)
    )


def _folder_of(origin: str | None) -> Path | None:
    """The folder of a package whose ``__init__`` is ``origin``; None for a namespace package."""
    return Path(origin).parent if origin and Path(origin).is_absolute() else None


def _active(env: Mapping[str, str]) -> list[Path]:
    prefixes = [Path(env[name]) for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if env.get(name)]
    folders = [Path(folder) for folder in env.get("PATH", "").split(os.pathsep) if folder]

    def rank(prefix: Path) -> int:
        scripts = _python_of(prefix).parent
        return folders.index(scripts) if scripts in folders else len(folders)

    return sorted(prefixes, key=rank)


def _python_of(prefix: Path) -> Path:
    if os.name != "nt":
        return prefix / "bin" / "python"
    of_venv = prefix / "Scripts" / "python.exe"
    return of_venv if of_venv.is_file() else prefix / "python.exe"


def _ask(python: Path, env: Mapping[str, str]) -> TargetPython | None:
    """The answer of a Python, None if it does not run; cached in this process.

    The key has the program's mtime, as a test or a user may replace the program.
    """
    if not python.is_file():
        return None
    asked = (str(python), python.stat().st_mtime_ns, frozenset(env.items()))
    if (known := _ANSWERS.get(asked)) is None and (known := _answer(python, env)) is not None:
        _ANSWERS[asked] = known
    return known


def _answer(python: Path, env: Mapping[str, str]) -> TargetPython | None:
    answer = _output(users_command(str(python), "-c", _ASK), env, folder=python.parent).splitlines()
    if len(answer) != 4:
        return None
    return TargetPython(python, Path(answer[0]), answer[1], answer[2] == "yes", _folder_of(answer[3]))


def python_at(place: Path) -> Path:
    """The Python that pip's ``--python`` names: a program, or an environment's folder."""
    return _python_of(place) if place.is_dir() else place


def install_help(python: TargetPython, env: Mapping[str, str]) -> str:
    """The help of ``pip install``, with every option of that pip; empty without pip."""
    return _output([*python.pip, "install", "--help"], without_settings(env), folder=python.executable.parent)


def default_index(python: TargetPython | None, env: Mapping[str, str], *, uv: Path | None = None) -> RedactedUrl:
    """The default index of pip, from uv's help (20 ms) or pip's (500 ms).

    Both run without the user's settings, which would change the help. Raises ConfigurationError.
    """
    commands: list[list[str]] = []
    if uv is not None:
        commands.append([str(uv), "pip", "compile", "--help"])
    if python is not None and python.has_pip:
        commands.append([*python.pip, "install", "--help"])
    for command in commands:
        found = _DEFAULT.search(_output(command, without_settings(env), folder=Path(command[0]).parent))
        if found is not None:
            return RedactedUrl(found["url"].rstrip("/"))
    raise ConfigurationError(
        "the default package index is unknown: neither uv nor pip was found",
        hint="name an index with --index-url, or install pip",
    )


def without_settings(env: Mapping[str, str]) -> dict[str, str]:
    """``env`` for a pip or uv without the user's settings, and with wide lines."""
    kept = {name: value for name, value in env.items() if not name.upper().startswith(("PIP_", "UV_"))}
    return {**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "COLUMNS": "400"}


def _output(command: Sequence[str], env: Mapping[str, str], *, folder: Path) -> str:
    """The output of a command, empty if it fails. Runs in ``folder``, because ``-m`` imports from the current one."""
    try:
        done = subprocess.run(
            command,
            env=utf8_output(env),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""

"""Search for the conda installations on this machine, without running any."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.python_command import module_arguments
from resume_dl.settings.paths import home
from resume_dl.text_encoding import read_text

SWITCH = "RESUME_DL_CONDA"
"""Variable that names the conda to use (its executable, or a Python that can ``-m conda``); ``none``: no conda."""
_WINDOWS = sys.platform == "win32"
_DISTRIBUTIONS = ("miniforge3", "miniconda3", "anaconda3", "mambaforge", "conda")


@dataclass(frozen=True, slots=True)
class CondaCommand:
    """One way to run a conda."""

    executable: Path
    arguments: tuple[str, ...] = ()

    @property
    def line(self) -> tuple[str, ...]:
        """The command line before conda's own arguments."""
        return (str(self.executable), *self.arguments)

    @property
    def root(self) -> Path | None:
        """The root prefix of the executable, or None if its path does not show it."""
        for parent in tuple(self.executable.parents)[:2]:
            if (parent / "conda-meta").is_dir():
                return parent
        return None


def conda_python(conda: CondaSettings) -> Path | None:
    """The Python that the conda of these settings runs in; None if it is not found."""
    if conda.conda_command[1:]:
        return Path(conda.conda_command[0])
    root = conda.root_prefix
    python = None if root is None else root / ("python.exe" if _WINDOWS else "bin/python")
    return python if python is not None and python.is_file() else None


def asks_none(env: Mapping[str, str]) -> bool:
    """Whether the user wants no conda to be run."""
    return env.get(SWITCH, "").strip().lower() == "none"


def find_conda_commands(env: Mapping[str, str]) -> Iterator[CondaCommand]:
    """Find the conda installations, likeliest first, without duplicates.

    In order: ``RESUME_DL_CONDA`` (then no other), ``CONDA_EXE``, ``CONDA_PYTHON_EXE``, ``PATH``, the environment that
    this program runs in, ``~/.conda/environments.txt``, and where installers put one by default. Raises
    ConfigurationError if ``RESUME_DL_CONDA`` names a missing file.
    """
    if asks_none(env):
        return
    named = env.get(SWITCH, "").strip()
    if named:
        found = shutil.which(named, path=env.get("PATH")) or (named if Path(named).is_file() else None)
        if found is None:
            raise ConfigurationError(
                f"{SWITCH} names {named}, which does not exist",
                hint=f"correct it, or set {SWITCH}=none to use no conda",
            )
        yield _command(Path(found).absolute())
        return
    seen: set[Path] = set()
    for path in _candidates(env):
        if path not in seen and path.is_file():
            seen.add(path)
            yield _command(path)


def _candidates(env: Mapping[str, str]) -> Iterator[Path]:
    for name in ("CONDA_EXE", "CONDA_PYTHON_EXE"):
        if env.get(name):
            yield Path(env[name]).absolute()
    if found := shutil.which("conda", path=env.get("PATH", "")):
        path = Path(found).absolute()
        # condabin\conda.bat changes the caller's environment; the program that it calls is used.
        yield from _in_root(path.parent.parent) if path.suffix.lower() == ".bat" else (path,)
    yield from _in_root(Path(sys.prefix))
    for prefix in _known_environments(home(env) / ".conda" / "environments.txt"):
        yield from _in_root(prefix)
        if prefix.parent.name == "envs":
            yield from _in_root(prefix.parent.parent)
    for folder in _usual_folders(env):
        for distribution in _DISTRIBUTIONS:
            yield from _in_root(folder / distribution)


def _command(path: Path) -> CondaCommand:
    name = path.name.lower()
    return CondaCommand(path, module_arguments("conda") if name.startswith(("python", "pypy")) else ())


def _in_root(root: Path) -> tuple[Path, ...]:
    if _WINDOWS:
        return (root / "Scripts" / "conda.exe",)
    return (root / "bin" / "conda",)


def _known_environments(file: Path) -> list[Path]:
    try:
        lines = read_text(file).splitlines()
    except (OSError, UnicodeDecodeError):
        return []
    return [Path(line.strip()) for line in lines if line.strip() and not line.startswith("#")]


def _usual_folders(env: Mapping[str, str]) -> tuple[Path, ...]:
    own = home(env)
    if _WINDOWS:
        folders = [own, Path(env.get("LOCALAPPDATA", own)), Path(env.get("PROGRAMDATA", "C:/ProgramData"))]
        return (*folders, Path("C:/tools"), Path("C:/"))
    return (own, own / "opt", own / ".local", Path("/opt"), Path("/usr/local"))

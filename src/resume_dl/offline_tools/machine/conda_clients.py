"""The programs on this machine that install conda packages; found without running any."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple

from resume_dl.offline_tools.machine.programs import WINDOWS, find_program, home, is_file
from resume_dl.text_encoding import read_text

_DISTRIBUTIONS = ("miniforge3", "miniconda3", "anaconda3", "mambaforge", "conda")


class Client(NamedTuple):
    """A program on this machine that installs conda packages."""

    name: str
    """``conda``, ``mamba`` or ``micromamba``."""
    command: tuple[str, ...]
    """The program, with arguments that precede its own."""


def find_clients(env: Mapping[str, str] | None = None) -> list[Client]:
    """Find conda, then mamba, then micromamba, the likeliest places first; nothing is run.

    ``RESUME_DL_CONDA`` names the one to use (a program, or a Python that can ``-m conda``), ``none`` hides them all.
    """
    env = os.environ if env is None else env
    named = env.get("RESUME_DL_CONDA", "").strip()
    if named:
        if named.lower() == "none":
            return []
        place = Path(named) if Path(named).name != named else find_program(named, env)
        return [_client(place.absolute())] if place is not None and is_file(place) else []
    found: dict[Path, Client] = {}
    for place in _places(env):
        if place not in found and is_file(place):
            found[place] = _client(place)
    order = ("conda", "mamba", "micromamba")
    return sorted(found.values(), key=lambda client: order.index(client.name))


def _client(place: Path) -> Client:
    stem = place.name.lower().split(".")[0]
    if stem.startswith(("python", "pypy")):
        return Client("conda", (str(place), "-m", "conda"))
    return Client("micromamba" if "micromamba" in stem else "mamba" if "mamba" in stem else "conda", (str(place),))


def _places(env: Mapping[str, str]) -> Iterator[Path]:
    for variable in ("CONDA_EXE", "CONDA_PYTHON_EXE", "MAMBA_EXE"):
        if Path(env.get(variable, "")).is_absolute():
            yield Path(env[variable])
    for name in ("conda", "mamba", "micromamba"):
        program = find_program(name, env)
        if program is not None:
            # condabin\conda.bat changes its caller's environment; the program that it calls is used.
            yield from _in_root(program.parent.parent) if program.suffix.lower() == ".bat" else (program,)
    for root in conda_roots(env):
        yield from _in_root(root)
    if not WINDOWS:
        yield home(env) / ".local" / "bin" / "micromamba"
        yield home(env) / "bin" / "micromamba"


def _in_root(root: Path) -> tuple[Path, ...]:
    if WINDOWS:
        folders, ending = [root / "Scripts", root / "Library" / "bin", root], ".exe"
    else:
        folders, ending = [root / "bin"], ""
    return tuple(folder / (name + ending) for name in ("conda", "mamba", "micromamba") for folder in folders)


def conda_roots(env: Mapping[str, str]) -> list[Path]:
    """Root prefixes, and environments that may be one; they need not exist."""
    own = home(env)
    found = [Path(env[name]) for name in ("CONDA_ROOT_PREFIX", "MAMBA_ROOT_PREFIX") if env.get(name)]
    exe = Path(env.get("CONDA_EXE", ""))
    if exe.is_absolute():
        found.append(exe.parent.parent)
    found.append(Path(sys.prefix))
    with suppress(OSError, UnicodeDecodeError):
        known = read_text(own / ".conda" / "environments.txt")
        for line in filter(None, map(str.strip, known.splitlines())):
            prefix = Path(line)
            found += [prefix, prefix.parent.parent] if prefix.parent.name == "envs" else [prefix]
    if WINDOWS:
        local = Path(env.get("LOCALAPPDATA") or own)
        folders = [own, local, Path(env.get("PROGRAMDATA", "C:/ProgramData")), Path("C:/tools"), Path("C:/")]
        found += [local / "micromamba", own / "AppData" / "Roaming" / "mamba"]
    else:
        folders = [own, own / "opt", own / ".local", Path("/opt"), Path("/usr/local")]
        found += [Path("/opt/homebrew/Caskroom", name, "base") for name in ("miniforge", "miniconda")]
    found += [folder / distribution for folder in folders for distribution in _DISTRIBUTIONS]
    found += [own / "micromamba", own / ".local" / "share" / "mamba"]
    return [root for root in dict.fromkeys(found) if root.is_absolute()]

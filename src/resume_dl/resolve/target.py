"""Compatibility of files with a Python on this or another machine: wheel tags (PEP 425, 600) and Requires-Python.

The resolver selects compatible files. The choice of the best one, and upper bounds of Requires-Python (PEP 345, 440),
follow pip and are decided here.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import packaging
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms, parse_tag, platform_tags, sys_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from resume_dl.model.platforms import TARGETS
from resume_dl.python_command import isolated_command

ASSUMED_GLIBC = (2, 28)
"""The glibc assumed for another Linux machine, as uv does."""
_OLDEST = 5
"""The minor version of manylinux1."""
_MACOS = (13, 0)
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_WINDOWS = {"x86": "win32", "AMD64": "win_amd64", "ARM64": "win_arm64"}
_ASK = "import sys; sys.path.insert(0, sys.argv[1]); from packaging.tags import sys_tags; print(*sys_tags(), sep='\\n')"
_PATIENCE = 30.0
"""Time limit in seconds for a Python to start and list its tags."""


def accepts_python(requires_python: str, python: str) -> bool:
    """Whether Requires-Python admits ``python`` (``3.10`` or ``3.10.4``); an invalid value admits every version."""
    return not requires_python or _accepts_python(requires_python, python)


@functools.lru_cache(maxsize=4096)
def _accepts_python(requires_python: str, python: str) -> bool:
    try:
        return SpecifierSet(requires_python).contains(python, prereleases=True)
    except InvalidSpecifier:
        return True


def best_wheel(filenames: Sequence[str], tags: Sequence[Tag]) -> str | None:
    """Return the wheel that pip chooses of one version: by best tag, then highest build; None if none is compatible.

    ``tags`` are the target's, best first.
    """
    order = {tag: number for number, tag in reversed([*enumerate(tags)])}
    best: tuple[tuple[int, tuple[int, str] | tuple[()]], str] | None = None
    for filename in filenames:
        try:
            _, _, build, its_tags = parse_wheel_filename(filename)
        except InvalidWheelFilename:
            continue
        ranks = [order[tag] for tag in its_tags if tag in order]
        if ranks and (best is None or (-min(ranks), build) > best[0]):
            best = ((-min(ranks), build), filename)
    return None if best is None else best[1]


def tags_for(python: str, platform: str | None, glibc: tuple[int, int] | None = None) -> list[Tag]:
    """Return the tags of this CPython version on ``platform`` (conda's subdir; None: this machine), best first.

    ``glibc`` is that of another Linux machine, if known.
    """
    platforms = [*platform_tags()] if platform is None else _platforms(platform, glibc or ASSUMED_GLIBC)
    major, minor = (int(part) for part in python.split(".")[:2])
    interpreter = f"cp{major}{minor}"
    abi = f"{interpreter}m" if (major, minor) < (3, 8) else interpreter
    return [
        *cpython_tags((major, minor), [abi], platforms),
        *compatible_tags((major, minor), interpreter, platforms),
    ]


def tags_of(interpreter: Path, env: Mapping[str, str]) -> list[Tag]:
    """Return the tags of this Python, best first; it may be another implementation or a free-threaded build.

    It is run to list them with ``packaging``, which pip vendors too. Empty if it cannot be run.
    """
    if interpreter == Path(sys.executable):
        return [*sys_tags()]
    library = str(Path(packaging.__file__).parents[1])
    command = isolated_command(str(interpreter), "-c", _ASK, library)
    flags: int = 0x08000000 if os.name == "nt" else 0  # CREATE_NO_WINDOW
    try:
        done = subprocess.run(
            command,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_PATIENCE,
            check=True,
            creationflags=flags,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [tag for line in done.stdout.split() for tag in parse_tag(line)]


def _platforms(platform: str, glibc: tuple[int, int]) -> list[str]:
    system, machine = TARGETS[platform]
    if system == "Windows":
        return [_WINDOWS[machine]]
    return [*(mac_platforms(_MACOS, machine) if system == "Darwin" else _linux(machine, glibc))]


def _linux(machine: str, glibc: tuple[int, int]) -> Iterator[str]:
    major, newest = glibc
    oldest = _OLDEST if machine == "x86_64" else 17
    for minor in range(newest, oldest - 1, -1):
        yield f"manylinux_{major}_{minor}_{machine}"
        if minor in _LEGACY:
            yield f"{_LEGACY[minor]}_{machine}"
    yield f"linux_{machine}"

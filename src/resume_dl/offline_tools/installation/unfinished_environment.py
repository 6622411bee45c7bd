"""The unfinished environment of a killed run, distinguished from files of other origin."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Mapping

from resume_dl import fs
from resume_dl.fs.removal import remove
from resume_dl.offline_tools.console import shown
from resume_dl.offline_tools.installation.environments import (
    is_conda_environment,
    lacks_files,
    read_info,
    read_text,
)
from resume_dl.offline_tools.installation.options import InstallError
from resume_dl.offline_tools.installation.plan import Plan
from resume_dl.offline_tools.installation.stage_places import stage_places
from resume_dl.offline_tools.machine.pip_python import python_of
from resume_dl.offline_tools.machine.programs import SHORT, run_quietly
from resume_dl.python_command import isolated_command

MAKING = "making"
"""File in the stage, with a token, while a new environment is being made."""
BEGUN = ".resume-dl-making"
"""File in that environment, with the same token: only if both agree may the environment be removed."""
_OF_A_VENV = re.compile(
    r"pyvenv\.cfg|\.gitignore|lib64|(bin|Scripts)/(activate|deactivate|python|pip|easy_install|\U0001d70bthon)[^/]*"
    r"|(bin|Scripts)/[^/]*\.dll|[Ll]ib(64)?/([^/]*/)?site-packages/(pip|setuptools|pkg_resources|wheel|_distutils_hack"
    r"|distutils-precedence\.pth|__pycache__)(-[^/]*)?(/.*)?",
    re.IGNORECASE,
)
"""Paths that ``python -m venv`` makes in a folder."""


def remove_environment(prefix: Path) -> None:
    """Remove the environment's files; a link to it, or a mount point, stays."""
    if prefix.is_dir():
        for each in sorted(prefix.iterdir(), key=lambda each: each.name == BEGUN):  # last: until then it is marked
            remove(each)
        with suppress(OSError):
            prefix.rmdir()


def token_in(place: Path) -> str:
    """The token in ``place``; empty if it is missing."""
    try:
        data = fs.read_regular(place, 64)
    except OSError:
        return ""
    return data.decode("ascii") if re.fullmatch(b"[0-9a-f]{32}", data) else ""


def marked_stage(plan: Plan) -> Path | None:
    """The stage of an interrupted run: its mark agrees with the token in the prefix."""
    token = token_in(plan.prefix / BEGUN)
    if not token:
        return None
    left = (stage for place in stage_places(plan) for stage in place.left())
    return next((stage for stage in left if token_in(stage / MAKING) == token), None)


def refuse_foreign_files(plan: Plan) -> None:
    """Raise InstallError if a killed run's environment also holds files of other origin, which are never removed."""
    stage = marked_stage(plan) if plan.rest else None
    stranger = foreign_file(plan, stage) if stage is not None else ""
    if stranger:
        text = f"{plan.prefix} exists and is not an environment: an earlier run stopped while it made it"
        name = shown(stranger)
        hint = f"{name} in it does not come from that run: move it away, or choose another place with -p or -n"
        raise InstallError(text, hint, 2)


def foreign_file(plan: Plan, stage: Path) -> str:
    """A file in the prefix that neither conda nor venv is known to have made; else empty. Raises OSError."""

    def raised(error: OSError) -> None:
        raise error

    ours = _Ours(plan, stage).has if plan.conda else _OF_A_VENV.fullmatch
    for folder, folders, files in os.walk(str(plan.prefix), onerror=raised):
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            path = Path(folder, name).relative_to(plan.prefix).as_posix()
            if path != BEGUN and not ours(path):
                return path
    return ""


class _Ours:
    """Files that conda makes: those of the unpacked packages, their bytecode, and its records."""

    def __init__(self, plan: Plan, stage: Path) -> None:
        self._files = {
            "conda-meta/history",
            "conda-meta/created_at",
            ".messages.txt",
        }  # created_at: newer versions of conda
        self._scripts: list[str] = []
        for each in plan.conda:
            self._files.add(f"conda-meta/{each.stem}.json")
            package = stage / "pkgs" / each.stem
            with suppress(OSError, ValueError):
                self._files.update(read_info(package, "files").splitlines())
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                paths = json.loads(read_info(package, "paths.json"))["paths"]
                self._files.update(str(path["_path"]) for path in paths)
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                noarch = json.loads(read_info(package, "link.json"))["noarch"]
                self._scripts += [str(line).partition("=")[0].strip() for line in noarch["entry_points"]]
            with suppress(OSError, ValueError, KeyError, TypeError):
                record = plan.prefix / "conda-meta" / f"{each.stem}.json"
                self._files.update(map(str, json.loads(read_text(record))["files"]))

    def has(self, path: str) -> bool:
        path = re.sub(r"(\.c~|\.conda_trash)$", "", path)  # files that conda is about to replace or remove
        if path in self._files:
            return True
        folder, _, name = path.rpartition("/")
        if folder in ("bin", "Scripts"):
            stem = re.sub(r"(-script\.pyw?|\.exe)$", "", name)
            return stem in self._scripts or f"python-scripts/{name}" in self._files
        _, inside, rest = path.partition("site-packages/")  # a noarch package does not say of which Python
        if inside and inside + rest in self._files:
            return True
        compiled = re.fullmatch(r"(.*/)?__pycache__/([^/.]+)\.[^/]*\.pyc", path)
        return compiled is not None and self.has(f"{compiled.group(1) or ''}{compiled.group(2)}.py")


def is_complete(plan: Plan, env: Mapping[str, str]) -> bool:
    """Whether a killed run's environment is usable: conda writes its history last, a venv gets pip last.

    Always true if it holds a package that we were not installing: another program has worked on it since.
    """
    if not is_conda_environment(plan.prefix):
        command = isolated_command(str(python_of(plan.prefix)), "-m", "pip", "--version")
        return not plan.conda and run_quietly(command, env, SHORT)[0] == 0
    records = list((plan.prefix / "conda-meta").glob("*.json"))
    others = {record.stem for record in records} - {each.stem for each in plan.conda}
    return bool(others) or not any(lacks_files(record, plan.prefix) for record in records)

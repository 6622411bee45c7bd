"""Folders of this machine that hold archives and wheels."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Iterable, Mapping

from resume_dl.offline_tools.machine.conda_clients import conda_roots
from resume_dl.offline_tools.machine.conda_info import CondaInfo
from resume_dl.offline_tools.machine.programs import WINDOWS, home


class ProbeError(Exception):
    """An error that ends a run: message, hint and exit code."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code


def pkgs_dirs(info: CondaInfo | None, env: Mapping[str, str] | None = None) -> list[Path]:
    """Existing package caches of this machine: those that a client names, then the usual places."""
    env = os.environ if env is None else env
    named = [Path(place) for place in info.pkgs_dirs] if info is not None else []
    if env.get("RESUME_DL_CONDA", "").strip().lower() != "none":
        variable = env.get("CONDA_PKGS_DIRS", "")
        named += [Path(place).expanduser() for place in variable.replace(",", os.pathsep).split(os.pathsep) if place]
        named += [root / "pkgs" for root in conda_roots(env)]
        named.append(home(env) / ".conda" / "pkgs")
        if WINDOWS and env.get("LOCALAPPDATA"):
            named.append(Path(env["LOCALAPPDATA"], "conda", "conda", "pkgs"))
    return existing_folders(named)


def wheel_dirs(env: Mapping[str, str] | None = None) -> list[Path]:
    """resume-dl's wheel folder, if it exists."""
    env = os.environ if env is None else env
    own = env.get("RESUME_DL_CACHE_DIR", "").strip()
    if own:
        cache = Path(own).expanduser()
    elif WINDOWS:
        cache = Path(env.get("LOCALAPPDATA") or home(env) / "AppData" / "Local", "resume-dl", "Cache")
    elif sys.platform == "darwin":
        cache = Path(env.get("XDG_CACHE_HOME") or home(env) / "Library" / "Caches", "resume-dl")
    else:
        cache = Path(env.get("XDG_CACHE_HOME") or home(env) / ".cache", "resume-dl")
    return existing_folders([cache / "wheels"])


def existing_folders(places: Iterable[Path]) -> list[Path]:
    """Those that exist, without duplicates."""
    found: dict[str, Path] = {}
    for place in places:
        with suppress(OSError):
            if place.is_absolute() and place.is_dir():
                found.setdefault(os.path.realpath(str(place)), place)
    return list(found.values())


def named_folders(places: Iterable[str]) -> list[Path]:
    """Folders that the user named. Raises ProbeError for a path that is not a folder."""
    found = []
    for place in places:
        path = Path(place).expanduser().absolute()
        if not existing_folders([path]):
            raise ProbeError(str(place) + " is not a folder", "name an existing folder, or leave it out", 2)
        found.append(path)
    return found

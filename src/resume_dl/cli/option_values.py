"""Values of options for the shell's completion: mirrors, channels, platforms, environments.

From files only, and empty where those cannot be read: a completion may not wait, fail or print.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from resume_dl.errors import ResumeDLError
from resume_dl.model.platforms import TARGETS

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from resume_dl.model.mirror import MirrorTable

_CONDA = "conda:"


def mirror_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the mirrors in use."""
    del context, parameter
    table = _table()
    names = [] if table is None else [mirror.name for mirror in table.mirrors if mirror.active]
    return [name for name in (*names, "upstream") if name.startswith(incomplete)]


def channel_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the channels that a mirror carries."""
    del context, parameter
    table = _table()
    origins = {origin for mirror in (table.mirrors if table else ()) for origin in mirror.carries}
    names = sorted(origin[len(_CONDA) :] for origin in origins if origin.startswith(_CONDA))
    return [name for name in names if name.startswith(incomplete)]


def platform_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Conda's names of platforms."""
    del context, parameter
    return [name for name in sorted(TARGETS) if name.startswith(incomplete)]


def environment_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The names of the conda environments that conda has noted."""
    del context, parameter
    names = sorted({each.name for each in _environments() if each.parent.name == "envs"})
    return [name for name in ("base", *names) if name.startswith(incomplete)]


def environment_folders(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str] | list[CompletionItem[str]]:
    """The folders of these environments, and what the option's type completes: any folder."""
    found = [str(each) for each in _environments() if str(each).startswith(incomplete)]
    others = parameter.type.shell_complete(context, parameter, incomplete)
    return [*map(type(others[0]), found), *others] if others else found


def _environments() -> list[Path]:
    from resume_dl.settings.own_file import read_own
    from resume_dl.settings.paths import home

    try:
        lines = read_own(home(os.environ) / ".conda" / "environments.txt").splitlines()
    except (OSError, ValueError, RuntimeError):  # RuntimeError: no home
        return []
    return [Path(line.strip()) for line in lines if line.strip() and not line.startswith("#")]


def _table() -> MirrorTable | None:
    from resume_dl.settings.mirrors import load_mirrors
    from resume_dl.settings.paths import find_paths

    try:
        return load_mirrors(user=find_paths(os.environ).mirrors_file)
    except (ResumeDLError, OSError, RuntimeError):  # RuntimeError: no home
        return None

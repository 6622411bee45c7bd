"""Values of options for the shell's completion: names of mirrors and channels; empty where they cannot be read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from resume_dl.errors import ResumeDLError

if TYPE_CHECKING:
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


def _table() -> MirrorTable | None:
    from resume_dl.settings.mirrors import load_mirrors
    from resume_dl.settings.paths import find_paths

    try:
        return load_mirrors(user=find_paths(os.environ).mirrors_file)
    except (ResumeDLError, OSError):
        return None

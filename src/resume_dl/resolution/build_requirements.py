"""Build requirements of the local projects that are left to pip, so that they can be fetched ahead.

pip builds in an isolated environment (PEP 517) and installs the build requirements into it, even those that the user's
environment already has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from resume_dl.model.pip import place_from
from resume_dl.resolve.pyproject_file import build_requirements

_NAME = re.compile(r"^[\w.-]+\s*(?:\[[^\]]*\])?\s*@\s+")
_EXTRAS = re.compile(r"\[[^\]]*\]$")


def is_built(place: str) -> bool:
    """Whether pip has to build the requirement's target; only a wheel is installed as it is."""
    return not _bare(place).lower().endswith(".whl")


def build_requirements_of(places: Sequence[str], folder: Path) -> list[tuple[str, ...]]:
    """Return the build requirements of each local folder among ``places``; paths are relative to ``folder``."""
    found = [build_requirements(path) for place in places if (path := _folder(place, folder)) is not None]
    return [tools for tools in dict.fromkeys(found) if tools]


def _folder(place: str, folder: Path) -> Path | None:
    try:
        path = place_from(_bare(place), folder)
    except ValueError:
        return None
    return path if isinstance(path, Path) and path.is_dir() else None


def _bare(place: str) -> str:
    """Return the path or URL alone, without name, marker, fragment and extras."""
    text = _NAME.sub("", place.strip()).partition(";")[0].partition("#")[0].strip()
    return _EXTRAS.sub("", text)

"""What is left to pip and has to be built there: which of it lies in a folder here, so that its tools can be fetched.

pip builds in an environment of its own (PEP 517), which it fills from what it may find: also with what is installed.
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
    """Whether pip has to build what a requirement names; a wheel it takes as it is."""
    return not _bare(place).lower().endswith(".whl")


def tools_of(places: Sequence[str], folder: Path) -> list[tuple[str, ...]]:
    """Requirements of each project among ``places`` that is a folder here, for its build; paths are from ``folder``."""
    found = [build_requirements(path) for place in places if (path := _folder(place, folder)) is not None]
    return [tools for tools in dict.fromkeys(found) if tools]


def _folder(place: str, folder: Path) -> Path | None:
    try:
        path = place_from(_bare(place), folder)
    except ValueError:
        return None
    return path if isinstance(path, Path) and path.is_dir() else None


def _bare(place: str) -> str:
    """It without name, marker, fragment and extras."""
    text = _NAME.sub("", place.strip()).partition(";")[0].partition("#")[0].strip()
    return _EXTRAS.sub("", text)

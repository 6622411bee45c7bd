"""The name under which a browser or a download manager has kept a package, and what it says. Pure.

Chrome and Edge write ``NAME.crdownload`` (before a name is chosen ``Unconfirmed 123456.crdownload``), Firefox
``NAME.part`` (newer ones ``Xy12AbCd.conda.part``), Safari a folder ``NAME.download`` with the file in it, Opera
``NAME.opdownload``, Xunlei ``NAME.td`` or ``NAME.xltd``, Free Download Manager ``NAME.fdmdownload``; aria2 keeps
``NAME.aria2`` beside a file that has its final name from the start. A second file of a name gets a number: ``NAME(1)``,
``NAME (1)``, ``NAME - Copy``, before or after the ending.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from packaging.utils import InvalidName, NormalizedName, canonicalize_name

from resume_dl.file_names import unsafe_name

UNFINISHED = (
    ".crdownload",
    ".part",
    ".partial",
    ".download",
    ".opdownload",
    ".fdmdownload",
    ".td",
    ".xltd",
)
"""Endings of files that their program has not finished."""
NOTES = (".aria2", ".td.cfg", ".xltd.cfg")
"""Endings of the notes that a program keeps beside a file while it is unfinished."""
CONDA = (".conda", ".tar.bz2")
WHEEL = ".whl"
_ENDINGS = (*CONDA, WHEEL)
_LONGEST_PROJECT = 255
"""Characters: a wheel's file name, which begins with its project's, is no longer."""
_COPY = re.compile(r"(?:[ _]?\(\d{1,4}\)|\[\d{1,4}\]| - Copy| - 副本| copy(?: \d{1,3})?)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DownloadName:
    """``names``: the file names of packages that it may stand for, likeliest first; empty if it says nothing."""

    names: tuple[str, ...]
    is_unfinished: bool

    @property
    def project(self) -> str:
        """The project of a wheel's name, as the name has it; empty for others."""
        wheel = next((name for name in self.names if name.endswith(WHEEL)), "")
        return wheel.partition("-")[0]


def normalized_project(name: str) -> NormalizedName | None:
    """Return a project's normalized name, which is safe in a page's address; None if it cannot be one (PEP 508)."""
    if len(name) > _LONGEST_PROJECT:
        return None
    try:
        return canonicalize_name(name, validate=True)
    except InvalidName:
        return None


def is_note(name: str) -> bool:
    """Whether a file of this name is a program's note beside a download, and no download."""
    return name.lower().endswith(NOTES)


def is_package_name(name: str) -> bool:
    """Whether a file of this name would be a package."""
    return any(name.endswith(ending) and len(name) > len(ending) for ending in _ENDINGS)


def read_name(name: str) -> DownloadName:
    """Read a file's name as what it may have been called before a program or a person changed it."""
    plain, unfinished = name, False
    while (ending := next((each for each in UNFINISHED if plain.lower().endswith(each)), "")) and plain != ending:
        plain, unfinished = plain[: -len(ending)], True
        plain = _COPY.sub("", plain)
    names = [plain, _without_number(plain)]
    if "+" not in plain and "%2B" in plain:  # some programs keep an address as it is written
        names += [each.replace("%2B", "+") for each in names]
    found = tuple(dict.fromkeys(each for each in names if is_package_name(each) and not unsafe_name(each)))
    return DownloadName(found, unfinished)


def _without_number(name: str) -> str:
    """Return ``name`` without the mark of a second copy, before or after its ending."""
    name = _COPY.sub("", name)
    for ending in _ENDINGS:
        if name.lower().endswith(ending):
            return _COPY.sub("", name[: -len(ending)]) + ending
    stem, dot, last = name.rpartition(".")  # name.tar(1).bz2
    plain = _COPY.sub("", stem) + dot + last
    return plain if plain.lower().endswith(".tar.bz2") else name


def shown_names(names: Sequence[str], projects: Iterable[str]) -> str:
    """Return what a file may be, for a message: its names, those of conda packages first, else its projects."""
    wheels = [name for name in names if name.endswith(WHEEL)]
    others = [name for name in names if not name.endswith(WHEEL)]
    return " or ".join(others or wheels or [f"a wheel of {', '.join(sorted(projects))}"])

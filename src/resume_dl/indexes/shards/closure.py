"""Transitive closure of the package names that a solve can reach. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

PYTHON, PIP = "python", "pip"


class Closure:
    """The names mentioned so far, each returned once.

    A record may depend on a name in any subdir of any channel, so names are looked up in all of them. With ``add_pip``
    python depends on pip (conda's ``add_pip_as_python_dependency``).
    """

    def __init__(self, *, add_pip: bool = False) -> None:
        self._names: set[str] = set()
        self._add_pip = add_pip

    @property
    def names(self) -> frozenset[str]:
        """All names so far."""
        return frozenset(self._names)

    def add(self, names: Iterable[str]) -> Collection[str]:
        """Add ``names``; return the new ones in alphabetical order."""
        new = {name.lower() for name in names} - self._names
        if self._add_pip and PYTHON in new and PIP not in self._names:
            new.add(PIP)
        self._names |= new
        return sorted(new)

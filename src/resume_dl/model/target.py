"""The machine that a bundle is for, as described by ``resume-dl probe``."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMachine:
    """The facts about another machine that a resolution needs."""

    platform: str
    """conda's subdir."""
    virtual_packages: tuple[str, ...] = ()
    """Its virtual packages except ``__cuda``, as ``__glibc=2.31`` (``SolveRequest.virtual_packages``)."""
    cuda: str | None = None
    """Its driver's CUDA version (``11.0``), or ``none``; None if unknown."""
    python: str | None = None
    """``3.10.4``: the Python that its pip installs for; None without one."""
    channels: tuple[str, ...] = ()
    """The channels that its conda is configured for; without those that only it can reach."""

    @property
    def glibc(self) -> tuple[int, int] | None:
        """Major and minor version of its glibc; None if unknown or another C library."""
        named = (re.fullmatch(r"__glibc=(\d+)\.(\d+).*", text) for text in self.virtual_packages)
        return next(((int(found[1]), int(found[2])) for found in named if found is not None), None)

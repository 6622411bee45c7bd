"""The machine that a bundle is for, as its own ``resume-dl probe`` saw it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMachine:
    """What a resolution for another machine has to know of it."""

    platform: str
    """conda's subdir."""
    virtual_packages: tuple[str, ...] = ()
    """All that it has, as ``__glibc=2.31`` (``SolveRequest.virtual_packages``), but ``__cuda``."""
    cuda: str | None = None
    """Its driver's version (``11.0``), or ``none``; None where nobody looked."""
    python: str | None = None
    """``3.10.4``: the Python that its pip installs for; None where there is none."""
    channels: tuple[str, ...] = ()
    """The channels that its conda is configured for; without those that only it can reach."""

    @property
    def glibc(self) -> tuple[int, int] | None:
        """Major and minor version of its C library; None where it is not known or another one."""
        named = (re.fullmatch(r"__glibc=(\d+)\.(\d+).*", text) for text in self.virtual_packages)
        return next(((int(found[1]), int(found[2])) for found in named if found is not None), None)

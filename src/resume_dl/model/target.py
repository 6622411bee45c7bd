"""The machine that a bundle is for, as its own ``resume-dl probe`` saw it."""

from __future__ import annotations

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

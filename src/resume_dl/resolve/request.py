"""The values that describe a solve: its request and its result."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from resume_dl.model.artifact import Artifact
from resume_dl.model.channel import Channel
from resume_dl.resolve.installed import Installed


@dataclass(frozen=True, slots=True)
class RepodataFile:
    """An uncompressed repodata.json on disk, of one channel and subdir."""

    channel: Channel
    subdir: str
    path: Path
    names: Path | None = None
    """A file with all package names of the index, one per line, if ``path`` holds only some records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SolveRequest:
    """A solve request; fields have the names and meaning of condarc's settings."""

    specs: tuple[str, ...]
    channels: tuple[Channel, ...]
    """In order of priority."""
    platform: str
    """The subdir to solve for, such as ``linux-64``; ``noarch`` is added to it."""
    channel_priority: str = "flexible"
    """``strict``, ``flexible`` or ``disabled``."""
    virtual_packages: tuple[str, ...] = ()
    """Overrides: ``__glibc=2.17``, ``__archspec=1=x86_64_v3``; an empty version (``__cuda=``) removes the package."""
    cuda: str | None = None
    """A driver's CUDA version (``11.0``), ``none``, or None for this machine's."""
    pinned: tuple[str, ...] = ()
    """``pinned_packages``: constraints on the packages of the environment."""
    add_pip: bool = True
    """``add_pip_as_python_dependency``"""
    use_only_tar_bz2: bool = False
    exclude_newer: datetime | None = None
    """Records with a later ``indexed_timestamp``, else ``timestamp``, are ignored; one without either is not."""
    elsewhere: bool = False
    """Whether the packages are for another machine, even one of the same platform."""
    installed: Installed = field(default_factory=Installed)
    """The content of the environment of ``-p``/``-n`` (``read_installed``); empty for a new one."""
    aggressive_updates: tuple[str, ...] = ()
    """``aggressive_update_packages``: installed packages that may change without a request."""
    default_packages: tuple[str, ...] = ()
    """``create_default_packages``: added to the specs of a new environment."""
    no_deps: bool = False
    only_deps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The packages to download for a request."""

    artifacts: tuple[Artifact, ...]
    """Sorted by name, without packages that the environment has. Their ``sources`` are empty."""
    notes: tuple[str, ...] = ()
    """Notes for the user on assumptions and attempts, one line each."""
    requested: tuple[str, ...] = ()
    """The names of the requested packages."""
    constraints: tuple[str, ...] = ()
    """Constraints from ``--cuda``; a plain ``conda`` command without them may choose other packages."""
    virtual_packages: tuple[str, ...] = ()
    """The virtual packages of the solve: ``__glibc=2.17=0``."""
    exclude_newer: str = ""
    """The request's, as ISO 8601 with seconds in UTC; empty for none."""
    already_installed: tuple[str, ...] = ()
    """``name-version-build`` of packages that the environment has and keeps."""

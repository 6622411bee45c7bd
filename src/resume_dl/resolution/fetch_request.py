"""The request of ``resume-dl fetch``, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.model.pip import PipIndexes
from resume_dl.model.target import TargetMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class PipOptions:
    """The pip options of a request; fields are named like the options."""

    requirements: tuple[str, ...] = ()
    indexes: PipIndexes = field(default_factory=PipIndexes)
    """Those of the command line; those of the settings precede them."""
    constraints: tuple[Path, ...] = ()
    python: str | None = None
    """The Python version, ``3.10``; None for that of the environment or of this machine."""
    wheel_dir: Path | None = None
    shared_wheel_dirs: tuple[Path, ...] = ()
    """Folders of wheels that may be another user's; they are only read."""
    allow_sdist: bool = False
    lock: Path | None = None
    """Where to write the pylock.toml (PEP 751)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """A request of ``resume-dl fetch``; fields are named like the options."""

    specs: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    channels: tuple[str, ...] = ()
    override_channels: bool = False
    platforms: tuple[str, ...] = ()
    environments: tuple[str, ...] = ()
    """Environments or categories of lock files; empty for those that the lock's own tool installs."""
    machines: Mapping[str, TargetMachine] = field(default_factory=dict)
    """Platform -> a described machine other than this one; options override its values."""
    no_deps: bool = False
    only_deps: bool = False
    virtual_packages: tuple[str, ...] = ()
    cuda: str | None = None
    channel_priority: str | None = None
    prefix: Path | None = None
    name: str | None = None
    solver: str = "rattler"
    exclude_newer: str | None = None
    """A date or duration (``model.exclude_newer``); None for condarc's, ``none`` for no date."""
    shards: bool = True
    """Whether to fetch indexes as shards of the packages that a solve can reach (CEP 16)."""
    pkgs_dir: Path | None = None
    rattler_cache: str | None = None
    """The folder of rattler's and pixi's cache; ``""`` for their default."""
    shared_rattler_caches: tuple[Path, ...] = ()
    """Other caches of rattler, which may be another user's; they are only read."""
    dest: Path | None = None
    bundle: Path | None = None
    """The folder of an offline bundle; files are laid out as a channel."""
    packs: bool = False
    """Whether to pack the folder into a tar beside it."""
    extract: bool = True
    dry_run: bool = False
    lock: Path | None = None
    pip: PipOptions = field(default_factory=PipOptions)

"""What ``resume-dl fetch`` was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.model.pip import PipIndexes
from resume_dl.model.target import TargetMachine


@dataclass(frozen=True, slots=True, kw_only=True)
class PipOptions:
    """The pip side of a request; names as its options'."""

    requirements: tuple[str, ...] = ()
    indexes: PipIndexes = field(default_factory=PipIndexes)
    """The command line's own; the settings' come before them."""
    constraints: tuple[Path, ...] = ()
    python: str | None = None
    """``3.10``; None for that of the environment, or of this machine."""
    wheel_dir: Path | None = None
    allow_sdist: bool = False
    lock: Path | None = None
    """Where the pylock.toml goes (PEP 751)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What ``resume-dl fetch`` was asked for; names as its options'."""

    specs: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    channels: tuple[str, ...] = ()
    override_channels: bool = False
    platforms: tuple[str, ...] = ()
    machines: Mapping[str, TargetMachine] = field(default_factory=dict)
    """Platform -> a machine of it that is not this one; its values count where no option says otherwise."""
    no_deps: bool = False
    only_deps: bool = False
    virtual_packages: tuple[str, ...] = ()
    cuda: str | None = None
    channel_priority: str | None = None
    prefix: Path | None = None
    name: str | None = None
    solver: str = "rattler"
    shards: bool = True
    """Whether indexes may come as the shards of the packages that a solve can come to (CEP 16)."""
    pkgs_dir: Path | None = None
    rattler_cache: str | None = None
    """The folder of rattler's and pixi's cache, ``""`` for where they keep it."""
    dest: Path | None = None
    bundle: Path | None = None
    """The folder of an offline bundle: plain files too, laid out as a channel."""
    packs: bool = False
    """They go into a tar beside that folder in the end."""
    extract: bool = True
    dry_run: bool = False
    lock: Path | None = None
    pip: PipOptions = field(default_factory=PipOptions)

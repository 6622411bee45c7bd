"""What ``resume-dl fetch`` was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchRequest:
    """What ``resume-dl fetch`` was asked for; names as its options'."""

    specs: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    channels: tuple[str, ...] = ()
    override_channels: bool = False
    platforms: tuple[str, ...] = ()
    no_deps: bool = False
    only_deps: bool = False
    virtual_packages: tuple[str, ...] = ()
    cuda: str | None = None
    channel_priority: str | None = None
    prefix: Path | None = None
    name: str | None = None
    solver: str = "rattler"
    pkgs_dir: Path | None = None
    dest: Path | None = None
    extract: bool = True
    dry_run: bool = False
    lock: Path | None = None

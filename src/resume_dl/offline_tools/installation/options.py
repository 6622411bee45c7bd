"""What the user asked for, and how an installation ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from resume_dl.offline_tools.console import Told, shown

CONDAS = ("conda", "mamba", "micromamba")


class InstallError(Exception):
    """What ends an installation: its text, what to do next, and the exit code of docs/interface.md."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(shown_lines(message))
        self.hint = shown_lines(hint)
        self.code = code


class Options(NamedTuple):
    """What the user asked for."""

    name: str = ""
    prefix: Path | None = None
    platform: str = ""
    """conda's subdir; empty: this machine's."""
    client: str = ""
    """``conda``, ``mamba``, ``micromamba`` or ``pip``; empty: what is there."""
    wheels: tuple[Path, ...] = ()
    """Folders with wheels that a delta relies on, beside resume-dl's own."""
    pkgs_dirs: tuple[Path, ...] = ()
    """Folders with conda packages that a delta relies on, beside conda's own caches."""
    manifest_sha256: str | None = None
    allowed_signers: Path | None = None
    signer: str | None = None
    dry_run: bool = False
    unpack_to: Path | None = None


class Outcome(NamedTuple):
    """How it ended."""

    prefix: Path
    platform: str
    trust: str
    """``signature``, ``digest`` or ``accidents``."""
    existed: bool
    """The environment was there before."""
    client: str
    """Who installed the conda packages; empty where there were none."""
    packages: list[dict[str, Any]]
    """Those of the manifest that this platform has, each with ``found``: where its bytes were, as a text."""
    warnings: list[str]
    planned: bool
    """It was a dry run."""


class Run:
    """One installation: what the user asked for, and where its lines for people go."""

    def __init__(self, options: Options, told: Told, env: dict[str, str], output: int) -> None:
        self.options = options
        self.told: Told = lambda text: told(shown_lines(text))
        self.env = env
        self.output = output
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Tell it now, and keep it for the outcome."""
        self.warnings.append(text)
        self.told("warning: " + text)


def shown_lines(text: str) -> str:
    """Lines with nothing in them that a terminal would obey."""
    return "\n".join(shown(line) for line in text.split("\n"))


def first_few(names: Any) -> str:
    """The first few of them."""
    listed = list(names)
    rest = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + rest

"""Options and outcome of an installation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from resume_dl.offline_tools.console import Log, shown

CONDAS = ("conda", "mamba", "micromamba")


class InstallError(Exception):
    """An error that ends an installation: message, hint and exit code (docs/interface.md)."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(shown_lines(message))
        self.hint = shown_lines(hint)
        self.code = code


class Options(NamedTuple):
    """The user's options."""

    name: str = ""
    prefix: Path | None = None
    platform: str = ""
    """conda's subdir; empty: this machine's."""
    client: str = ""
    """``conda``, ``mamba``, ``micromamba`` or ``pip``; empty: the first one found."""
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
    """The outcome of an installation."""

    prefix: Path
    platform: str
    trust: str
    """``signature``, ``digest`` or ``accidents``."""
    existed: bool
    """The environment existed before."""
    client: str
    """The client that installed the conda packages; empty if there were none."""
    packages: list[dict[str, Any]]
    """The manifest's packages for this platform, each with ``found``: the path of its bytes."""
    warnings: list[str]
    planned: bool
    """Whether it was a dry run."""


class Run:
    """One installation: the options, the log and the environment variables."""

    def __init__(self, options: Options, log: Log, env: dict[str, str], output: int) -> None:
        self.options = options
        self.log: Log = lambda text: log(shown_lines(text))
        self.env = env
        self.output = output
        self.warnings: list[str] = []

    def warn(self, text: str) -> None:
        """Log a warning, and keep it for the outcome."""
        self.warnings.append(text)
        self.log("warning: " + text)


def shown_lines(text: str) -> str:
    """Replace control characters in each line."""
    return "\n".join(shown(line) for line in text.split("\n"))


def first_few(names: Any) -> str:
    """The first few names, as one text."""
    listed = list(names)
    rest = f" and {len(listed) - 5} more" if len(listed) > 5 else ""
    return ", ".join(listed[:5]) + rest

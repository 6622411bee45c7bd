"""A user's machine in a folder: a home, settings folders, and an environment that names nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from resume_dl.settings.paths import Paths, find_paths


@dataclass
class Machine:
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def paths(self) -> Paths:
        return find_paths(self.env)

    def write(self, place: str, text: str) -> Path:
        file = self.home / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def program(self, name: str, body: str) -> Path:
        """A shell script that can be run; it counts its starts in ``<name>.runs``."""
        file = self.folder / name
        file.write_text(f'#!/bin/sh\necho "$@" >> {file}.runs\n{body}\n', encoding="utf-8")
        file.chmod(0o755)
        return file

    @staticmethod
    def runs(program: Path) -> int:
        log = Path(f"{program}.runs")
        return len(log.read_text(encoding="utf-8").splitlines()) if log.exists() else 0

"""Commands of the documentation's pages, typed into a shell.

shell = Shell(folder, environment)
for line in commands(page):
    shell.type(line)
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from support.processes import Run

GUARD = 600
"""Seconds after which a command is taken for hung."""
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: Path) -> list[str]:
    """What the page says to type, in order."""
    lines = "".join(_BLOCK.findall(page.read_text(encoding="utf-8"))).splitlines()
    assert all(line.startswith("$ ") for line in lines)
    return [line[2:] for line in lines]


def program(path: Path, before: str, *command: object) -> None:
    """Write a program that runs ``command`` with its own arguments, after the lines ``before``."""
    path.write_text(f'#!/bin/sh\n{before}\nexec {shlex.join(map(str, command))} "$@"\n', encoding="utf-8")
    path.chmod(0o755)


class Shell:
    """A bash in which a person types: what one command exports, the next one sees."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.state = folder.parent / "exported.sh"
        self.environment = environment
        self.state.touch()

    def start(self, command: str) -> Run:
        """Start a command, as Enter does."""
        keep = f"status=$?\nexport -p > {shlex.quote(str(self.state))}\nexit $status"
        script = f". {shlex.quote(str(self.state))}\n{command}\n{keep}"
        return Run(
            ["bash", "-c", script],
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # a group of its own, to which a terminal's Ctrl-C goes
        )

    def type(self, command: str) -> str:
        """Run a command to its end, which has to be a good one; returns what is on the screen."""
        with self.start(command) as process:
            screen, _ = process.communicate(timeout=GUARD)
        print(f"$ {command}\n{screen}")
        assert process.returncode == 0, command
        return screen

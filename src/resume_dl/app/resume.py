"""``resume``: the commands that continue what is unfinished, from the notes of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.app.leftovers import Leftover
from resume_dl.shell_commands import Step, command_line
from resume_dl.store.unfinished_runs import UnfinishedRun, environment_of

PROGRAM = "resume-dl"
_COMMANDS = {"fetch", "get", "verify", "adopt"}
_NESTED = {("bundle", "create"), ("pip", "install")}
_HIDDEN = "***"


@dataclass(frozen=True, slots=True)
class Continuation:
    """One command and its unfinished files. ``obstacle``: why it cannot be run as it is; empty if it can."""

    run: UnfinishedRun
    files: tuple[Leftover, ...]
    obstacle: str = ""
    hint: str = ""
    busy: bool = False
    """Every file is in use by another process, which continues it."""

    @property
    def arguments(self) -> tuple[str, ...]:
        """The words after the program's name."""
        return self.run.command[1:]

    @property
    def name(self) -> tuple[str, ...]:
        """The command's name: ``("get",)``, ``("bundle", "create")``."""
        return self.arguments[:2] if self.arguments[:2] in _NESTED else self.arguments[:1]

    @property
    def line(self) -> str:
        """The command as one types it in its folder."""
        return command_line([Step(self.run.command)])


def continuations(found: Sequence[Leftover], env: Mapping[str, str]) -> tuple[list[Continuation], list[Leftover]]:
    """The commands that continue ``found``, the oldest first, and the files that no command is known for."""
    by_run: dict[tuple[tuple[str, ...], Path], list[Leftover]] = {}
    unknown = []
    for each in found:
        if each.run is None or not each.run.command:
            unknown.append(each)
        else:
            by_run.setdefault((each.run.command, each.run.cwd), []).append(each)
    every = [_continuation(files, env) for files in by_run.values()]
    return sorted(every, key=lambda each: -max(file.age for file in each.files)), unknown


def _continuation(files: Sequence[Leftover], env: Mapping[str, str]) -> Continuation:
    runs = [file.run for file in files if file.run is not None]
    run = runs[0]
    obstacle, hint = _obstacle(run, env)
    return Continuation(run, tuple(files), obstacle, hint, busy=all(file.busy for file in files))


def _obstacle(run: UnfinishedRun, env: Mapping[str, str]) -> tuple[str, str]:
    words = run.command[1:]
    if run.command[0] != PROGRAM or not ((words[:1] and words[0] in _COMMANDS) or words[:2] in _NESTED):
        return "its note names no command that continues a download", "resume-dl clean removes the files"
    if any(_HIDDEN in word for word in words):
        return "its command has a login or token, which is not noted", "run it yourself, with yours in place of ***"
    if not run.cwd.is_dir():
        return f"its folder {run.cwd} no longer exists", "resume-dl clean removes the files"
    if words[:2] == ("pip", "install") and not any(word.split("=")[0] == "--python" for word in words):
        now = environment_of(env)
        if now != run.environment:
            active = run.environment or "no environment"
            return (
                f"it was started with {active} active, and pip would install elsewhere",
                "activate it, and run it again",
            )
    return "", ""

"""A child process that answers questions: without a terminal, with an output of its own, ended with its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, final

from resume_dl.errors import required


class ChildNotStartedError(Exception):
    """A program that could not be started; the text says why. Never leaves the settings package."""


@final
class ChildProcess:
    """A child process that is ended, with its own children, when the block ends.

    ``out``: a file, or ``subprocess.PIPE``. A grandchild that keeps a pipe open blocks its reader; what is secret goes
    through a pipe nevertheless, because a file would keep it. ``asked``: stdin is a pipe; else it is empty.
    """

    def __init__(
        self,
        line: Sequence[str],
        env: Mapping[str, str],
        out: IO[bytes] | int,
        *,
        folder: Path | None = None,
        asked: bool = False,
    ) -> None:
        self.line, self.env, self.out, self.folder, self.asked = line, env, out, folder, asked
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ChildProcess:
        try:
            self.process = subprocess.Popen(
                self.line,
                env=dict(self.env),
                cwd=self.folder,
                stdin=subprocess.PIPE if self.asked else subprocess.DEVNULL,
                stdout=self.out,
                stderr=subprocess.DEVNULL,
                start_new_session=sys.platform != "win32",
                creationflags=_no_window(),
            )
        except (OSError, ValueError) as error:
            raise ChildNotStartedError(f"could not be started ({type(error).__name__})") from error
        return self

    def wait(self, deadline: float) -> int | None:
        """The exit code, or None after the deadline."""
        process = required(self.process, "the child process")
        try:
            return process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process if it runs. Never raises."""
        if self.process is None:
            return
        if self.process.poll() is None:
            _kill(self.process)
        if self.process.stdin is not None:
            with suppress(OSError):
                self.process.stdin.close()


def _kill(process: subprocess.Popen[bytes]) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            process.kill()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        return  # stuck in the kernel: do not wait


def _no_window() -> int:
    return int(getattr(subprocess, "CREATE_NO_WINDOW", 0))

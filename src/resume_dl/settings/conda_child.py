"""A child process of conda's: started without a terminal and ended with its own children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, final

from resume_dl.errors import required
from resume_dl.settings.conda_answer import CondaAnswerError


@final
class CondaChild:
    """A child process that is ended, with its own children, when the block ends.

    Without ``out`` its stdin and stdout are pipes. Raises CondaAnswerError if it cannot be started.
    """

    def __init__(self, line: Sequence[str], env: Mapping[str, str], out: IO[bytes] | None = None) -> None:
        self.line, self.env, self.out = line, env, out
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> CondaChild:
        # A caller waits for the process and not for the end of a pipe, which a grandchild may keep open.
        try:
            self.process = subprocess.Popen(
                self.line,
                env=dict(self.env),
                stdin=subprocess.PIPE if self.out is None else subprocess.DEVNULL,
                stdout=subprocess.PIPE if self.out is None else self.out,
                stderr=subprocess.DEVNULL,
                start_new_session=sys.platform != "win32",
                creationflags=_no_window(),
            )
        except (OSError, ValueError) as error:
            raise CondaAnswerError(f"could not be started ({type(error).__name__})") from error
        return self

    def wait(self, deadline: float) -> int | None:
        """The exit code, or None after the deadline."""
        process = required(self.process, "conda's process")
        try:
            return process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return None

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Kill the process if it runs. Never raises."""
        if self.process is not None and self.process.poll() is None:
            _kill(self.process)
        if self.process is not None and self.process.stdin is not None:
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

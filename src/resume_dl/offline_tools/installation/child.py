"""conda or pip as a child process; Ctrl-C lets it roll back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Iterator, Mapping, Sequence

from resume_dl.offline_tools.installation.options import InstallError, Run
from resume_dl.offline_tools.installation.stage import Stage
from resume_dl.offline_tools.machine.programs import WINDOWS
from resume_dl.python_command import tolerant_output

_PATIENCE_AFTER_CTRL_C = 60.0
"""Seconds for conda to roll back."""


def run_to_end(run: Run, command: Sequence[str], env: Mapping[str, str], stage: Stage) -> int:
    """Run a program to its end; on Ctrl-C it may roll back, and is killed if that takes too long."""
    refused = [word for word in command if Path(command[0]).suffix.lower() in (".bat", ".cmd") and "%" in word]
    if refused:
        hint = "name conda.exe: set RESUME_DL_CONDA=C:\\path\\to\\Scripts\\conda.exe"
        raise InstallError(f"{refused[0]}: a batch file cannot be given a path with %", hint, 5)
    _flush()
    with _terminated_like_interrupted():
        try:
            process = subprocess.Popen(
                command,
                env=tolerant_output(env),
                cwd=str(stage.folder),
                stdin=subprocess.DEVNULL,
                stdout=run.output,
                start_new_session=not WINDOWS,  # Ctrl-C reaches only us; we pass it on once
                pass_fds=stage.descriptors,  # the child inherits the lock, so it outlives us if we are killed
            )
        except OSError as error:
            raise InstallError(
                f"{command[0]} cannot be started: {error.strerror}", "look at this program", 5
            ) from error
        try:
            return process.wait()
        except KeyboardInterrupt:
            run.log("stopping: waiting for the child process")
            _stop(process)
            raise


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Treat SIGTERM and a closed terminal as Ctrl-C, so that the child process is ended too."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [signal.SIGTERM] if sys.platform == "win32" else [signal.SIGTERM, signal.SIGHUP]
    heeded = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Send one interrupt, so that the child rolls back; then kill the process group."""
    try:
        if sys.platform != "win32":
            process.send_signal(signal.SIGINT)  # on Windows the console has sent it already
        process.wait(_PATIENCE_AFTER_CTRL_C)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        pass
    finally:
        with suppress(OSError):
            if sys.platform == "win32":
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
        process.wait()

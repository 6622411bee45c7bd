"""Programs of this machine: search on PATH, and runs with a time-out."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Iterable, Iterator, Mapping

from resume_dl.offline_tools.console import Log

SHORT = 30.0
"""Seconds for a Python, a driver's library or nvidia-smi."""
WINDOWS = sys.platform == "win32"
SECONDS_BETWEEN_LINES = 5.0
MOST_BYTES = 4 << 20
"""Most of a program's output that is read."""


def run_quietly(
    command: Iterable[str], env: Mapping[str, str], timeout: float, log: Log | None = None
) -> tuple[int | None, str]:
    """Run a program and return its exit code and stdout; (None, "") if it cannot run or does not end.

    Its child processes are ended too. It runs in an empty folder, because ``-m`` imports from the current one. ``log``
    gets a line if it takes long.
    """
    line = list(command)
    try:
        with tempfile.TemporaryFile() as out:  # no pipe: a grandchild that keeps it open would block the reader
            with _interrupt_deferred() as interrupted:
                process = subprocess.Popen(
                    line,
                    env=dict(env),
                    cwd=str(Path(line[0]).parent),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.DEVNULL,
                    start_new_session=not WINDOWS,
                    creationflags=int(getattr(subprocess, "CREATE_NO_WINDOW", 0)),
                )
            try:
                if interrupted:
                    raise KeyboardInterrupt
                code = _wait(process, min(timeout, SECONDS_BETWEEN_LINES))
                if code is None and timeout > SECONDS_BETWEEN_LINES:
                    if log is not None:
                        log(
                            "waiting for "
                            + " ".join(line)
                            + f", for {timeout - SECONDS_BETWEEN_LINES:.0f} s more at most"
                        )
                    code = _wait(process, timeout - SECONDS_BETWEEN_LINES)
            finally:
                _end(process)
            return (None, "") if code is None else (code, _text(out))
    except (OSError, ValueError):
        return None, ""


@contextmanager
def _interrupt_deferred() -> Iterator[list[int]]:
    """Collect Ctrl-C inside: raised while Popen starts a program, it would leave one that no code knows of."""
    interrupted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield interrupted  # signals are the main thread's
        return
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, handler)


def _wait(process: subprocess.Popen[bytes], timeout: float) -> int | None:
    """The exit code; None if it has not ended after ``timeout`` seconds."""
    try:
        return process.wait(max(0.0, timeout))
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(OSError):
        if WINDOWS:
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: do not wait
        process.wait(5)


def _text(out: IO[bytes]) -> str:
    out.seek(0)
    return out.read(MOST_BYTES).decode("utf-8", "replace")


def is_file(place: Path) -> bool:
    """Whether it is a file; False if access is denied (a folder of PATH, a Windows Store alias)."""
    try:
        return place.is_file()
    except OSError:
        return False


def find_program(name: str, env: Mapping[str, str]) -> Path | None:
    """The first program of this name on PATH; never in the current folder, which may be a bundle."""
    endings = [ending for ending in env.get("PATHEXT", ".EXE;.BAT").split(";") if ending] if WINDOWS else [""]
    for folder in env.get("PATH", "").split(os.pathsep):
        if Path(folder).is_absolute():
            for ending in endings:
                place = Path(folder, name + ending.lower())
                if is_file(place) and os.access(str(place), os.X_OK):
                    return place
    return None


def home(env: Mapping[str, str]) -> Path:
    """The user's home, as for ``~``."""
    named = env.get("USERPROFILE" if WINDOWS else "HOME", "")
    try:
        return Path(named) if named else Path.home()
    except RuntimeError:
        return Path(os.sep)  # a user unknown to the system

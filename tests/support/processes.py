"""Processes of a test that end with it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
"""Ends a process without its doing; on Windows each signal but those of the console does."""
WAS_KILLED = int(KILL) if sys.platform == "win32" else -int(KILL)
"""The exit code of a process that ``KILL`` ended."""


class Run(subprocess.Popen[str]):
    """A process that does not outlive its ``with`` block, however that is left: Popen alone would wait for it.

    Its pipes are closed then, so that a test that fails leaves nothing open for the next one to fail over.
    """

    def __exit__(self, *error: object) -> None:
        self.kill()
        super().__exit__(*error)


def has_ended(pid: int, *, within: float = 60.0) -> bool:
    """Wait until this process runs no more (a zombie does not): a signal that was sent has yet to arrive."""
    deadline = time.monotonic() + within
    while is_running(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def is_running(pid: int) -> bool:
    """Whether this process runs; a zombie does not."""
    if sys.platform == "win32":
        return _windows_runs(pid)
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _windows_runs(pid: int) -> bool:
    import ctypes

    kernel = ctypes.windll.kernel32
    kernel.OpenProcess.restype = ctypes.c_void_p
    synchronize, timeout = 0x00100000, 0x102
    handle = ctypes.c_void_p(kernel.OpenProcess(synchronize, False, pid))
    if not handle:
        return False
    try:
        return kernel.WaitForSingleObject(handle, 0) == timeout
    finally:
        kernel.CloseHandle(handle)

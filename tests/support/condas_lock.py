"""Another process that works on a ``.partial``, as far as conda's lock tells: one byte at offset 21."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK = """
import os, sys

def lock(file, start, count):
    if os.name == "nt":  # as conda's gateways/disk/lock.py
        import msvcrt
        os.lseek(file.fileno(), start, os.SEEK_SET)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, count)
    else:
        import fcntl
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, start)

"""
"""The source of ``lock(file, start, count)``, for a process of its own."""
_HOLDER = LOCK + "file = open(sys.argv[1], 'a+b'); lock(file, 21, 1); print('held', flush=True); sys.stdin.read()"


@contextmanager
def another_conda_works_on(partial: Path) -> Iterator[None]:
    """Hold the lock in a process of its own while the block runs."""
    command = [sys.executable, "-c", _HOLDER, str(partial)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.stdin.close()

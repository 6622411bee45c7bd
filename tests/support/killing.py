"""Processes that are killed at a moment of the test's choice."""

from __future__ import annotations

import os
import sys

from support.processes import KILL


def kill_at(number: int) -> None:
    """Kill this process at its ``number``-th file operation, before it is carried out."""
    seen = 0

    def watch(event: str, _: object) -> None:
        nonlocal seen
        if event in {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}:
            seen += 1
            if seen == number:
                os.kill(os.getpid(), KILL)

    sys.addaudithook(watch)

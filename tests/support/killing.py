"""Processes that are killed at a moment of the test's choice."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable

from support.processes import KILL

_CONTEXT = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")


def exit_code_of(action: Callable[..., object], *arguments: object) -> int:
    """Call ``action`` in a child process, forked where that is possible; its exit code as subprocess gives it.

    For tests that kill a process hundreds of times: an interpreter each would take most of their time. The arguments
    and the action, a module's function, can be pickled. Raises AssertionError if the child does not end in a minute.
    """
    child = _CONTEXT.Process(target=action, args=arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child uses nothing but files
        child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
        child.join()
        raise AssertionError("the child process did not end")
    return child.exitcode


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

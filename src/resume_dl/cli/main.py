"""The entry point; imports nothing at first, so that an early Ctrl-C prints one word and no traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code of interface.md."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if sys.stderr is None or sys.stdout is None:
            _open_missing_streams()
        from resume_dl.cli.outcome import outcome
        from resume_dl.offline_tools.console import show_unencodable_by_number

        show_unencodable_by_number()
        return outcome(given)
    except KeyboardInterrupt:
        sys.stderr.write("stopped\n")  # click may not be loaded yet
        return 130


def _open_missing_streams() -> None:
    """Open the null device for closed standard streams; else the next opened file would get their output."""
    number = os.open(os.devnull, os.O_RDWR)
    while number <= 2:
        os.set_inheritable(number, True)
        number = os.open(os.devnull, os.O_RDWR)
    os.close(number)
    if sys.stderr is None:
        sys.stderr = _null_device()
    if sys.stdout is None:
        sys.stdout = _null_device()


def _null_device() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")

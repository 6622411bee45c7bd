"""Lines to the user, on stderr: stdout may be JSON."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from resume_dl.errors import ResumeDLError
from resume_dl.progress.console import Console

_told: set[str] = set()


def say(text: str) -> None:
    """One line; a closed stderr is no error, and nothing that others wrote drives the terminal."""
    with suppress(AttributeError):  # there is no stderr at all
        Console(sys.stderr).line(f"resume-dl: {text}")
    settle()


def say_failure(text: str, error: BaseException) -> None:
    """``text``, which tells of ``error``; nothing where the same was told before, of another step of this command."""
    reason = in_one_line(error)
    if reason not in _told:
        _told.add(reason)
        say(text)


def settle() -> None:
    """Have what was said written. What cannot be is given up: Python would end a good run with 120 for it."""
    try:
        sys.stderr.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except (ValueError, AttributeError):
        return


def in_one_line(error: BaseException) -> str:
    """What went wrong, for the middle of a sentence."""
    what = error.message if isinstance(error, ResumeDLError) else f"{type(error).__name__}: {error}"
    return " ".join(what.split())[:300]

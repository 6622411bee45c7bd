"""Messages to the user, on stderr because stdout may be JSON."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from resume_dl.errors import ResumeDLError
from resume_dl.progress.console import Console

_reported: set[str] = set()


def say(text: str) -> None:
    """Print one line, with control characters escaped. A closed stderr is not an error."""
    with suppress(AttributeError):  # sys.stderr is None
        Console(sys.stderr).line(f"resume-dl: {text}")
    flush_stderr()


def say_failure(text: str, error: BaseException) -> None:
    """Print ``text``, which reports ``error``, unless this command has already reported the same error."""
    reason = in_one_line(error)
    if reason not in _reported:
        _reported.add(reason)
        say(text)


def flush_stderr() -> None:
    """Flush stderr; if that fails, discard it, because Python would otherwise exit with 120 after a good run."""
    try:
        sys.stderr.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())
    except (ValueError, AttributeError):
        return


def in_one_line(error: BaseException) -> str:
    """The error as a phrase of one line."""
    what = error.message if isinstance(error, ResumeDLError) else f"{type(error).__name__}: {error}"
    return " ".join(what.split())[:300]

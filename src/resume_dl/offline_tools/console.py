"""Output to people: lines on stderr without control characters, sizes and names."""

import io
import os
import sys
from contextlib import suppress
from typing import Callable


def shown(text: str) -> str:
    """Replace characters that control a terminal or cannot be printed."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def show_unencodable_by_number() -> None:
    r"""Write a character that the encoding of stdout or stderr lacks by its number, as ``\xf8``, instead of raising.

    Redirected output has the code page of the system, where many names of files cannot be written.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError, ValueError):  # closed, or its descriptor was replaced by another kind of file
                stream.reconfigure(errors="backslashreplace")


def settle() -> None:
    """Flush the output at the end of a script; a closed pipe does not change the exit code.

    What cannot be written is dropped: Python would fail on it again at exit, with exit code 120
    (docs.python.org, signal: "Note on SIGPIPE").
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (AttributeError, ValueError):
            pass  # it is missing or closed


Log = Callable[[str], None]


def tell(text: str) -> None:
    """Print a line to stderr; a closed stderr is no error."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()

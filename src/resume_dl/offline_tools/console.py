"""Lines for people: on stderr, without what a terminal would obey; sizes and names as they are shown."""

import os
import sys
from contextlib import suppress
from typing import Callable


def shown(text: str) -> str:
    """The text with nothing in it that a terminal would obey or could not print."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def settle() -> None:
    """At the end of a script: a reader that has gone away changes no exit code.

    What nobody takes is dropped: Python would fail over it once more while it ends, with exit code 120
    (docs.python.org, signal: "Note on SIGPIPE").
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (AttributeError, ValueError):
            pass  # there is none, or it is closed


Told = Callable[[str], None]


def tell(text: str) -> None:
    """A line on stderr; a closed stderr is no error."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text.encode("utf-8", "backslashreplace").decode("utf-8") + "\n")
        sys.stderr.flush()

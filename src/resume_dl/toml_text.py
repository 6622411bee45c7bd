"""TOML of files that others wrote: every way in which a parser refuses one is the same error."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class TomlError(ValueError):
    """A text is not valid TOML; the message is the parser's."""


def load_toml(text: str) -> dict[str, Any]:
    """Return the document. Raises TomlError.

    RecursionError: tables within tables, or lists, deeper than the stack; ValueError: a number of more digits than
    Python reads.
    """
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TomlError(str(error)) from error

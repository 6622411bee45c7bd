"""The values of a lock file's document, checked by type as they are read. Pure; errors name the key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from resume_dl.errors import ConfigurationError
from resume_dl.model.url import brief, scrub

_HINT = "create the lock file again; do not edit it"
_KINDS = {dict: "a table", list: "a list", str: "a text", bool: "true or false", int: "a number", type(None): "empty"}


def refuse(where: str, what: str, *, hint: str = _HINT) -> NoReturn:
    """Raise ConfigurationError: ``where`` is the file and the key."""
    raise ConfigurationError(f"{scrub(where)}: {brief(what)}", hint=hint)


def checked_size(size: int | None, where: str) -> int | None:
    """``size`` if it may be that of a file. Raises ConfigurationError."""
    if size is not None and not 0 <= size < 1 << 63:
        refuse(where, "is not a size in bytes")
    return size


class LockFields:
    """One table of a document; ``where`` names the file and the table."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            refuse(where, f"is {_kind(value)}, not a table")
        self._values: Mapping[Any, Any] = value
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def version(self, key: str, *known: int) -> int:
        """The format's version, which is one of ``known``."""
        value = self._values.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value not in known:
            supported = " or ".join(map(str, known))
            refuse(
                f"{self.where}, {key}",
                f"is {_shown(value)}; only {supported} is supported",
                hint="create the lock file again with a version of its tool that writes this format",
            )
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A text; ``default`` if the key is missing, else that is an error."""
        value = self._values.get(key, default)
        if not isinstance(value, str):
            refuse(
                f"{self.where}, {key}", "is missing" if key not in self._values else f"is {_kind(value)}, not a text"
            )
        return value

    def size(self, key: str) -> int | None:
        """A file's size in bytes; None if the key is missing."""
        value = self._values.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            refuse(f"{self.where}, {key}", "is not a size in bytes")
        return checked_size(value, f"{self.where}, {key}")

    def table(self, key: str) -> LockFields:
        """A table below this one; an empty one if the key is missing."""
        value = self._values.get(key)
        return LockFields({} if value is None else value, f"{self.where}, {key}")

    def tables(self, key: str) -> Iterator[LockFields]:
        """The tables of a list, with their number from 1; none if the key is missing."""
        for number, value in enumerate(self.entries(key), 1):
            yield LockFields(value, f"{self.where}, {key} {number}")

    def entries(self, key: str) -> list[Any]:
        """A list; an empty one if the key is missing."""
        value = self._values.get(key)
        if value is not None and not isinstance(value, list):
            refuse(f"{self.where}, {key}", f"is {_kind(value)}, not a list")
        return value or []

    def texts(self, key: str) -> list[str]:
        """A list of texts; an empty one if the key is missing."""
        found = self.entries(key)
        if not all(isinstance(each, str) for each in found):
            refuse(f"{self.where}, {key}", "is not a list of texts")
        return found

    def names(self) -> list[str]:
        """The keys of the table, as texts."""
        return [str(key) for key in self._values]


def _shown(value: Any) -> str:
    """A value of any type and length; a list of YAML aliases may have more texts than the memory.

    A number may have more digits than Python writes.
    """
    if isinstance(value, int) and abs(value) >= 1 << 64:
        return "a long number"
    return _kind(value) if isinstance(value, (dict, list, tuple, set)) else repr(str(value)[:20])


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), f"a {type(value).__name__}")

"""Changes of the user's mirrors.toml, with its comments kept: a mirror is added at the end or cut out.

The text is edited by lines, because no TOML parser here keeps comments; each result is parsed and compared with what it
has to be, and a file in which that fails (inline tables, for example) is left to the user.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError, NotWritableError
from resume_dl.model.mirror import RETIRED, Mirror, MirrorTable
from resume_dl.settings.mirrors import SCHEMA, base_table, parse_mirrors
from resume_dl.settings.own_file import read_own
from resume_dl.store.platform import make_folder, write_durably
from resume_dl.toml_text import TomlError, load_toml

_MIRROR = re.compile(r"\s*\[\[\s*mirror\s*\]\]\s*(?:#.*)?")
_OTHER_HEADER = re.compile(r"\s*\[(?!\s*mirror\s*\.)")
_REMOVED = "removed with `resume-dl mirrors remove`"


class MirrorFile:
    """The user's own mirrors.toml, which need not exist; every change is written at once, whole or not at all."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._base = base_table(path)
        self._text = _read(path)

    def add(self, mirror: Mirror) -> None:
        """Add a mirror, or origins to a built-in one; without any, undo ``remove`` of a built-in one.

        Raises ConfigurationError for invalid values and a name that the file has, NotWritableError.
        """
        own = self._own()
        is_built_in = mirror.name in set(self._base.names())
        if not mirror.carries:
            if not is_built_in or mirror.name not in set(own.names()):
                raise ConfigurationError(
                    f"{mirror.name!r} needs an origin and its address",
                    hint=f"resume-dl mirrors add {mirror.name} conda-forge=https://…/conda-forge",
                )
            self._write(self._without(mirror.name))
            return
        if mirror.name in set(own.names()):
            hint = f"resume-dl mirrors remove {mirror.name}, then add it again; or edit the file"
            raise ConfigurationError(f"{self._path} has a mirror {mirror.name!r} already", hint=hint)
        self._write(_with(self._text, mirror))

    def remove(self, name: str) -> bool:
        """Remove a mirror; a built-in one is marked as retired. Returns whether it is a built-in one.

        Raises ConfigurationError for an unknown or retired name, NotWritableError.
        """
        own, built_in = self._own(), {mirror.name: mirror for mirror in self._base.mirrors}
        merged = {mirror.name: mirror for mirror in self._base.merge(own).mirrors}
        if name not in merged:
            raise ConfigurationError(f"there is no mirror named {name!r}", hint=f"known: {', '.join(sorted(merged))}")
        is_own = name in set(own.names())
        if name in built_in and not merged[name].active:
            raise ConfigurationError(f"{name!r} is not in use already", hint="resume-dl mirrors list shows what is")
        text = self._without(name) if is_own else self._text
        self._write(_with(text, Mirror(name, status=RETIRED, note=_REMOVED)) if name in built_in else text)
        return name in built_in

    def _own(self) -> MirrorTable:
        return parse_mirrors(_parse(self._text, self._path), str(self._path))

    def _without(self, name: str) -> str:
        """The text without that mirror's lines. Raises ConfigurationError if they cannot be told from the rest."""
        document = _parse(self._text, self._path)
        entries = document["mirror"]
        number = [entry["name"] for entry in entries].index(name)
        expected: dict[str, Any] = {**document, "mirror": [*entries[:number], *entries[number + 1 :]]}
        if not expected["mirror"]:
            del expected["mirror"]
        lines = self._text.splitlines(keepends=True)
        starts = [index for index, line in enumerate(lines) if _MIRROR.fullmatch(line.rstrip("\r\n"))]
        if number < len(starts):
            start = starts[number]
            rest = range(start + 1, len(lines))
            end = next((index for index in rest if _OTHER_HEADER.match(lines[index])), len(lines))
            while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
                end -= 1  # the comments above the next header are about that
            text = "".join(lines[:start] + lines[end:])
            if _is(text, expected):
                return text
        raise ConfigurationError(
            f"{self._path} is not written in a way that can be changed", hint=f"remove the mirror {name!r} by hand"
        )

    def _write(self, text: str) -> None:
        parse_mirrors(_parse(text, self._path), str(self._path))
        target = Path(os.path.realpath(self._path))  # many users keep their settings elsewhere
        try:
            make_folder(target.parent)
            write_durably(target, text.encode())
        except OSError as error:
            raise NotWritableError(
                f"{self._path} cannot be written: {error.strerror or error}", hint="check its folder and permissions"
            ) from error
        self._text = text


def _read(path: Path) -> str:
    try:
        return read_own(path)
    except FileNotFoundError:
        return f"schema = {SCHEMA}\n"
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"cannot read the mirrors in {path}", hint="it must be a UTF-8 text file") from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return load_toml(text)
    except TomlError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}", hint="correct the line named") from error


def _is(text: str, expected: Mapping[str, Any]) -> bool:
    try:
        return load_toml(text) == expected
    except TomlError:
        return False


def _with(text: str, mirror: Mirror) -> str:
    """``text`` with the mirror at its end. Raises ConfigurationError for values that no line can hold."""
    texts = ("name", "title", "home", "operator", "sync_status", "status", "note")
    values = {key: getattr(mirror, key) for key in texts if getattr(mirror, key)}
    lines = [f"{key} = {_quoted(value)}" for key, value in values.items()]
    if mirror.connections is not None:
        lines.append(f"connections = {mirror.connections}")
    if mirror.carries:
        lines += ["[mirror.carries]", *(f"{_quoted(name)} = {_quoted(url)}" for name, url in mirror.carries.items())]
    gap = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{gap}\n[[mirror]]\n" + "".join(f"{line}\n" for line in lines)


def _quoted(value: str) -> str:
    """A TOML basic string; JSON's escapes are valid there."""
    if not value.isprintable():
        raise ConfigurationError(f"{value!r} has a character that cannot be shown", hint="remove it")
    return json.dumps(value, ensure_ascii=False)

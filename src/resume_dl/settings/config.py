"""The user's defaults for options, from config.toml."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.settings.own_file import read_own
from resume_dl.toml_text import TomlError, load_toml

_FLAGS = (
    "override_channels", "no_deps", "only_deps", "no_extract", "dry_run", "no_upstream", "json", "no_wait", "quiet",
    "verbose", "debug", "offline", "refresh", "no_shards", "allow_sdist", "pre",
)  # fmt: skip
OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(_FLAGS, "flag"),
    **dict.fromkeys(("connections", "per_host"), "whole number"),
    **dict.fromkeys(
        ("limit_rate", "give_up_after", "max_index_size", "index_max_age", "cuda", "exclude_newer"), "text or number"
    ),
    **dict.fromkeys(
        ("channel_priority", "name", "solver", "progress", "proxy_auth", "python", "index_url", "keyring_provider"),
        "text",
    ),
    **dict.fromkeys(("pkgs_dir", "wheel_dir", "rattler_cache", "dest", "prefix", "mirrors", "debug_trace"), "path"),
    **dict.fromkeys(
        ("channel", "platform", "environment", "virtual_package", "mirror", "pip", "extra_index_url", "find_links"),
        "list",
    ),
    **dict.fromkeys(("file", "lock", "shared_wheel_dir", "shared_rattler_cache"), "list of paths"),
    "index_from": "list",
}
"""The long options allowed in config.toml, with underscores for hyphens, and their types."""

_TABLES = {"trust": frozenset({"index_from"})}
"""Options allowed only in a table of their own."""
_TABLED = {name: table for table, names in _TABLES.items() for name in names}
_OF_ONE_FILE = frozenset({"output", "sha256", "md5", "mirror_url"})
_WANTED = {
    "flag": "true or false",
    "whole number": "a whole number",
    "text or number": "a string or a number",
    "text": "a text",
    "path": "a string, the path",
    "list": "a list of texts",
    "list of paths": "a list of strings, the paths",
}


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong in config.toml; ``line`` is None where the message has the place, or there is none."""

    line: int | None
    message: str
    hint: str


def load_config(file: Path) -> dict[str, Any]:
    """Option name (underscores) -> default value, from one TOML file; empty if there is no such file.

    A value is a string, a number, true or false, or a list of strings for a repeatable option (or one string); ``~`` in
    a path is the home folder. The command line checks the content of strings. ``limit-rate`` and ``limit_rate`` are
    the same. Raises ConfigurationError naming the file and the key.
    """
    options: dict[str, Any] = {}
    for table, key, value in _entries(_document(_text(file), file)):
        name, content = _option(table, key, value, options, file)
        options[name] = content
    return options


def find_mistakes(file: Path, check: Callable[[str, Any], str] = lambda *_: "") -> list[Mistake]:
    """Every mistake in the file, in its order; ``check`` gives what is wrong with an option's value, if anything."""
    try:
        text = _text(file)
        entries = [*_entries(_document(text, file))]
    except ConfigurationError as error:
        return [Mistake(None, error.message, error.hint)]
    options: dict[str, Any] = {}
    found = []
    for table, key, value in entries:
        line = _line_of(text, table, key)
        try:
            name, content = _option(table, key, value, options, file)
            options[name] = content
        except ConfigurationError as error:
            found.append(Mistake(line, error.message.removeprefix(f"{file}: "), error.hint))
            continue
        if wrong := check(name, content):
            found.append(Mistake(line, f"{key!r}: {wrong}", ""))
    return sorted(found, key=lambda each: each.line or 0)


def _text(file: Path) -> str:
    try:
        return read_own(file)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {file}: {error.strerror or error}", hint="it must be a readable text file"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", hint="correct the line named") from error


def _document(text: str, file: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = load_toml(text)
        return document
    except TomlError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", hint="correct the line named") from error


def _entries(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Table (empty for none), key and value of each entry."""
    for key, value in document.items():
        if key in _TABLES and isinstance(value, dict):
            yield from ((key, inner, content) for inner, content in value.items())
        else:
            yield "", key, value


def _option(table: str, key: str, value: Any, known: Container[str], file: Path) -> tuple[str, Any]:
    """Name and value of one entry; ``known``: the names before it. Raises ConfigurationError."""
    name = key.replace("-", "_")
    if table and name not in _TABLES[table]:
        names = ", ".join(sorted(_TABLES[table]))
        raise ConfigurationError(f"{file}: {key!r} is not a key of [{table}]", hint=f"known there: {names}")
    if name in _OF_ONE_FILE:
        raise ConfigurationError(
            f"{file}: {key!r} cannot be set for every download",
            hint=f"give it with its file: resume-dl get URL --{name.replace('_', '-')} …",
        )
    if name in _TABLED and not table:
        raise ConfigurationError(f"{file}: {key!r} is not an option", hint=f"it belongs below [{_TABLED[name]}]")
    if name not in OPTIONS:
        near = difflib.get_close_matches(name, OPTIONS, n=1)
        hint = f"did you mean {near[0].replace('_', '-')}?" if near else "see `resume-dl fetch --help` for the options"
        raise ConfigurationError(f"{file}: {key!r} is not an option", hint=hint)
    if name in known:
        raise ConfigurationError(f"{file}: {key!r} occurs twice", hint="keep one of the two spellings")
    kind = OPTIONS[name]
    if not _fits(kind, value):
        raise ConfigurationError(
            f"{file}: {key!r} is {_shown(value)}, not {_WANTED[kind]}", hint=f"give {_WANTED[kind]}"
        )
    return name, _converted(kind, value)


def _line_of(text: str, table: str, key: str) -> int | None:
    """The number of the line, from 1, on which a key or a table is set; None if none looks like it."""
    name = rf"""["']?{re.escape(key)}["']?"""
    inside = not table
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+\s*([^\]]*?)\s*\]", line)
        if header:
            inside = header[1].strip("\"'") == table
            if not table and re.fullmatch(rf"{name}(\s*\..*)?", header[1]):
                return number
        if re.match(rf"\s*{name}\s*[=.]", line) and inside:
            return number
        if table and re.match(rf"\s*{re.escape(table)}\s*(\.\s*{name}\s*=|=.*\b{name}\s*=)", line):
            return number
    return None


def _fits(kind: str, value: Any) -> bool:
    if kind == "flag" or isinstance(value, bool):
        return kind == "flag" and isinstance(value, bool)
    if kind == "whole number":
        return isinstance(value, int)
    if kind == "text or number":
        return isinstance(value, (str, int, float))
    if kind.startswith("list") and isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, str)


def _converted(kind: str, value: Any) -> Any:
    if kind.startswith("list"):
        texts = [value] if isinstance(value, str) else value
        return [_expanded(text) for text in texts] if kind == "list of paths" else texts
    return _expanded(value) if kind == "path" else value


def _expanded(text: str) -> str:
    try:
        return str(Path(text).expanduser())
    except RuntimeError:  # no such user, or no home
        return text


def _shown(value: Any) -> str:
    """A value for a message: short, without the content of a container."""
    return repr(value) if isinstance(value, (str, int, float)) else f"a {type(value).__name__}"

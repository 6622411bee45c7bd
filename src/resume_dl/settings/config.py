"""The user's defaults for options, from config.toml."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.settings.own_file import read_own

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_FLAGS = (
    "override_channels", "no_deps", "only_deps", "no_extract", "dry_run", "no_upstream", "json", "no_wait", "quiet",
    "verbose", "debug", "offline", "refresh", "no_shards", "allow_sdist", "pre",
)  # fmt: skip
OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(_FLAGS, "flag"),
    **dict.fromkeys(("connections", "per_host"), "whole number"),
    **dict.fromkeys(("limit_rate", "give_up_after", "max_index_size", "index_max_age", "cuda"), "text or number"),
    **dict.fromkeys(("channel_priority", "name", "solver", "progress", "python", "index_url"), "text"),
    **dict.fromkeys(("pkgs_dir", "wheel_dir", "rattler_cache", "dest", "prefix", "mirrors", "debug_trace"), "path"),
    **dict.fromkeys(
        ("channel", "platform", "virtual_package", "mirror", "pip", "extra_index_url", "find_links"), "list"
    ),
    **dict.fromkeys(("file", "lock"), "list of paths"),
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


def load_config(file: Path) -> dict[str, Any]:
    """Option name (underscores) -> default value, from one TOML file; empty if there is no such file.

    A value is a string, a number, true or false, or a list of strings for a repeatable option (or one string); ``~`` in
    a path is the home folder. The command line checks the content of strings. ``limit-rate`` and ``limit_rate`` are
    the same. Raises ConfigurationError naming the file and the key.
    """
    try:
        document = tomllib.loads(read_own(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {file}: {error.strerror or error}", hint="it must be a readable text file"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", hint="correct the line named") from error
    options: dict[str, Any] = {}
    for table, key, value in _entries(document, file):
        name = key.replace("-", "_")
        if name in _OF_ONE_FILE:
            raise ConfigurationError(
                f"{file}: {key!r} cannot be set for every download",
                hint=f"give it with its file: resume-dl get URL --{name.replace('_', '-')} …",
            )
        if name in _TABLED and not table:
            raise ConfigurationError(f"{file}: {key!r} is not an option", hint=f"it belongs below [{_TABLED[name]}]")
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, n=1)
            hint = (
                f"did you mean {near[0].replace('_', '-')}?" if near else "see `resume-dl fetch --help` for the options"
            )
            raise ConfigurationError(f"{file}: {key!r} is not an option", hint=hint)
        if name in options:
            raise ConfigurationError(f"{file}: {key!r} occurs twice", hint="keep one of the two spellings")
        kind = OPTIONS[name]
        if not _fits(kind, value):
            raise ConfigurationError(
                f"{file}: {key!r} is {_shown(value)}, not {_WANTED[kind]}", hint=f"give {_WANTED[kind]}"
            )
        options[name] = _converted(kind, value)
    return options


def _entries(document: Mapping[str, Any], file: Path) -> Iterator[tuple[str, str, Any]]:
    """Table (empty for none), key and value of each entry. Raises ConfigurationError for what no table has."""
    for key, value in document.items():
        if key not in _TABLES or not isinstance(value, dict):
            yield "", key, value
            continue
        for inner, content in value.items():
            if inner.replace("-", "_") not in _TABLES[key]:
                known = ", ".join(sorted(_TABLES[key]))
                raise ConfigurationError(f"{file}: {inner!r} is not a key of [{key}]", hint=f"known there: {known}")
            yield key, inner, content


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

"""The plugin's settings: condarc ``plugins:`` and ``CONDA_PLUGINS_*``.

An invalid value is reported in one line and the default applies, so that no installation fails because of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from resume_dl.conda_plugin import compat
from resume_dl.conda_plugin.messages import say
from resume_dl.model.units import parse_size

PREFETCH = "resume_dl_prefetch"
MIN_SIZE = "resume_dl_min_size"
MIRRORS = "resume_dl_mirrors"
INDEX = "resume_dl_index"
ASK, ALWAYS, NEVER, AUTO = "ask", "always", "never", "auto"
_SWITCHES = {**dict.fromkeys(("false", "no", "off"), NEVER), **dict.fromkeys(("true", "yes", "on"), ALWAYS)}
"""Booleans, as YAML and users write them."""
_INDEX_SWITCHES = {**dict.fromkeys(("false", "no", "off"), NEVER), **dict.fromkeys(("true", "yes", "on"), AUTO)}


@dataclass(frozen=True, slots=True)
class Preferences:
    """``min_size`` in bytes: a command that would download less is left to conda."""

    prefetch: str = ASK
    min_size: int = 0
    mirrors: Path | None = None
    index: str = AUTO
    """Whether channel indexes are fetched ahead of conda too."""


def read_preferences() -> Preferences:
    """Read the user's settings; an invalid one takes its default."""
    prefetch = _text(PREFETCH, ASK).lower()
    prefetch = _SWITCHES.get(prefetch, prefetch)
    if prefetch not in {ASK, ALWAYS, NEVER}:
        say(f"{PREFETCH} is {prefetch!r}, not one of ask, always, never; using {ASK}")
        prefetch = ASK
    size = _text(MIN_SIZE, "0")
    try:
        min_size = parse_size(size)
    except ValueError:
        say(f"{MIN_SIZE} is {size!r}, which is not a size such as 10MB; using 0")
        min_size = 0
    mirrors = _text(MIRRORS, "")
    index = _text(INDEX, AUTO).lower()
    index = _INDEX_SWITCHES.get(index, index)
    if index not in {AUTO, NEVER}:
        say(f"{INDEX} is {index!r}, which is neither auto nor never; using {AUTO}")
        index = AUTO
    return Preferences(prefetch, min_size, Path(mirrors).expanduser().absolute() if mirrors else None, index)


def _text(name: str, default: str) -> str:
    try:
        value = compat.plugin_setting(name)
    except ValueError as error:
        say(f"{name} cannot be read ({error}); using {default or 'no value'}")
        return default
    return default if value is None else str(value).strip()

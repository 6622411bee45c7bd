"""Reads config.toml: the user's own defaults for options."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

OPTIONS = frozenset(
    {
        # of fetch
        "channel", "override_channels", "platform", "no_deps", "only_deps", "file", "pip", "index_url",
        "extra_index_url", "find_links", "python", "virtual_package", "cuda", "channel_priority", "pkgs_dir",
        "wheel_dir", "dest", "no_extract", "dry_run", "prefix", "name", "solver", "lock",
        # of every command that downloads
        "mirrors", "mirror", "no_upstream", "connections", "per_host", "limit_rate", "json", "progress",
        "give_up_after", "no_wait", "quiet", "verbose", "debug", "offline",
    }
)  # fmt: skip
"""The long options that may stand in config.toml, with underscores for hyphens."""


def load_config(file: Path, *, known: Collection[str] = OPTIONS) -> dict[str, Any]:
    """Option name (underscores) -> default value, from one flat TOML file; empty if there is no such file.

    A value is a text, a number, true or false, or a list of texts for an option that may be repeated; whether it is
    right for its option is for the command line to say. ``limit-rate`` and ``limit_rate`` are the same. Raises
    ConfigurationError naming the file and the key.
    """
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {file}: {error.strerror or error}", hint="check its permissions"
        ) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}", hint="correct the line named") from error
    options: dict[str, Any] = {}
    for key, value in document.items():
        name = key.replace("-", "_")
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = (
                f"did you mean {near[0].replace('_', '-')}?" if near else "see `resume-dl fetch --help` for the options"
            )
            raise ConfigurationError(f"{file}: {key!r} is not an option", hint=hint)
        if name in options:
            raise ConfigurationError(f"{file}: {key!r} is there twice", hint="keep one of the two spellings")
        listed = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not listed and not isinstance(value, (str, int, float, bool)):
            raise ConfigurationError(
                f"{file}: {key!r} is a {type(value).__name__}",
                hint="give a text, a number, true, false or a list of texts",
            )
        options[name] = value
    return options

"""Options of ``pip install`` in pip's own settings that affect what we fetch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from resume_dl.resolution.pip_arguments import ANEW
from resume_dl.settings.pip_settings import load_pip_settings, parse_file

_SECTIONS = ("install", "global")
"""In order of precedence."""


def reinstalls(env: Mapping[str, str], prefix: Path) -> bool:
    """Whether ``target``, ``force-reinstall`` or a similar option is set, even to ``no``: more is then fetched.

    ``prefix`` is the environment's folder (``sys.prefix``). Raises ConfigurationError.
    """
    return not {name[2:] for name in ANEW}.isdisjoint(load_pip_settings(env, prefix=prefix).origins)


def files_in_settings(env: Mapping[str, str], prefix: Path) -> tuple[Path, ...]:
    """Return the requirements files that ``PIP_REQUIREMENT`` or a pip.conf names. Raises ConfigurationError."""
    where = load_pip_settings(env, prefix=prefix).origins.get("requirement")
    if where is None:
        return ()
    if where in env:
        value = env[where]
    else:
        parser = parse_file(Path(where))
        value = next(
            parser.get(section, "requirement") for section in _SECTIONS if parser.has_option(section, "requirement")
        )
    return tuple(Path.cwd() / word for word in value.split())

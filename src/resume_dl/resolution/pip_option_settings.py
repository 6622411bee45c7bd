"""What pip's settings say that is an option of ``pip install``, where our part has to act on it too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from resume_dl.resolution.pip_arguments import ANEW
from resume_dl.settings.pip_settings import load_pip_settings, parse_file

_SECTIONS = ("install", "global")
"""The one with more say first."""


def wants_anew(env: Mapping[str, str], prefix: Path) -> bool:
    """Whether ``target``, ``force-reinstall`` or one like them is set, if only to ``no``: then more is fetched.

    ``prefix`` is the environment's folder (``sys.prefix``). Raises ConfigurationError.
    """
    return not {name[2:] for name in ANEW}.isdisjoint(load_pip_settings(env, prefix=prefix).origins)


def files_said(env: Mapping[str, str], prefix: Path) -> tuple[Path, ...]:
    """The requirements files that ``PIP_REQUIREMENT`` or a pip.conf names. Raises ConfigurationError."""
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

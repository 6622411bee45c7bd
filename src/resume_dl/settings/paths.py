"""Where resume-dl keeps what is its own: settings, caches and state."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

APP = "resume-dl"


@dataclass(frozen=True, slots=True)
class Paths:
    """The platform's own places (platformdirs), or what ``RESUME_DL_{CONFIG,CACHE,STATE}_DIR`` name instead.

    None of them need exist; whoever writes there creates it.
    """

    config: Path
    """Holds ``config.toml`` and ``mirrors.toml``."""
    cache: Path
    """May be deleted at any time: wheels, indexes, what conda answered."""
    state: Path
    """What was learnt about mirrors, and what was begun."""

    @property
    def wheels(self) -> Path:
        """Finished wheels, as pip's ``--find-links`` takes them, where no other folder is named."""
        return self.cache / "wheels"

    @property
    def pip_help(self) -> Path:
        """The help of each pip that was asked for it."""
        return self.cache / "pip-help"

    @property
    def listed_indexes(self) -> Path:
        """Indexes that vouch for addresses without a digest, each from its address's own host and no mirror."""
        return self.cache / "listed"

    @property
    def pins(self) -> Path:
        """Hashes of files that nobody publishes one for, as they were first seen here."""
        return self.state / "pins"

    @property
    def unfinished(self) -> Path:
        """Notes of what runs have begun, and where."""
        return self.state / "unfinished"

    @property
    def config_file(self) -> Path:
        """The user's defaults for options."""
        return self.config / "config.toml"

    @property
    def mirrors_file(self) -> Path:
        """The user's own mirrors, merged over the shipped ones."""
        return self.config / "mirrors.toml"


def find_paths(env: Mapping[str, str]) -> Paths:
    """The folders for this user; ``env`` is the process's environment. Touches no disk."""
    given = {kind: env.get(f"RESUME_DL_{kind.upper()}_DIR", "").strip() for kind in ("config", "cache", "state")}
    if not all(given.values()):
        # Imported here: with all three given (tests, the plugin's child) it is not needed.
        import platformdirs

        dirs = platformdirs.PlatformDirs(APP, appauthor=False)
        defaults = {"config": dirs.user_config_dir, "cache": dirs.user_cache_dir, "state": dirs.user_state_dir}
        given = {kind: given[kind] or default for kind, default in defaults.items()}
    return Paths(**{kind: Path(place).expanduser().absolute() for kind, place in given.items()})


def home(env: Mapping[str, str]) -> Path:
    """The user's home as ``~`` means it: ``HOME`` (``USERPROFILE`` on Windows), else the system's own record."""
    named = env.get("USERPROFILE" if sys.platform == "win32" else "HOME", "")
    return Path(named) if named else Path.home()


def expand(text: str, env: Mapping[str, str]) -> Path:
    """An absolute path from one that may hold ``~`` and variables."""
    text = expand_variables(text, env)
    if text == "~" or text.startswith(("~/", "~\\")):
        return home(env) / text[2:]
    return Path(text).expanduser().absolute()


def expand_variables(text: str, env: Mapping[str, str]) -> str:
    """``$NAME``, ``${NAME}`` (and ``%NAME%`` on Windows) from ``env``; an unknown name stays, as in ``expandvars``."""
    if "$" not in text and "%" not in text:
        return text
    pattern = r"\$(\w+)|\$\{([^}]*)\}" + (r"|%([^%]+)%" if sys.platform == "win32" else "")
    return re.sub(pattern, lambda found: env.get(next(filter(None, found.groups()), ""), found[0]), text)

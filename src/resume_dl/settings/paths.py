"""resume-dl's own folders: settings, caches and state."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs

APP = "resume-dl"


@dataclass(frozen=True, slots=True)
class Paths:
    """The platform's folders (platformdirs), or those named by ``RESUME_DL_{CONFIG,CACHE,STATE}_DIR``.

    They need not exist; the writer creates them.
    """

    config: Path
    """Holds ``config.toml`` and ``mirrors.toml``."""
    cache: Path
    """Wheels, indexes, conda's answers; may be deleted at any time."""
    state: Path
    """Knowledge about mirrors, and notes of unfinished downloads."""

    @property
    def wheels(self) -> Path:
        """Finished wheels, for pip's ``--find-links``, if no other folder is given."""
        return self.cache / "wheels"

    @property
    def pip_help(self) -> Path:
        """Cached help texts of pips."""
        return self.cache / "pip-help"

    @property
    def listed_indexes(self) -> Path:
        """Indexes that vouch for URLs without a digest, each from the URL's own host and no mirror."""
        return self.cache / "listed"

    @property
    def pins(self) -> Path:
        """First-seen hashes of files without a published one."""
        return self.state / "pins"

    @property
    def unfinished(self) -> Path:
        """Notes of unfinished downloads and their folders."""
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
        # not needed if all three are given (tests, the plugin's child)
        import platformdirs

        dirs = platformdirs.PlatformDirs(APP, appauthor=False)
        defaults = {"config": dirs.user_config_dir, "cache": dirs.user_cache_dir, "state": dirs.user_state_dir}
        given = {kind: given[kind] or default for kind, default in defaults.items()}
    return Paths(**{kind: fs.roomy(Path(place).expanduser().absolute()) for kind, place in given.items()})


def home(env: Mapping[str, str]) -> Path:
    """The user's home, as for ``~``: ``HOME`` (``USERPROFILE`` on Windows), else the system's record."""
    named = env.get("USERPROFILE" if sys.platform == "win32" else "HOME", "")
    return Path(named) if named else Path.home()


def expand(text: str, env: Mapping[str, str]) -> Path:
    """An absolute path from one that may hold ``~`` and variables."""
    text = expand_variables(text, env)
    if text == "~" or text.startswith(("~/", "~\\")):
        return fs.roomy(home(env)) / text[2:]
    return fs.roomy(Path(text).expanduser().absolute())


def expand_variables(text: str, env: Mapping[str, str]) -> str:
    """``$NAME``, ``${NAME}`` (and ``%NAME%`` on Windows) from ``env``; an unknown name stays, as in ``expandvars``."""
    if "$" not in text and "%" not in text:
        return text
    pattern = r"\$(\w+)|\$\{([^}]*)\}" + (r"|%([^%]+)%" if sys.platform == "win32" else "")
    return re.sub(pattern, lambda found: env.get(next(filter(None, found.groups()), ""), found[0]), text)

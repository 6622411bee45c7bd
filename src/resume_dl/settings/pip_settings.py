"""pip's settings: pip.conf (pip.ini on Windows) and ``PIP_*``, combined as pip does.

Source: pip.pypa.io, "Configuration", and what pip 26 does (``pip config debug`` names the same files). Of the sections,
``[global]``, ``[download]`` and ``[install]`` are read, later ones override earlier ones; variables override files, and
files override files of lower priority, section by section. A list replaces a list.
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from resume_dl.errors import ConfigurationError
from resume_dl.model.index_logins import KEYRING_PROVIDERS
from resume_dl.model.pip import FindLinks, PipIndexes, PipSettings, index_from, place_from
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.own_file import read_own
from resume_dl.settings.paths import home

BASENAME = "pip.ini" if sys.platform == "win32" else "pip.conf"
_SECTIONS = ("global", "download", "install")
_ALIASES = {"pypi-url": "index-url", "default-timeout": "timeout"}
_ETC = Path("/etc")
_YES = {"y", "yes", "t", "true", "on", "1"}
_NO = {"n", "no", "f", "false", "off", "0"}


class _Said(NamedTuple):
    value: str
    where: str


def load_pip_settings(env: Mapping[str, str], *, prefix: Path | None = None) -> PipSettings:
    """The settings that pip in the environment at ``prefix`` (its ``sys.prefix``) has; None: of no environment.

    Raises ConfigurationError for an unreadable file and for a value of a wrong type; it names file or variable, and
    quotes neither line nor value, as these may hold a password.
    """
    files = [place for place in pip_files(env, prefix=prefix) if place.is_file()]
    said: dict[str, dict[str, _Said]] = {section: {} for section in _SECTIONS}
    for place in files:
        parser = parse_file(place)
        for section in said.keys() & set(parser.sections()):
            said[section] |= {name: _Said(value or "", str(place)) for name, value in parser.items(section)}
    options: dict[str, _Said] = {}
    for named in (*(said[section].items() for section in _SECTIONS), _of_variables(env)):
        options |= {_ALIASES.get(name, name): one for name, one in named if one.value}
    return _settings(_Options(options, env), files)


def pip_files(env: Mapping[str, str], *, prefix: Path | None = None) -> tuple[Path, ...]:
    """The paths of pip's settings, lowest priority first, existing or not.

    These are the system's, the user's, the environment's, and the file named by ``PIP_CONFIG_FILE``, which replaces the
    user's; empty if it names the null device.
    """
    named = env.get("PIP_CONFIG_FILE")
    if named == os.devnull:
        return ()
    own = Path(named).absolute() if named else None
    legacy = home(env) / ("pip" if sys.platform == "win32" else ".pip") / BASENAME
    user = () if own is not None and own.exists() else (legacy, user_file(env))
    site = () if prefix is None else (prefix / BASENAME,)
    return (*_system_files(env), *user, *site, *(() if own is None else (own,)))


def user_file(env: Mapping[str, str]) -> Path:
    """The file that ``pip config --user set`` writes without ``PIP_CONFIG_FILE``."""
    if sys.platform == "win32":
        import platformdirs

        return Path(platformdirs.user_config_dir("pip", appauthor=False, roaming=True)) / BASENAME
    if sys.platform == "darwin" and (support := home(env) / "Library" / "Application Support" / "pip").is_dir():
        return support / BASENAME
    given = env.get("XDG_CONFIG_HOME", "").strip() if sys.platform != "darwin" else ""
    return Path(given or home(env) / ".config") / "pip" / BASENAME


def _system_files(env: Mapping[str, str]) -> tuple[Path, ...]:
    if sys.platform == "win32":
        return (Path(env.get("PROGRAMDATA", "C:\\ProgramData")) / "pip" / BASENAME,)
    if sys.platform == "darwin":
        return (Path("/Library/Application Support/pip") / BASENAME,)
    folders = [folder for folder in env.get("XDG_CONFIG_DIRS", "").split(os.pathsep) if folder.strip()]
    return (*(Path(folder) / "pip" / BASENAME for folder in folders or [str(_ETC / "xdg")]), _ETC / BASENAME)


class PipParser(configparser.RawConfigParser):
    """A parser with normalised option names: ``--Index_URL`` is ``index-url``."""

    def optionxform(self, optionstr: str) -> str:
        """See the class."""
        return _name(optionstr)


def _name(text: str) -> str:
    return text.lower().replace("_", "-").removeprefix("--")


def parse_file(place: Path) -> PipParser:
    """Parse one file; pip reads it in the system's encoding alone. Raises ConfigurationError."""
    parser = PipParser()
    try:
        parser.read_string(read_own(place))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read pip's settings in {place}: {error.strerror or error}", hint="check its permissions"
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"pip's settings in {place} are not text in {error.encoding}",
            hint="pip cannot read it either",
        ) from error
    except configparser.Error as error:  # its own text quotes the line
        raise ConfigurationError(
            f"pip's settings in {place} cannot be read{_line_of(error)}", hint="pip config debug says more"
        ) from None
    return parser


def _line_of(error: configparser.Error) -> str:
    listed = getattr(error, "errors", None)
    number = listed[0][0] if listed else getattr(error, "lineno", None)
    return "" if number is None else f": line {number}"


def _of_variables(env: Mapping[str, str]) -> Iterator[tuple[str, _Said]]:
    for variable, value in env.items():
        if variable.startswith("PIP_"):
            yield _name(variable[4:]), _Said(value, variable)


class _Options:
    """Lookup of options, with values parsed as pip does."""

    def __init__(self, said: Mapping[str, _Said], env: Mapping[str, str]) -> None:
        self.said = said
        self.env = env

    def text(self, name: str) -> str | None:
        return self.said[name].value.strip() if name in self.said else None

    def words(self, name: str) -> tuple[str, ...]:
        return tuple(self.said[name].value.split()) if name in self.said else ()

    def flag(self, name: str) -> bool:
        text = (self.text(name) or "no").lower()
        if text not in _YES | _NO:
            raise self._wrong(name, "yes or no")
        return text in _YES

    def choice(self, name: str, values: Sequence[str]) -> str:
        """One of these; the first if it is not set."""
        text = self.text(name)
        if text is not None and text not in values:
            raise self._wrong(name, f"one of {', '.join(values)}")
        return text or values[0]

    def number(self, name: str) -> float | None:
        text = self.text(name)
        try:
            return None if text is None else float(text)
        except ValueError:
            raise self._wrong(name, "a number of seconds") from None

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        return None if text is None else Path(self._home(text)).absolute()

    def file(self, name: str, word: str) -> Path:
        """A local file, by its path or a ``file:`` URL."""
        found = self.place(name, word)
        if not isinstance(found, Path):
            raise self._wrong(name, "a file on this machine")
        return found

    def place(self, name: str, word: str) -> FindLinks:
        """A URL, or a path from the current folder."""
        try:
            return place_from(self._home(word), Path.cwd())
        except ValueError:
            raise self._wrong(name, "an address") from None

    def index(self, name: str, word: str) -> RedactedUrl:
        try:
            return index_from(self._home(word), Path.cwd())
        except ValueError:  # its own text may quote a password
            raise self._wrong(name, "an address") from None

    def _home(self, word: str) -> str:
        return str(home(self.env) / word[2:]) if word == "~" or word.startswith(("~/", "~\\")) else word

    def origins(self) -> dict[str, str]:
        return {name: one.where for name, one in self.said.items()}

    def _wrong(self, name: str, meant: str) -> ConfigurationError:
        return ConfigurationError(
            f"pip's setting {name} in {self.said[name].where} is not {meant}",
            hint="correct it there; pip refuses it too",
        )


def _settings(options: _Options, files: list[Path]) -> PipSettings:
    index, proxy = options.text("index-url"), options.text("proxy")
    return PipSettings(
        indexes=PipIndexes(
            index_url=None if index is None else options.index("index-url", index),
            extra=tuple(options.index("extra-index-url", word) for word in options.words("extra-index-url")),
            find_links=tuple(options.place("find-links", word) for word in options.words("find-links")),
            no_index=options.flag("no-index"),
            trusted_hosts=options.words("trusted-host"),
            pre=options.flag("pre"),
        ),
        proxy=None if proxy is None else RedactedUrl(proxy),
        cert=options.path("cert"),
        client_cert=options.path("client-cert"),
        timeout=options.number("timeout"),
        constraints=tuple(options.file("constraint", word) for word in options.words("constraint")),
        uploaded_prior_to=options.text("uploaded-prior-to") or "",
        keyring_provider=options.choice("keyring-provider", KEYRING_PROVIDERS),
        no_input=options.flag("no-input"),
        files=tuple(files),
        origins=options.origins(),
    )

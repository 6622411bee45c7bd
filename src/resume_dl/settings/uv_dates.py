"""uv's ``exclude-newer``: ``UV_EXCLUDE_NEWER``, pyproject.toml and uv.toml, with uv's order and forms; pip's form.

Source: uv's documentation, "Configuration files" and "Reproducible resolutions". Read are ``exclude-newer`` and
``exclude-newer-package``, each also in the table ``pip``, which has precedence as in ``uv pip``. Not read:
``exclude-newer`` of one index, as indexes are pip's here.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from resume_dl.errors import ConfigurationError
from resume_dl.model.exclude_newer import UploadCutoff, time_of
from resume_dl.model.url import brief
from resume_dl.settings.own_file import read_own
from resume_dl.settings.paths import home
from resume_dl.toml_text import TomlError, load_toml

_UNITS = {
    "weeks": ("weeks", "week", "wks", "wk", "w"),
    "days": ("days", "day", "d"),
    "hours": ("hours", "hour", "hrs", "hr", "h"),
    "minutes": ("minutes", "minute", "mins", "min", "m"),
    "seconds": ("seconds", "second", "secs", "sec", "s"),
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words}
_LONGEST = 200
"""Characters of a value."""
_PAIR = r"\d{1,9}\s*[a-z]+"
# each text in one way only: a value of a project's file may be hostile, and re tries every way
_FRIENDLY = re.compile(rf"[+-]?\s*{_PAIR}(?:(?:\s*,\s*|\s*){_PAIR})*\s*,?(?:\s+ago)?", re.ASCII)
_FRIENDLY_PART = re.compile(r"(\d{1,9})\s*([a-z]+)")
_ISO = re.compile(r"[+-]?P(?=.)((?:\d{1,9}[WD])*)(?:T((?:\d{1,9}[HMS])+))?", re.IGNORECASE | re.ASCII)
_CLOCK = r"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?"
_DATE = re.compile(rf"(\d{{4}}-\d{{2}}-\d{{2}})(?:[Tt ]{_CLOCK})?", re.ASCII)
_FORMS = "write a date (2026-04-01), a time (2026-04-01T12:00:00Z), a duration (7 days, P7D), or false"
_YES = {"1", "true", "t", "yes", "y", "on"}


def load_uv_cutoff(env: Mapping[str, str], folder: Path, now: datetime) -> UploadCutoff:
    """The cutoff of a uv that runs in ``folder``; a package's own value is that of the file with precedence.

    Raises ConfigurationError, naming file or variable and key, for a file that cannot be read and a value of a wrong
    form: without it, files could be fetched that the user has excluded.
    """
    cutoff, origin, found, packages = None, "", False, dict[str, datetime | None]()
    if env.get("UV_EXCLUDE_NEWER"):
        cutoff, origin, found = _parsed(env["UV_EXCLUDE_NEWER"], "UV_EXCLUDE_NEWER", now), "UV_EXCLUDE_NEWER", True
    for place, settings in _tables(env, folder):
        own = settings.get("pip")
        for table in (own, settings) if isinstance(own, dict) else (settings,):
            if not found and "exclude-newer" in table:
                cutoff, origin, found = _parsed(table["exclude-newer"], f"exclude-newer in {place}", now), place, True
            listed = table.get("exclude-newer-package", {})
            if not isinstance(listed, dict):
                raise _wrong(f"exclude-newer-package in {place} is not a table", 'write it as {name = "7 days"}')
            for name, value in listed.items():
                where = f"exclude-newer-package of {brief(name, 80)} in {place}"
                packages.setdefault(canonicalize_name(name), _parsed(value, where, now))
                origin = origin or place
    return UploadCutoff(time=cutoff, packages=packages, origin=origin)


def cutoff_of_uv(text: str, now: datetime, zone: timezone | None = None) -> datetime | None:
    """The time of one of uv's forms, in UTC; None for ``false``. Raises ValueError.

    A date, also one with a time but no offset, stands for the end of that day in ``zone``, by default this machine's.
    A day has 24 hours. Months and years have no fixed length; uv refuses them too.
    """
    text = text.strip()
    if len(text) > _LONGEST:
        raise ValueError(f"longer than {_LONGEST} characters")
    if text == "false":
        return None
    if (time := time_of(text)) is not None:
        return time
    if (day := _DATE.fullmatch(text)) is not None:
        after = date.fromisoformat(day[1]) + timedelta(days=1)
        midnight = datetime(after.year, after.month, after.day, tzinfo=zone)
        return midnight.astimezone(timezone.utc)
    iso = _ISO.fullmatch(text)
    parts = "".join(part or "" for part in iso.groups()).lower() if iso else text if _FRIENDLY.fullmatch(text) else ""
    units = [(int(count), unit) for count, unit in _FRIENDLY_PART.findall(parts) if unit != "ago"]
    if not units or any(unit not in _UNIT_OF for _, unit in units):
        raise ValueError(f"not a date or duration: {text!r}")
    length = timedelta()
    for count, unit in units:
        length += timedelta(**{_UNIT_OF[unit]: count})
    return now - length


def cutoff_of_pip(text: str, where: str, now: datetime) -> datetime:
    """The time of pip's ``--uploaded-prior-to``: ISO 8601, in local time without an offset, or days as in ``P7D``.

    Raises ConfigurationError, naming ``where``.
    """
    try:
        if (days := re.fullmatch(r"P(\d{1,9})D", text)) is not None:
            return now - timedelta(days=int(days[1]))
        time = datetime.fromisoformat(f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text)
        return time.astimezone(timezone.utc)
    except (ValueError, OverflowError):
        hint = "write a date (2026-04-01), a time (2026-04-01T12:00:00Z) or days (P7D)"
        raise ConfigurationError(f"{where}: not a date or duration: {brief(repr(text), 80)}", hint=hint) from None


def _parsed(value: Any, where: str, now: datetime) -> datetime | None:
    if value is False:
        return None
    if isinstance(value, datetime | date):  # TOML has dates of its own
        value = value.isoformat()
    if not isinstance(value, str):
        raise _wrong(f"{where} is not a text", _FORMS)
    try:
        return cutoff_of_uv(value, now)
    except (ValueError, OverflowError):
        raise _wrong(f"{where}: not a date or duration: {brief(repr(value), 80)}", _FORMS) from None


def _wrong(message: str, hint: str) -> ConfigurationError:
    return ConfigurationError(message, hint=f"{hint}; or set the date for one run with --exclude-newer")


def _tables(env: Mapping[str, str], folder: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Settings of uv with their places, highest precedence first."""
    if env.get("UV_NO_CONFIG", "").lower() in _YES:
        return
    if named := env.get("UV_CONFIG_FILE"):
        yield named, _document(folder / named)
        return
    project = _project(folder)
    if project is not None:
        yield project
    for place in (_user_file(env), _system_file(env)):
        if place is not None and place.is_file():
            yield str(place), _document(place)


def _project(folder: Path) -> tuple[str, Mapping[str, Any]] | None:
    """The settings of the nearest folder that has any, or of the workspace above it, whose members' do not count."""
    nearest = None
    for parent in (folder, *folder.parents):
        own, project = parent / "uv.toml", parent / "pyproject.toml"
        tool = _document(project).get("tool", {}) if project.is_file() else {}
        table = tool.get("uv") if isinstance(tool, dict) else None
        found: tuple[str, Mapping[str, Any]] | None = None
        if own.is_file():
            found = str(own), _document(own)
        elif isinstance(table, dict):
            found = str(project), table
        if found is not None and (nearest is None or (isinstance(table, dict) and "workspace" in table)):
            nearest = found
    return nearest


def _user_file(env: Mapping[str, str]) -> Path | None:
    if sys.platform == "win32":
        folder = env.get("APPDATA")
        return Path(folder) / "uv" / "uv.toml" if folder else None
    return Path(env.get("XDG_CONFIG_HOME") or home(env) / ".config") / "uv" / "uv.toml"


def _system_file(env: Mapping[str, str]) -> Path | None:
    if sys.platform == "win32":
        folders = [env.get("PROGRAMDATA", "C:\\ProgramData")]
    else:
        folders = [*filter(None, env.get("XDG_CONFIG_DIRS", "").split(":")), "/etc"]
    places = [Path(folder) / "uv" / "uv.toml" for folder in folders]
    return next((place for place in places if place.is_file()), None)


def _document(file: Path) -> Mapping[str, Any]:
    text = ""
    try:
        text = read_own(file)
        return load_toml(text)
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or error) if isinstance(error, OSError) else f"it is not text in {error.encoding}"
        raise _wrong(f"cannot read uv's settings in {file}: {why}", "check the file") from error
    except TomlError as error:
        if file.name == "pyproject.toml" and "exclude-newer" not in text:  # any project's above the folder; uv warns
            return {}
        raise _wrong(f"{file} is not valid TOML: {error}", "uv cannot read it either") from error

"""The mirror table: the shipped mirrors.toml with the user's merged over it, or a given file.

The conda plugin imports this module on its fast path: nothing heavy may be imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from resume_dl.errors import ConfigurationError
from resume_dl.model.mirror import ACTIVE, RETIRED, Mirror, MirrorTable
from resume_dl.model.url import redact
from resume_dl.settings.own_file import read_own
from resume_dl.toml_text import TomlError, load_toml
from resume_dl.zip_application import zip_application

SCHEMA = 1
_MIRROR_TEXTS = ("title", "home", "note", "status", "operator")
_MIRROR_KEYS = {"name", "connections", "carries", "sync_status", *_MIRROR_TEXTS}
_T = TypeVar("_T")


def load_mirrors(*, override: Path | None = None, user: Path | None = None) -> MirrorTable:
    """The mirrors to use.

    ``user`` is the user's own file (``Paths.mirrors_file``), merged over ``base_table`` by name if it exists.
    ``override`` (``--mirrors FILE``) replaces the shipped and the user's mirrors; the shipped origins stay, its own
    are merged over them. Raises ConfigurationError, naming file and key, for a file that is missing or has another
    schema, an unknown key, a wrong type, or a URL that is not plain http(s).
    """
    base = base_table(None if override is not None else user)
    if override is not None:
        given = _table(override)
        origins = {**base.origins, **given.origins}
        return MirrorTable(origins, given.mirrors, base.replaced_bases(given), own=given.origins)
    return base.merge(_table(user)) if user is not None and user.exists() else base


def base_table(user: Path | None) -> MirrorTable:
    """The shipped table, or what ``mirrors update`` has put in its place, beside the ``user``'s own file.

    Origins stay the shipped ones: a table from elsewhere must not choose the servers whose indexes are trusted.
    Raises ConfigurationError.
    """
    shipped = _shipped()
    newer = None if user is None else updated_file(user)
    return shipped if newer is None or not newer.exists() else MirrorTable(shipped.origins, _table(newer).mirrors)


def updated_file(user: Path) -> Path:
    """The table of ``mirrors update``."""
    return user.with_name("mirrors-updated.toml")


def shipped_file() -> Path:
    """The shipped table: inside the package when installed, at the root of a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "mirrors.toml"
    return inside if inside.is_file() else package.parent.parent / "mirrors.toml"


def _shipped() -> MirrorTable:
    if (archive := zip_application()) is not None:
        data: bytes = archive.get_data("resume_dl/mirrors.toml")
        return parse_mirrors(load_toml(data.decode("utf-8")), f"{archive.archive}/resume_dl/mirrors.toml")
    return _table(shipped_file())


def _table(path: Path) -> MirrorTable:
    try:
        document = load_toml(read_own(path))
    except OSError as error:
        raise ConfigurationError(
            f"cannot read the mirrors in {path}: {error.strerror or error}",
            hint="it must be a readable text file",
        ) from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8 text", hint="save it as UTF-8") from error
    except TomlError as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}", hint="correct the line named") from error
    return parse_mirrors(document, str(path))


def parse_mirrors(document: Mapping[str, Any], where: str) -> MirrorTable:
    """A table from a parsed mirrors.toml; ``where`` names it in errors. Raises ConfigurationError."""
    check = _Checker(where)
    check.keys(document, {"schema", "origins", "mirror"}, "")
    schema = document.get("schema")
    if schema != SCHEMA or isinstance(schema, bool):
        raise check.error("schema", f"is {schema!r}; this version reads schema {SCHEMA} only")
    origins = check.urls(document.get("origins", {}), "origins")
    mirrors: list[Mirror] = []
    entries: list[Any] = check.typed(document.get("mirror", []), list, "mirror", "a list of tables")
    for index, raw in enumerate(entries):
        entry: dict[str, Any] = check.typed(raw, dict, f"mirror[{index}]", "a table")
        name = check.typed(entry.get("name"), str, f"mirror[{index}].name", "a text")
        if not name or any(c.isspace() or not c.isprintable() for c in name):
            raise check.error(f"mirror[{index}].name", f"is {name!r}; a name is one word")
        mirrors.append(_mirror(entry, name, check))
    names = [mirror.name for mirror in mirrors]
    for name in names:
        if names.count(name) > 1:
            raise check.error(f"mirror {name!r}", "occurs twice")
    return MirrorTable(origins, tuple(mirrors))


def _mirror(entry: Mapping[str, Any], name: str, check: _Checker) -> Mirror:
    at = f"mirror {name!r}"
    check.keys(entry, _MIRROR_KEYS, at + " ")
    texts = {key: check.typed(entry.get(key, ""), str, f"{at} {key}", "a text") for key in _MIRROR_TEXTS}
    if texts["status"] not in {"", ACTIVE, RETIRED}:
        raise check.error(f"{at} status", f"is {texts['status']!r}, not {ACTIVE!r} or {RETIRED!r}")
    connections = entry.get("connections")
    if connections is not None:
        check.typed(connections, int, f"{at} connections", "a whole number")
        if isinstance(connections, bool) or connections < 1:
            raise check.error(f"{at} connections", f"is {connections!r}; at least 1 is needed")
    return Mirror(
        name=name,
        title=texts["title"],
        home=texts["home"],
        connections=connections,
        status=texts["status"] or ACTIVE,
        carries=check.urls(entry.get("carries", {}), f"{at} carries"),
        note=texts["note"],
        operator=texts["operator"],
        sync_status=check.url(entry["sync_status"], f"{at} sync_status") if "sync_status" in entry else "",
    )


class _Checker:
    """Checks of values, with errors that name the file and the key."""

    def __init__(self, where: str) -> None:
        self.where = where

    def error(self, key: str, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.where}: {key} {why}", hint="the shipped mirrors.toml shows the form of every key"
        )

    def keys(self, table: Mapping[str, Any], known: set[str], at: str) -> None:
        for key in table:
            if key not in known:
                raise self.error(f"{at}{key!r}", f"is not a known key ({', '.join(sorted(known))})")

    def typed(self, value: Any, kind: type[_T], key: str, meant: str) -> _T:
        if not isinstance(value, kind):
            raise self.error(key, "is missing" if value is None else f"is {type(value).__name__}, not {meant}")
        return value

    def urls(self, value: Any, key: str) -> dict[str, str]:
        table: dict[str, Any] = self.typed(value, dict, key, "a table of addresses")
        return {name: self.url(base, f"{key} {name!r}") for name, base in table.items()}

    def url(self, value: Any, key: str) -> str:
        text = self.typed(value, str, key, "an address")
        try:
            parts = urlsplit(text)
            whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            raise self.error(key, "is not an http(s) address") from None
        if not whole:
            raise self.error(key, f"is not an http(s) address: {redact(text)!r}")
        plain = f"{parts.scheme}://{parts.netloc}{parts.path}"
        if redact(plain) != plain or parts.query or parts.fragment:
            raise self.error(key, "must be a plain URL, without login, token, query or fragment")
        return text.rstrip("/")

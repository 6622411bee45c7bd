"""Settings with the place that sets each: our folders and files, conda's settings as used here, and the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.model.url import scrub
from resume_dl.settings.condarc import setting_places
from resume_dl.settings.network import find_proxies
from resume_dl.settings.paths import Paths

DEFAULT = "default"
CONFIG = "config.toml"
ENVIRONMENT = "environment"
CONDARC = "condarc"
COMMAND_LINE = "command line"
SYSTEM = "system"
"""The values of ``Setting.source``."""

_NOT_SHOWN = {"source", "problem", "conda_command"}
_PUBLIC = {"channel", "auth"}
"""Keys of ``channel_settings`` that hold no secret; plugins define others."""
_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; ``value`` fits into JSON and shows no secret, None if the setting is not set."""

    section: str
    name: str
    value: Any
    source: str
    where: tuple[str, ...] = ()
    """The files or variables that set it; the last one has precedence."""


def own_places(paths: Paths, env: Mapping[str, str]) -> Iterator[Setting]:
    """Our folders, and the files in which the user may set something."""
    for kind, folder in (("config", paths.config), ("cache", paths.cache), ("state", paths.state)):
        variable = f"RESUME_DL_{kind.upper()}_DIR"
        is_given = bool(env.get(variable, "").strip())
        where = (variable,) if is_given else ()
        yield Setting("places", f"{kind}_dir", str(folder), ENVIRONMENT if is_given else DEFAULT, where)
    for file in (paths.config_file, paths.mirrors_file):
        yield Setting("places", file.name, str(file) if file.is_file() else None, DEFAULT)
    for variable in ("RESUME_DL_CONDA", "RESUME_DL_PIP_PYTHON"):
        if env.get(variable):
            name = variable.removeprefix("RESUME_DL_").lower()
            yield Setting("places", name, scrub(env[variable]), ENVIRONMENT, (variable,))


def conda_settings(conda: CondaSettings, env: Mapping[str, str]) -> Iterator[Setting]:
    """Conda's settings that are honoured here; those that no file and no variable sets are conda's defaults."""
    places = setting_places(env, root=conda.root_prefix)
    for each in fields(conda):
        if each.name in _NOT_SHOWN:
            continue
        where = tuple(places.get(each.name, ()))
        source = DEFAULT if not where else ENVIRONMENT if where[-1] in env else CONDARC
        value = getattr(conda, each.name)
        if each.name == "channel_settings":
            value = [{key: text if key in _PUBLIC else "***" for key, text in entry.items()} for entry in value]
        yield Setting("conda", each.name, masked(value), source, where)


def network_settings(conda: CondaSettings, env: Mapping[str, str]) -> Iterator[Setting]:
    """Proxies and certificates in force."""
    try:
        proxies = find_proxies(env, conda)
    except ConfigurationError as error:
        proxies = {"invalid": (error.message, "")}
    for key, (proxy, place) in proxies.items():
        source = CONDARC if place == "proxy_servers" else ENVIRONMENT if place in env else SYSTEM
        yield Setting("network", f"proxy {key}", masked(proxy) or None, source, (place,) if place else ())
    for name in ("no_proxy", "NO_PROXY", *_CERTIFICATES, "NETRC"):
        if env.get(name):
            yield Setting("network", name, masked(env[name]), ENVIRONMENT, (name,))


def masked(value: Any) -> Any:
    """``value`` as JSON can hold it, without the secrets of any URL in it."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, Mapping):
        return {scrub(str(key)): masked(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked(each) for each in value]
    return scrub(str(value))

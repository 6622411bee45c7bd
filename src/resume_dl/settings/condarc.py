"""Conda's settings read from its files, a documented subset, for machines where no conda answers.

Read: conda's whole search path (system, root prefix, XDG, home, environment, ``$CONDARC``), ``condarc.d`` folders,
``CONDA_*`` variables, aliases, variable expansion in values, and the merging: a later file wins, maps are merged by
key, lists are put before those of earlier files, and a later file does not change a setting marked ``#!final``. Not
read: ``#!final`` inside maps, the ``#!top`` and ``#!bottom`` markers, ``migrated_*``, and settings of plugins. Source:
conda's ``base/constants.py`` (SEARCH_PATH) and ``common/configuration.py``.
"""

from __future__ import annotations

import platform
import re
import struct
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from resume_dl.model.conda_settings import MSYS2, UNIX_DEFAULTS, CondaSettings
from resume_dl.model.mirror import CHANNEL_ALIAS
from resume_dl.model.url import RedactedUrl
from resume_dl.settings.own_file import read_own
from resume_dl.settings.paths import expand, expand_variables
from resume_dl.yaml_text import YamlError, load_yaml

WINDOWS = sys.platform == "win32"
_SYSTEM = ("C:/ProgramData/conda",) if WINDOWS else ("/etc/conda", "/var/lib/conda")
_NAMES = (".condarc", "condarc", "condarc.d")
_YAML = (".yml", ".yaml")
_SCHEME = re.compile(r"[a-z][a-z0-9]{0,11}://")
_TOKEN = re.compile(r"/t/[^/]+")
_FINAL = re.compile(r"""(?m)^["']?(\w+)["']?[ \t]*:.*#!final[ \t]*$""")
"""A top-level setting whose line ends in the marker; the parser drops comments."""
_OWN_CUSTOM_CHANNELS = {"pkgs/pro": "https://repo.anaconda.com"}
_ALIASES = {
    "channel": "channels",
    "envs_path": "envs_dirs",
    "verify_ssl": "ssl_verify",
    "client_cert": "client_ssl_cert",
    "client_cert_key": "client_ssl_cert_key",
    "root_dir": "root_prefix",
    "whitelist_channels": "allowlist_channels",
    "add_binstar_token": "add_anaconda_token",
    "cooldown": "exclude_newer",
    "cooldown_exclude": "exclude_newer_package",
}
_LISTS = {
    "channels": ",",
    "default_channels": ",",
    "allowlist_channels": ",",
    "denylist_channels": ",",
    "pkgs_dirs": ",",
    "envs_dirs": ";" if WINDOWS else ":",
    "pinned_packages": "&",
    "create_default_packages": ",",
    "aggressive_update_packages": ",",
}
"""Settings that are lists, with the separator of their items in an environment variable."""
_MAPS = {"custom_channels", "custom_multichannels", "proxy_servers", "exclude_newer_package"}
_BOOLS = {
    "use_only_tar_bz2", "add_pip_as_python_dependency", "offline", "override_channels_enabled", "add_anaconda_token",
}  # fmt: skip
_NUMBERS = {"remote_connect_timeout_secs", "remote_read_timeout_secs"}
_TEXTS = {
    "channel_alias", "channel_priority", "client_ssl_cert", "client_ssl_cert_key", "subdir", "root_prefix",
    "exclude_newer",
}  # fmt: skip
_KNOWN = {*_LISTS, *_MAPS, *_BOOLS, *_NUMBERS, *_TEXTS, "ssl_verify", "solver", "channel_settings"}
_TRUE, _FALSE = {"true", "yes", "on", "y", "1"}, {"false", "no", "off", "n", "0", ""}
_MACHINES = {"x86_64": "64", "amd64": "64", "i386": "32", "i686": "32", "x86": "32"}


def search_path(env: Mapping[str, str], *, root: Path | None, prefix: Path | None) -> tuple[Path, ...]:
    """Every file and folder that conda would read, in its order, existing or not."""
    places = [Path(place) for place in _SYSTEM]
    if root_text := str(root or env.get("CONDA_ROOT", "")):
        places.append(Path(root_text))
    if env.get("XDG_CONFIG_HOME"):
        places.append(expand(env["XDG_CONFIG_HOME"], env) / "conda")
    places += [expand("~/.config/conda", env), expand("~/.conda", env)]
    found = [place / name for place in places for name in _NAMES]
    found.append(expand("~/.condarc", env))
    target = prefix or (Path(env["CONDA_PREFIX"]) if env.get("CONDA_PREFIX") else root)
    if target is not None:
        found += [target / name for name in _NAMES]
    if env.get("CONDARC"):
        found.append(expand(env["CONDARC"], env))
    return tuple(dict.fromkeys(found))


def condarc_files(places: Iterable[Path]) -> list[Path]:
    """The files among ``places`` that conda reads: by name or as YAML, and the YAML files of a folder in order."""
    files: list[Path] = []
    for place in places:
        try:
            if place.is_dir():
                files += sorted(path for path in place.iterdir() if path.suffix in _YAML and path.is_file())
            elif place.is_file() and (place.name in _NAMES or place.suffix in _YAML):
                files.append(place)
        except OSError:
            continue
    return files


def read_settings(env: Mapping[str, str], *, root: Path | None = None, prefix: Path | None = None) -> CondaSettings:
    """Conda's settings from its files and the environment; ``root`` is the root prefix if known.

    An unreadable or malformed file is skipped, as conda does, and named in ``problem``.
    """
    problems: list[str] = []
    layers = []
    final: set[str] = set()
    for file in condarc_files(search_path(env, root=root, prefix=prefix)):
        content, closed, problem = load_file(file)
        if problem:
            problems.append(problem)
        if content:
            layers.append(_open(_typed(content, str(file), problems), final))
            final |= closed
    from_files = bool(layers)
    variables = _from_environment(env)
    if variables:
        layers.append(_open(_typed(variables, "the environment", problems), final))
    merged = _merge(layers)
    return _settings(merged, env, root, source="files" if from_files or variables else "defaults", problems=problems)


def setting_places(
    env: Mapping[str, str], *, root: Path | None = None, prefix: Path | None = None
) -> dict[str, list[str]]:
    """Setting -> the files and variables that set it, in conda's order: the last one has precedence."""
    found: dict[str, list[str]] = {}
    final: set[str] = set()
    for file in condarc_files(search_path(env, root=root, prefix=prefix)):
        content, closed, _ = load_file(file)
        for key in _open(_typed(content, str(file), []), final):
            found.setdefault(key, []).append(str(file))
        final |= closed
    for variable, text in env.items():
        for key in _open(_from_environment({variable: text}), final):
            found.setdefault(key, []).append(variable)
    return found


def load_file(file: Path) -> tuple[dict[str, Any], set[str], str]:
    """A file's settings, its final ones, and what is wrong with it."""
    try:
        text = read_own(file)
        content = load_yaml(text)
    except OSError as error:
        return {}, set(), f"{file}: {error.strerror or error}"
    except UnicodeDecodeError as error:
        return {}, set(), f"{file} is not text in {error.encoding}: save it as UTF-8"
    except YamlError:
        return {}, set(), f"{file} is not valid YAML"
    if content is None:
        return {}, set(), ""
    if not isinstance(content, dict):
        return {}, set(), f"{file} holds no settings"
    return content, {_ALIASES.get(key, key) for key in _FINAL.findall(text)}, ""


def _open(settings: dict[str, Any], final: set[str]) -> dict[str, Any]:
    """The settings that no earlier file has marked final."""
    return {key: value for key, value in settings.items() if key not in final}


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variable, text in env.items():
        if variable.startswith("CONDA_"):
            key = variable.removeprefix("CONDA_").lower()
            key = _ALIASES.get(key, key)
            if key in _LISTS:
                found[key] = [item.strip() for item in text.split(_LISTS[key]) if item.strip()]
            elif key in _KNOWN and key not in {*_MAPS, "channel_settings"}:
                found[key] = text.strip()
    return found


def _typed(content: Mapping[Any, Any], where: str, problems: list[str]) -> dict[str, Any]:
    typed: dict[str, Any] = {}
    for raw_key, value in content.items():
        key = _ALIASES.get(raw_key, raw_key)
        if key not in _KNOWN or value is None:
            continue
        try:
            typed[key] = _value(key, value)
        except (TypeError, ValueError):
            problems.append(f"{where}: {key} has a value of the wrong kind")
    return typed


def _value(key: str, value: Any) -> Any:
    if key in _LISTS:
        return _list(value)
    if key in _MAPS:
        if not isinstance(value, dict):
            raise TypeError
        many = key == "custom_multichannels"
        return {str(name): _list(item) if many else str(item or "") for name, item in value.items()}
    if key == "channel_settings":
        return _entries(value)
    if key in _BOOLS:
        return _bool(value)
    if key in _NUMBERS:
        return float(value)
    if key == "ssl_verify":
        return _ssl_verify(value)
    if key == "channel_priority":
        text = str(value).lower()
        text = "flexible" if text in _TRUE else "disabled" if text in _FALSE else text
        if text not in {"strict", "flexible", "disabled"}:
            raise ValueError
        return text
    return str(value)


def _list(value: Any) -> list[str]:
    if not isinstance(value, list):
        raise TypeError
    return [str(item) for item in value if item is not None]


def _entries(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise TypeError
    return [{str(key): str(item) for key, item in entry.items() if item is not None} for entry in value]


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise ValueError
    return text in _TRUE


def _ssl_verify(value: Any) -> bool | str:
    text = str(value)
    return text.lower() in _TRUE if text.lower() in _TRUE | _FALSE else text


def _merge(layers: list[dict[str, Any]]) -> dict[str, Any]:
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            known = merged.get(key)
            if key == "channel_settings":
                merged[key] = [*value, *(known or ())]
            elif isinstance(value, list):
                merged[key] = list(dict.fromkeys((*value, *(known or ()))))
            elif isinstance(value, dict):
                merged[key] = {**(known or {}), **value}
            else:
                merged[key] = value
    if "custom_multichannels" in merged:
        merged["custom_multichannels"] = {
            name: list(dict.fromkeys(members)) for name, members in merged["custom_multichannels"].items()
        }
    return merged


def _settings(
    merged: dict[str, Any], env: Mapping[str, str], root: Path | None, *, source: str, problems: list[str]
) -> CondaSettings:
    def texts(key: str) -> tuple[str, ...]:
        return tuple(expand_variables(text, env) for text in merged.get(key, ()))

    alias = expand_variables(merged.get("channel_alias", CHANNEL_ALIAS), env).rstrip("/")
    root = expand(merged["root_prefix"], env) if merged.get("root_prefix") else root
    subdir = merged.get("subdir") or native_subdir()

    def member(text: str) -> RedactedUrl:
        # A member without a scheme is below channel_alias, never in custom_channels.
        return RedactedUrl((text if _SCHEME.match(text) else f"{alias}/{text.strip('/')}").rstrip("/"))

    optional = {key: merged[key] for key in ("channel_priority", "solver", *_BOOLS, *_NUMBERS) if key in merged}
    if "aggressive_update_packages" in merged:
        optional["aggressive_update_packages"] = texts("aggressive_update_packages")
    defaults = texts("default_channels") or (*UNIX_DEFAULTS, *((MSYS2,) if subdir.startswith("win-") else ()))
    multichannels = {
        "defaults": tuple(member(text) for text in defaults),
        **{
            name: tuple(member(expand_variables(text, env)) for text in members)
            for name, members in merged.get("custom_multichannels", {}).items()
        },
        "local": (),  # packages made by conda-build: only conda itself knows their folder
    }
    verify = merged.get("ssl_verify", True)
    return CondaSettings(
        source=source,
        problem="; ".join(problems),
        root_prefix=root,
        subdir=subdir,
        channels=texts("channels") or ("defaults",),
        default_channels=multichannels["defaults"],
        custom_channels={
            **dict(_name_and_place(url, alias) for members in multichannels.values() for url in members),
            **{
                name.strip("/"): RedactedUrl(_below_alias(expand_variables(place, env), alias).rstrip("/"))
                for name, place in merged.get("custom_channels", _OWN_CUSTOM_CHANNELS).items()
            },
        },
        custom_multichannels=multichannels,
        channel_alias=RedactedUrl(alias),
        pkgs_dirs=tuple(dict.fromkeys(expand(text, env) for text in merged.get("pkgs_dirs", ()))) or _pkgs(root, env),
        envs_dirs=tuple(
            dict.fromkeys((*(expand(text, env) for text in merged.get("envs_dirs", ())), *_envs(root, env)))
        ),
        ssl_verify=expand_variables(verify, env) if isinstance(verify, str) else bool(verify),
        client_ssl_cert=_maybe(merged.get("client_ssl_cert"), env),
        client_ssl_cert_key=_maybe(merged.get("client_ssl_cert_key"), env),
        proxy_servers={key: expand_variables(proxy, env) for key, proxy in merged.get("proxy_servers", {}).items()},
        allowlist_channels=texts("allowlist_channels"),
        denylist_channels=texts("denylist_channels"),
        channel_settings=tuple(merged.get("channel_settings", ())),
        pinned_packages=texts("pinned_packages"),
        create_default_packages=texts("create_default_packages"),
        exclude_newer=expand_variables(merged.get("exclude_newer", ""), env),
        exclude_newer_package=merged.get("exclude_newer_package", {}),
        **optional,
    )


def _name_and_place(url: RedactedUrl, alias: str) -> tuple[str, RedactedUrl]:
    """Split a multichannel's member as conda does: name below the alias, else the whole path below the host."""
    text = url.reveal()
    if text.startswith(alias + "/"):
        return text[len(alias) + 1 :], RedactedUrl(alias)
    parts = urlsplit(text)
    token = _TOKEN.match(parts.path)
    kept = token[0] if token else ""
    return parts.path[len(kept) :].strip("/"), RedactedUrl(f"{parts.scheme}://{parts.netloc}{kept}")


def _below_alias(place: str, alias: str) -> str:
    return place if _SCHEME.match(place) else alias


def _maybe(text: str | None, env: Mapping[str, str]) -> str | None:
    return expand_variables(text, env) or None if text else None


def _pkgs(root: Path | None, env: Mapping[str, str]) -> tuple[Path, ...]:
    found = [root / "pkgs"] if root is not None else []
    found.append(expand("~/.conda/pkgs", env))
    if WINDOWS:
        import platformdirs

        found.append(Path(platformdirs.user_data_dir("conda", "conda")) / "pkgs")
    return tuple(dict.fromkeys(found))


def _envs(root: Path | None, env: Mapping[str, str]) -> tuple[Path, ...]:
    return (*((root / "envs",) if root is not None else ()), expand("~/.conda/envs", env))


def native_subdir() -> str:
    """This machine's conda platform: ``linux-64``, ``osx-arm64``, ``win-64``."""
    if sys.platform == "win32":
        # as offline_tools.machine.virtual_packages; platform.machine() is empty without PROCESSOR_ARCHITECTURE
        return {"win32": "win-32", "win-arm64": "win-arm64"}.get(sysconfig.get_platform(), "win-64")
    system = {"darwin": "osx"}.get(sys.platform, "linux" if sys.platform.startswith("linux") else "unknown")
    machine = platform.machine().lower()
    if machine in _MACHINES:
        # A 32-bit Python on a 64-bit system installs 32-bit packages.
        return f"{system}-{8 * struct.calcsize('P')}"
    return f"{system}-{machine}"

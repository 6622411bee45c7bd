"""Parser of environment.yml."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.text_encoding import read_text
from resume_dl.yaml_text import YamlError, load_yaml

_HINT = "write it as conda env export does: name, channels, dependencies"


@dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """The content of an environment.yml."""

    name: str
    channels: tuple[str, ...]
    specs: tuple[str, ...]
    pip: tuple[str, ...]
    """The requirements below ``pip:``."""


def read_environment_file(path: Path) -> EnvironmentFile:
    """Parse an environment.yml; raises ConfigurationError for another form. ``prefix`` is ignored."""
    try:
        document = load_yaml(read_text(path))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not text in {error.encoding}", hint="save it as UTF-8") from error
    except YamlError as error:
        raise ConfigurationError(f"{path} is not valid YAML: {error}", hint=_HINT) from error
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path} is not an environment file", hint=_HINT)
    specs: list[str] = []
    pip: list[str] = []
    for number, entry in enumerate(_list(document, "dependencies", path), 1):
        if isinstance(entry, dict) and set(entry) == {"pip"}:
            pip += _texts(entry, "pip", path)
        elif isinstance(entry, str):
            specs.append(entry)
        else:  # not written out: lists of YAML aliases may have more texts than the memory
            raise ConfigurationError(f"{path}: entry {number} of dependencies is not a text", hint=_HINT)
    name = document.get("name") or ""
    if isinstance(name, (dict, list)):
        raise ConfigurationError(f"{path}: name is not a text", hint=_HINT)
    return EnvironmentFile(str(name), _texts(document, "channels", path), tuple(specs), tuple(pip))


def _list(document: dict[str, Any], key: str, path: Path) -> list[Any]:
    value = document.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigurationError(f"{path}: {key} is not a list", hint=_HINT)
    return value


def _texts(document: dict[str, Any], key: str, path: Path) -> tuple[str, ...]:
    entries = _list(document, key, path)
    if not all(isinstance(entry, str) for entry in entries):
        raise ConfigurationError(f"{path}: {key} is not a list of strings", hint=_HINT)
    return tuple(entries)

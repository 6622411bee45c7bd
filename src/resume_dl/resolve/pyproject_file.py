"""Reader of a pyproject.toml: dependencies (PEP 621) and build requirements (PEP 517, PEP 518)."""

from __future__ import annotations

from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.model.pip import PipFile, PipRequirement
from resume_dl.resolve.requirement_line import parse_any, parse_requirement
from resume_dl.text_encoding import read_text
from resume_dl.toml_text import TomlError, load_toml

_BUILT_BY_DEFAULT = ("setuptools>=40.8.0", "wheel")
"""The default of pip, for a project that declares no build system (PEP 517)."""
_ASKED_WHILE_BUILDING = {"setuptools": ("wheel",), "hatchling": ("editables",)}
"""Build requirements that a backend reports only at run time: wheel before setuptools 70.1, editables for ``-e``."""


def read_project(path: Path) -> PipFile:
    """Read ``[project] dependencies`` of a pyproject.toml (PEP 621). Raises ConfigurationError or InvalidSpecError."""
    try:
        document = load_toml(read_text(path))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error
    except (UnicodeDecodeError, TomlError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {error}", hint="correct the line named") from error
    project = document.get("project")
    if not isinstance(project, dict):
        raise ConfigurationError(
            f"{path} has no [project] table", hint="pyproject.toml, pylock.toml and requirements.txt are supported"
        )
    if "dependencies" in project.get("dynamic", ()):
        raise ConfigurationError(f"{path} declares its dependencies as dynamic", hint="list them in a requirements.txt")
    listed = project.get("dependencies", [])
    if not isinstance(listed, list) or not all(isinstance(text, str) for text in listed):
        raise ConfigurationError(
            f"{path}: project.dependencies is not a list of strings", hint="PEP 621 describes the format"
        )
    return PipFile(requirements=tuple(parse_requirement(text, f"{path}, project.dependencies") for text in listed))


def build_requirements(folder: Path) -> tuple[str, ...]:
    """Return what pip needs to build the project in ``folder``, by its pyproject.toml (PEP 518, PEP 517).

    An unreadable file counts as missing; pip will report it.
    """
    try:
        document = load_toml(read_text(folder / "pyproject.toml"))
    except (OSError, UnicodeDecodeError, TomlError):
        document = {}
    table = document.get("build-system")
    listed = table.get("requires") if isinstance(table, dict) else None
    if not isinstance(listed, list):
        return _BUILT_BY_DEFAULT
    wanted: list[str] = []
    for text in listed:
        found = parse_any(text) if isinstance(text, str) else None
        if isinstance(found, PipRequirement):
            wanted += [text, *_ASKED_WHILE_BUILDING.get(found.name.lower(), ())]
    return tuple(dict.fromkeys(wanted))

"""Reader of an existing environment: conda-meta's records, pins and history."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs
from resume_dl.errors import ConfigurationError
from resume_dl.model.spec_name import name_of

_MOST_RECORD = 64 << 20
"""Largest record, in bytes: a package of 300,000 files, each with its digest."""
_UPDATE = re.compile(r"# (?:update|install|create) specs: (?P<specs>.+)")
_REMOVE = re.compile(r"# (?:remove|neutered) specs: (?P<specs>.+)")
_NAME = re.compile(r"(?:[^\s\[]+::)?(?P<name>[\w.-]+)")


@dataclass(frozen=True, slots=True)
class Installed:
    """The content of an environment."""

    records: tuple[Path, ...] = ()
    """conda-meta's record of each package that conda installed."""
    history: tuple[str, ...] = ()
    """The specs of earlier commands that conda still respects, one per name."""
    pinned: tuple[str, ...] = ()
    """The specs of ``conda-meta/pinned``."""
    names: frozenset[str] = frozenset()
    """The names of the installed packages and of their dependencies."""


def read_installed(prefix: Path) -> Installed:
    """Read the environment at ``prefix``; the result is empty if it is missing. Raises ConfigurationError.

    Packages that pip installed have no record and are ignored, as by conda's solver.
    """
    meta = prefix / "conda-meta"
    if not meta.is_dir():
        if prefix.is_dir() and any(prefix.iterdir()):
            raise ConfigurationError(f"{prefix} is not a conda environment", hint="name one, or a new folder")
        return Installed()
    found = {path: names for path in sorted(meta.glob("*.json")) if (names := _names_of_record(path))}
    history, pinned = _history(meta / "history"), _lines(meta / "pinned")
    return Installed(tuple(found), history, pinned, frozenset(name for names in found.values() for name in names))


def _names_of_record(path: Path) -> set[str]:
    """Return the names of a record's package and dependencies; empty for files of other tools (``pixi``, ``state``)."""
    try:
        record = json.loads(fs.read_regular(path, _MOST_RECORD))
    except (OSError, ValueError, RecursionError):
        return set()
    if not isinstance(record, dict) or not {"name", "version", "build"} <= record.keys():
        return set()
    depends = record.get("depends")
    specs = [record["name"], *(depends if isinstance(depends, list) else [])]
    return {name_of(spec) for spec in specs if isinstance(spec, str)} | {str(record["name"])}


def _lines(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple(line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


def _history(path: Path) -> tuple[str, ...]:
    """Return the requested specs; as in conda's ``History.get_requested_specs_map``, the last spec of a name counts."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    wanted: dict[str, str] = {}
    for line in text.splitlines():
        if found := _UPDATE.fullmatch(line.strip()):
            for spec in _specs(found["specs"]):
                if name := _name(spec):
                    wanted[name] = spec
        elif found := _REMOVE.fullmatch(line.strip()):
            for spec in _specs(found["specs"]):
                wanted.pop(_name(spec), None)
    return tuple(wanted.values())


def _specs(text: str) -> list[str]:
    """Parse a Python list, as conda has written it since 4.4; earlier versions wrote specs separated by commas."""
    if text.startswith("["):
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            return []
        return [spec for spec in value if isinstance(spec, str)]
    return [spec.strip() for spec in text.split(",") if spec.strip()]


def _name(spec: str) -> str:
    found = _NAME.match(spec)
    return found["name"].lower() if found else ""

"""Reader of uv.lock, version 1: uv itself writes it as a pylock.toml (``uv export``), which our reader of that takes.

uv works on a copy, offline. It asks for the project's pyproject.toml only for names, which are in the lock too; so the
copy gets one that has nothing else, and the user's project is neither needed nor touched.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resume_dl.errors import ConfigurationError
from resume_dl.memory_limit import MOST_FOR_LOCKS
from resume_dl.resolve.locks.lock_fields import LockFields, refuse
from resume_dl.resolve.uv_program import explanation, find_uv, run_uv, stopped_resolving, uv_environment
from resume_dl.toml_text import TomlError, load_toml

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?", re.IGNORECASE)
"""The name of a package (PEP 508), an extra or a dependency group."""
_QUOTED = re.compile(r"\d* *\|")
"""The beginning of a line in which uv quotes the file."""
_EXPORT = (
    *("export", "--format", "pylock.toml", "--frozen", "--offline", "--no-config", "--no-cache", "--no-header"),
    *("--no-progress", "--color", "never", "--no-emit-project", "--no-emit-workspace", "--no-python-downloads"),
)
_WORKSPACE = "[tool.uv.workspace]\nmembers = []\n"
"""With it uv looks for no project in the folders above; the members are in the lock."""
_BY_HAND = "uv export --format pylock.toml -o pylock.toml, then --file pylock.toml"


@dataclass(frozen=True, slots=True)
class _Project:
    """What an export needs of the project: its name is empty for a workspace that has members only."""

    name: str
    extras: frozenset[str]
    groups: frozenset[str]


def export_uv_lock(
    text: str,
    where: str,
    *,
    environments: Sequence[str] = (),
    env: Mapping[str, str],
    cancelled: Callable[[], bool] = lambda: False,
) -> str:
    """Return the packages of the project as a pylock.toml, for all platforms that the lock is for.

    ``environments``: extras and dependency groups besides the project; none for the group ``dev``, as ``uv sync`` has
    it. Raises ConfigurationError with line or key, and Interrupted.
    """
    project = _project(text, where)
    options = [word for name in environments for word in _option(name, project, where)]
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as name:
        folder = Path(name)
        (folder / "uv.lock").write_text(text, encoding="utf-8", newline="\n")
        head = f"[project]\nname = {json.dumps(project.name)}\nversion = '0'\n" if project.name else ""
        (folder / "pyproject.toml").write_text(head + _WORKSPACE, encoding="utf-8", newline="\n")
        command = [str(find_uv()), *_EXPORT, *(["--no-default-groups"] if options else []), *options]
        code, out, err = run_uv(command, folder, uv_environment(env, folder), cancelled, memory=MOST_FOR_LOCKS)
    if code != 0 and cancelled():  # uv receives the terminal's Ctrl-C too
        raise stopped_resolving()
    if code != 0:
        lines = [line for line in explanation(err).splitlines() if not _QUOTED.match(line)]
        refuse(where, f"uv does not read it: {': '.join(lines) or f'status {code}'}")
    return out


def _project(text: str, where: str) -> _Project:
    try:
        document = LockFields(load_toml(text), where)
    except TomlError as error:
        said = str(error).replace("end of document", f"end of document, line {text.count(chr(10)) + 1}")
        raise ConfigurationError(f"{where} is not valid TOML: {said}", hint="create the lock file again") from error
    document.version("version", 1)
    name, found = "", False
    extras, groups = set[str](), {*document.table("manifest").table("dependency-groups").names()}
    for package in document.tables("package"):
        named = _checked(package.text("name"), package.where)
        package.where += f" ({named[:80]})"
        _check_digests(package)
        source = package.table("source")
        place = next((source.text(kind) for kind in ("editable", "virtual") if kind in source), None)
        if place is None:
            continue
        found = True
        if place == ".":
            name = named
            extras |= {*package.table("optional-dependencies").names()}
            groups |= {*package.table("dev-dependencies").names()}
    if not found:
        refuse(where, "locks no project, but perhaps a script", hint=_BY_HAND)
    return _Project(name, frozenset(extras), frozenset(groups))


def _check_digests(package: LockFields) -> None:
    """Refuse a file at a URL without a digest: uv would fetch it to compute one."""
    files = [*package.tables("wheels"), *([package.table("sdist")] if "sdist" in package else [])]
    for file in files:
        if "url" in file and ":" not in file.text("hash", ""):
            refuse(file.where, "has no digest, so that nothing could be verified")


def _checked(name: str, where: str) -> str:
    if not _NAME.fullmatch(name):
        refuse(f"{where}, name", f"{name[:80]!r} is not a name")
    return name


def _option(name: str, project: _Project, where: str) -> tuple[str, str]:
    if name in project.extras or name in project.groups:
        return ("--extra" if name in project.extras else "--group", _checked(name, where))
    known = ", ".join(sorted(project.extras | project.groups)) or "none"
    raise ConfigurationError(
        f"{where} has no extra or dependency group {name!r}, but {known}", hint="choose one of them with --environment"
    )

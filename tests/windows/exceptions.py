"""Tests that do not run in the Windows Python, by name, each with its reason: ``exceptions.toml``."""

from __future__ import annotations

import functools
import os
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


LIST = Path(__file__).with_name("exceptions.toml")


@dataclass(frozen=True)
class Group:
    """Tests that share a reason. ``tests`` are node ids: of a file, or of a test with or without its parameters."""

    reason: str
    where: str
    tests: tuple[str, ...]


def groups() -> list[Group]:
    """The whole list."""
    found = tomllib.loads(LIST.read_text(encoding="utf-8"))["group"]
    return [Group(each["reason"], each["where"], tuple(each["tests"])) for each in found]


def reason_for(node: str) -> str | None:
    """Why this test cannot run here, or None if it can."""
    reasons = _reasons()
    without = node.partition("[")[0]
    parts = without.split("::")
    above = ["::".join(parts[:count]) for count in range(len(parts), 0, -1)]
    return next((reasons[name] for name in (node, *above) if name in reasons), None)


@functools.cache
def _reasons() -> dict[str, str]:
    if sys.platform != "win32":
        return {}
    here = {"windows", "wine"} if under_wine() else {"windows"}
    return {name: group.reason for group in groups() if group.where in here for name in group.tests}


def under_wine() -> bool:
    """Whether this Windows is Wine."""
    if sys.platform != "win32":
        return False
    import ctypes

    return hasattr(ctypes.windll.ntdll, "wine_get_version")


def refuse_links() -> None:
    """Under Wine 8, whose CreateSymbolicLink says that it did what it did not: fail as for a user without the right."""
    if under_wine():

        def symlink(source: object, destination: object, *_: object, **__: object) -> None:
            raise OSError(22, "Wine makes no symbolic link", str(source), 1314, str(destination))

        os.symlink = symlink


def as_markdown() -> str:
    """The list as docs/windows.md has it: a table row for each reason, then the names."""
    lines = ["| tests | where | why not |", "| ---: | --- | --- |"]
    found = groups()
    lines += [f"| {len(group.tests)} | {_WHERE[group.where]} | {group.reason} |" for group in found]
    for group in found:
        lines += ["", f"{group.reason[0].upper()}{group.reason[1:]}:", ""]
        lines += [f"- `{name.removeprefix('tests/')}`" for name in group.tests]
    return "\n".join(lines) + "\n"


_WHERE = {"windows": "any Windows", "wine": "Wine"}

"""Wheels made of what is installed beside the tests: an index for a pip that reaches no network.

    lay_wheels(tmp_path / "wheels", ["hatchling", *requirements])      # with all that they need

A wheel holds the installed files, not compressed; scripts are made again by the pip that installs it.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_OF_THE_INSTALLATION = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json"}


def lay_wheels(folder: Path, requirements: Iterable[str]) -> None:
    """Write a wheel for each requirement and for what it requires on this machine."""
    folder.mkdir()
    waiting, seen = [Requirement(each) for each in requirements], set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        found = metadata.distribution(wanted.name)
        if not any(folder.glob(f"{found.name.replace('-', '_')}-{found.version}-*")):
            _write_wheel(folder, found)
        for requirement in map(Requirement, found.requires or ()):
            extras = [{"extra": extra} for extra in ("", *wanted.extras)]
            if requirement.marker is None or any(map(requirement.marker.evaluate, extras)):
                requirement.marker = None
                waiting.append(requirement)


def _write_wheel(folder: Path, installed: metadata.Distribution) -> None:
    tags = [line.partition(": ")[2] for line in (installed.read_text("WHEEL") or "").splitlines() if line[:4] == "Tag:"]
    tag = "-".join(".".join(dict.fromkeys(parts)) for parts in zip(*(each.split("-") for each in tags), strict=True))
    name = f"{installed.name.replace('-', '_')}-{installed.version}"
    made_here = {entry.name for entry in installed.entry_points if entry.group == "console_scripts"}
    members = []
    with zipfile.ZipFile(folder / f"{name}-{tag}.whl", "w") as archive:
        for file in installed.files or ():
            member = file.as_posix()
            if file.parts[0] == "..":
                if file.name in made_here:
                    continue
                member = f"{name}.data/scripts/{file.name}"
            if "__pycache__" in file.parts or file.name in _OF_THE_INSTALLATION:
                continue
            archive.write(file.locate(), member)
            members.append(member)
        info = next(member.partition("/")[0] for member in members if ".dist-info/" in member)
        record = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
        archive.writestr(f"{info}/RECORD", record)

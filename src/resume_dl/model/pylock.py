"""The text of a pylock.toml (PEP 751). ``resolve/pylock`` reads one and chooses from it.

Every entry is one version of one project, as wheels or a source archive, each with hashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInLock:
    """One wheel or source archive; ``size`` in bytes, None if unknown."""

    name: str
    url: str
    """Without a login; empty if there is a path instead."""
    hashes: Mapping[str, str]
    """Algorithm -> lower-case hex; at least one."""
    size: int | None = None
    path: str = ""
    """Path relative to the lock's folder, with ``/``; installers prefer it to the URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInLock:
    """One version of one project."""

    name: str
    """Normalized name (PEP 503)."""
    version: str
    marker: str = ""
    """Marker (PEP 508); empty for everywhere."""
    wheels: tuple[FileInLock, ...] = ()
    sdist: FileInLock | None = None


def write_lock(
    packages: Iterable[PackageInLock], *, requires_python: str = "", environments: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the text in pieces: a head, then one for each package, in order.

    ``environments``: markers, of which one must hold for an installation; empty for any environment.
    """
    head = ['lock-version = "1.0"', 'created-by = "resume-dl"']
    head += [f"environments = [{', '.join(map(_toml, environments))}]"] if environments else []
    head += [f"requires-python = {_toml(requires_python)}"] if requires_python else []
    piece, some = "\n".join(head) + "\n", False
    for package in packages:
        yield piece
        piece, some = "\n".join(_package(package)) + "\n", True
    yield piece if some else piece + "packages = []\n"


def _package(package: PackageInLock) -> Iterator[str]:
    yield from ("", "[[packages]]", f"name = {_toml(package.name)}", f"version = {_toml(package.version)}")
    if package.marker:
        yield f"marker = {_toml(package.marker)}"
    if package.sdist is not None:
        yield f"sdist = {_file(package.sdist)}"
    if package.wheels:
        yield f"wheels = [{', '.join(map(_file, package.wheels))}]"


def _file(file: FileInLock) -> str:
    url = f", url = {_toml(file.url)}" if file.url else ""
    path = f", path = {_toml(file.path)}" if file.path else ""
    size = "" if file.size is None else f", size = {file.size}"
    hashes = ", ".join(f"{kind} = {_toml(value)}" for kind, value in file.hashes.items())
    return f"{{ name = {_toml(file.name)}{url}{path}{size}, hashes = {{ {hashes} }} }}"


def _toml(text: str) -> str:
    """A basic TOML string, of which JSON strings are a subset."""
    return json.dumps(text, ensure_ascii=False)

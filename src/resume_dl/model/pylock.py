"""The text of a pylock.toml (PEP 751). Reading and choosing from one is ``resolve/pylock``'s.

What every entry here has: one version of one project, as wheels or a source archive, each with hashes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FileInLock:
    """One wheel or source archive; ``size`` in bytes, None where nobody knows it."""

    name: str
    url: str
    """Without a login; empty for none: then there is a path."""
    hashes: Mapping[str, str]
    """Algorithm -> lower-case hex; at least one."""
    size: int | None = None
    path: str = ""
    """Where it lies as seen from the lock's folder, with ``/``; whoever installs prefers that to the URL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageInLock:
    """One version of one project."""

    name: str
    """As PEP 503 writes it."""
    version: str
    marker: str = ""
    """PEP 508: where it is installed; empty for everywhere."""
    wheels: tuple[FileInLock, ...] = ()
    sdist: FileInLock | None = None


def write_lock(
    packages: Iterable[PackageInLock], *, requires_python: str = "", environments: Sequence[str] = ()
) -> Iterator[str]:
    """The text in pieces: a head, then one for each package, in their order.

    ``environments``: markers, of which one must hold where it is installed; none for anywhere.
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
    """A basic string of TOML: JSON's escapes are among its own."""
    return json.dumps(text, ensure_ascii=False)

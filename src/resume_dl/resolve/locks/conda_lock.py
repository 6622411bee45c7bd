"""Reader of conda-lock.yml, version 1 (conda/conda-lock, ``lockfile/v1/models.py``). Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from resume_dl.errors import ConfigurationError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import brief
from resume_dl.resolve.locks.lock_fields import LockFields, refuse
from resume_dl.resolve.locks.locked_files import Canonical, LockedPackage, LockedPackages, conda_file, pip_file
from resume_dl.yaml_text import YamlError, load_yaml

_MAIN = "main"


def read_conda_lock(text: str, where: str, canonical: Canonical) -> LockedPackages:
    """Read all packages, of every platform. Raises ConfigurationError with the key, or with the line of a YAML error.

    ``groups`` are its categories: ``main`` is always installed, and ``dev`` unless others are named, as
    ``conda-lock install`` does.
    """
    document = LockFields(_document(text, where), where)
    document.version("version", 1)
    platforms = tuple(document.table("metadata").texts("platforms"))
    packages = tuple(_package(each, platforms, canonical) for each in document.tables("package"))
    if not packages:
        refuse(where, "locks no package")
    return LockedPackages(
        packages=packages,
        platforms=platforms,
        groups=tuple(sorted({group for each in packages for group in each.groups})),
        default=frozenset((_MAIN, "dev")),
        always=frozenset((_MAIN,)),
        group_word="category",
    )


@lru_cache(maxsize=4)  # a file is read for conda and again for pip, and a megabyte takes seconds
def _document(text: str, where: str) -> Any:
    try:
        return load_yaml(text)
    except YamlError as error:
        raise ConfigurationError(f"{where} is not valid YAML: {error}", hint="create the lock file again") from error


def _package(fields: LockFields, platforms: tuple[str, ...], canonical: Canonical) -> LockedPackage:
    name = fields.text("name")
    fields.where += f" ({brief(name, 80)})"
    platform, manager, url = fields.text("platform"), fields.text("manager"), fields.text("url")
    if platform not in platforms:
        refuse(f"{fields.where}, platform", f"is {platform[:80]!r}, which metadata does not list")
    hashes = fields.table("hash")
    known = {kind: hashes.text(kind) for kind in ("sha256", "md5") if kind in hashes}
    artifact: Artifact | None = None
    if manager == "conda":
        artifact = conda_file(url, known, name=name, where=f"{fields.where}, url", canonical=canonical)
        if artifact.subdir not in {platform, "noarch"}:
            refuse(f"{fields.where}, url", f"leads to {artifact.subdir[:80]!r}, not to {platform} or noarch")
    elif manager != "pip":
        refuse(f"{fields.where}, manager", f"is {manager[:80]!r}; conda and pip are supported")
    elif not url.startswith("git+"):
        version = fields.text("version")
        artifact = pip_file(url, known, name=name, version=version, where=f"{fields.where}, url", canonical=canonical)
    return LockedPackage(
        platform=platform, groups=frozenset((fields.text("category", _MAIN),)), name=name, artifact=artifact
    )

"""Selection of the files for one platform and Python from a pylock.toml (PEP 751), without network access.

``packaging`` parses and selects; this module provides the environment markers of other platforms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypedDict
from urllib.parse import unquote, urlsplit

from packaging.pylock import (
    Package,
    PackageArchive,
    PackageSdist,
    PackageWheel,
    Pylock,
    PylockSelectError,
    PylockUnsupportedVersionError,
    PylockValidationError,
)
from packaging.tags import Tag

from resume_dl.errors import ConfigurationError, UnsatisfiableError
from resume_dl.model.artifact import Artifact
from resume_dl.model.pip import PipSolution
from resume_dl.model.platforms import SYS_PLATFORM, TARGETS
from resume_dl.model.url import RedactedUrl, brief
from resume_dl.resolve.locks.lock_fields import checked_size
from resume_dl.resolve.locks.lock_format import lock_text
from resume_dl.resolve.locks.locked_files import check_sdists, checked_hashes, checked_url
from resume_dl.resolve.target import tags_for
from resume_dl.toml_text import TomlError, load_toml

_SHOWN = 6


class MarkerEnvironment(TypedDict):
    """The environment markers (PEP 508) of a target."""

    implementation_name: str
    implementation_version: str
    os_name: str
    platform_machine: str
    platform_python_implementation: str
    platform_release: str
    platform_system: str
    platform_version: str
    python_full_version: str
    python_version: str
    sys_platform: str


def read_lock(
    path: Path,
    *,
    text: str | None = None,
    platform: str,
    python: str,
    tags: Sequence[Tag] = (),
    allow_sdist: bool = False,
    canonical: Callable[[str], str] = lambda url: url,
) -> PipSolution:
    """Return the files for ``platform`` (conda's subdir) and ``python`` (``3.10`` or ``3.10.4``).

    ``text``: what to read, if not the file itself. ``tags``: the target's wheel tags, best first; empty for CPython on
    an unspecified machine of the platform. ``canonical`` is ``MirrorTable.canonical``. Raises ConfigurationError for a
    file that is not a lock, UnsatisfiableError if no file is compatible, ResolutionError for a source archive without
    --allow-sdist.
    """
    if platform not in TARGETS:
        raise ConfigurationError(
            f"there are no wheels for the platform {platform!r}", hint=f"one of {', '.join(TARGETS)}"
        )
    text, lock = _read(path, text)
    takes = tags or tags_for(python, platform)
    try:
        chosen = [*lock.select(environment=marker_environment(platform, python), tags=takes)]
    except PylockSelectError as error:
        there = next((package for package in lock.packages if repr(package.name) in str(error)), None)
        raise UnsatisfiableError(f"{path}: {brief(str(error))}", hint=_available(there)) from error
    notes: list[str] = []
    artifacts: list[Artifact] = []
    for package, file in chosen:
        if isinstance(file, (PackageWheel, PackageSdist, PackageArchive)) and file.url is not None:
            artifacts.append(_artifact(package, file, file.url, path, canonical))
        else:
            notes.append(f"skipped: {path} locks {package.name} to version control or a local path")
    check_sdists(path, artifacts, allowed=allow_sdist)
    return PipSolution(platform=platform, python=python, artifacts=tuple(artifacts), notes=tuple(notes), lock_text=text)


def _read(path: Path, given: str | None) -> tuple[str, Pylock]:
    try:
        text = lock_text(path) if given is None else given
        return text, Pylock.from_dict(load_toml(text))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error
    except (UnicodeDecodeError, TomlError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {brief(str(error))}", hint="correct it") from None
    except (PylockValidationError, PylockUnsupportedVersionError) as error:
        text = brief(str(error))
        raise ConfigurationError(
            f"{path} is not a valid lock file: {text}", hint="PEP 751 describes the format"
        ) from None


def _artifact(
    package: Package,
    file: PackageWheel | PackageSdist | PackageArchive,
    url: str,
    path: Path,
    canonical: Callable[[str], str],
) -> Artifact:
    plain = checked_url(url, f"{path}: {package.name}, url", may_have_login=True)
    filename = unquote(urlsplit(plain).path.rpartition("/")[2]) if isinstance(file, PackageArchive) else file.filename
    hashes = checked_hashes(file.hashes, f"{path}: {package.name}, hashes")
    try:
        return Artifact(
            kind="wheel" if filename.endswith(".whl") else "sdist",
            filename=filename,
            url=RedactedUrl(canonical(plain)),
            size=checked_size(file.size, f"{path}: {package.name}, size"),
            sha256=hashes.get("sha256"),
            md5=hashes.get("md5"),
            name=package.name,
            version=str(package.version or ""),
            record={"hashes": hashes, "allowed": sorted(f"{kind}:{value}" for kind, value in hashes.items())},
        )
    except ValueError as error:
        raise ConfigurationError(f"{path}: {package.name} has an {error}", hint="do not trust this file") from error


def _available(package: Package | None) -> str:
    names = [wheel.filename for wheel in (package.wheels if package else None) or ()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it has: {', '.join(names[:_SHOWN])}{more}" if names else "create the lock file again for this target"


# --------------------------------------------------------------------------- another machine


def marker_environment(platform: str, python: str) -> MarkerEnvironment:
    """Return the markers of CPython ``python`` (``3.10`` or ``3.10.4``) on ``platform``, one of ``TARGETS``."""
    system, machine = TARGETS[platform]
    full = python if python.count(".") > 1 else f"{python}.0"
    return {
        "implementation_name": "cpython",
        "implementation_version": full,
        "os_name": "nt" if system == "Windows" else "posix",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": system,
        "platform_version": "",
        "python_full_version": full,
        "python_version": ".".join(full.split(".")[:2]),
        "sys_platform": SYS_PLATFORM[system],
    }

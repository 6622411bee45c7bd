"""Selection of the files for one platform and Python from a pylock.toml (PEP 751), without network access.

``packaging`` parses and selects; this module provides the environment markers of other platforms.
"""

from __future__ import annotations

import sys
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

from resume_dl.errors import ConfigurationError, ResolutionError, UnsatisfiableError
from resume_dl.model.artifact import Artifact
from resume_dl.model.pip import PipSolution
from resume_dl.model.platforms import SYS_PLATFORM, TARGETS
from resume_dl.model.url import RedactedUrl, scrub
from resume_dl.resolve.target import tags_for
from resume_dl.text_encoding import read_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

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
    platform: str,
    python: str,
    tags: Sequence[Tag] = (),
    allow_sdist: bool = False,
    canonical: Callable[[str], str] = lambda url: url,
) -> PipSolution:
    """Return the files for ``platform`` (conda's subdir) and ``python`` (``3.10`` or ``3.10.4``).

    ``tags``: the target's wheel tags, best first; empty for CPython on an unspecified machine of the platform.
    ``canonical`` is ``MirrorTable.canonical``. Raises ConfigurationError for a file that is not a lock,
    UnsatisfiableError if no file is compatible, ResolutionError for a source archive without --allow-sdist.
    """
    if platform not in TARGETS:
        raise ConfigurationError(
            f"there are no wheels for the platform {platform!r}", hint=f"one of {', '.join(TARGETS)}"
        )
    text, lock = _read(path)
    takes = tags or tags_for(python, platform)
    try:
        chosen = [*lock.select(environment=marker_environment(platform, python), tags=takes)]
    except PylockSelectError as error:
        there = next((package for package in lock.packages if repr(package.name) in str(error)), None)
        raise UnsatisfiableError(f"{path}: {error}", hint=_available(there)) from error
    notes: list[str] = []
    artifacts: list[Artifact] = []
    for package, file in chosen:
        if isinstance(file, (PackageWheel, PackageSdist, PackageArchive)) and file.url is not None:
            artifacts.append(_artifact(package, file, file.url, path, canonical))
        else:
            notes.append(f"skipped: {path} locks {package.name} to version control or a local path")
    sdists = [each.filename for each in artifacts if each.kind == "sdist"]
    if sdists and not allow_sdist:
        raise ResolutionError(
            f"{path} has only a source archive for this platform: {', '.join(sdists)}",
            hint="--allow-sdist fetches it; the installing machine builds it",
        )
    return PipSolution(platform=platform, python=python, artifacts=tuple(artifacts), notes=tuple(notes), lock_text=text)


def _read(path: Path) -> tuple[str, Pylock]:
    try:
        text = read_text(path)
        return text, Pylock.from_dict(tomllib.loads(text))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {scrub(str(error))}", hint="correct it") from None
    except (PylockValidationError, PylockUnsupportedVersionError) as error:
        text = scrub(str(error))
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
    plain = url.partition("#")[0]
    filename = unquote(urlsplit(plain).path.rpartition("/")[2]) if isinstance(file, PackageArchive) else file.filename
    hashes = {kind: value.lower() for kind, value in file.hashes.items()}
    try:
        return Artifact(
            kind="wheel" if filename.endswith(".whl") else "sdist",
            filename=filename,
            url=RedactedUrl(canonical(plain)),
            size=file.size,
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

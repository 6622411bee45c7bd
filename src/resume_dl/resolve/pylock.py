"""Chooses from a pylock.toml (PEP 751): the files that one platform and Python need, without asking anybody.

``packaging`` reads and chooses; what it is told of a platform other than this one (markers, wheel tags) is made here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
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
from packaging.tags import Tag, compatible_tags, cpython_tags, mac_platforms, platform_tags

from resume_dl.errors import ConfigurationError, ResolutionError, UnsatisfiableError
from resume_dl.model.artifact import Artifact
from resume_dl.model.pip import PipSolution
from resume_dl.model.url import RedactedUrl, scrub

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_GLIBC, _OLDEST = (2, 28), 5
"""What is taken for granted of another Linux, as uv does for a requirement; and the minor version of manylinux1."""
_MACOS = (13, 0)
_LEGACY = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
_TARGETS = {
    "linux-64": ("Linux", "x86_64"),
    "linux-aarch64": ("Linux", "aarch64"),
    "linux-riscv64": ("Linux", "riscv64"),
    "osx-64": ("Darwin", "x86_64"),
    "osx-arm64": ("Darwin", "arm64"),
    "win-32": ("Windows", "x86"),
    "win-64": ("Windows", "AMD64"),
    "win-arm64": ("Windows", "ARM64"),
}
"""conda's subdir -> ``platform_system`` and ``platform_machine`` of PEP 508."""
_SYS_PLATFORM = {"Linux": "linux", "Darwin": "darwin", "Windows": "win32"}
_WINDOWS = {"x86": "win32", "AMD64": "win_amd64", "ARM64": "win_arm64"}
_SHOWN = 6


class _Environment(TypedDict):
    """PEP 508's markers."""

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
    native: bool,
    python: str,
    allow_sdist: bool = False,
    canonical: Callable[[str], str] = lambda url: url,
) -> PipSolution:
    """The files for ``platform`` (conda's subdir; ``native``: this machine) and ``python`` (``3.10`` or ``3.10.4``).

    ``canonical`` is ``MirrorTable.canonical``. Raises ConfigurationError for a file that is no lock, UnsatisfiableError
    where it holds nothing that fits, ResolutionError for a source archive that was not asked for.
    """
    if platform not in _TARGETS:
        raise ConfigurationError(
            f"{platform!r} is no platform that wheels are made for", hint=f"one of {', '.join(_TARGETS)}"
        )
    text, lock = _read(path)
    tags = _tags(python, [*platform_tags()] if native else _platforms(platform))
    try:
        chosen = [*lock.select(environment=_environment(platform, python), tags=tags)]
    except PylockSelectError as error:
        there = next((package for package in lock.packages if repr(package.name) in str(error)), None)
        raise UnsatisfiableError(f"{path}: {error}", hint=_what_there_is(there)) from error
    notes: list[str] = []
    artifacts: list[Artifact] = []
    for package, file in chosen:
        if isinstance(file, (PackageWheel, PackageSdist, PackageArchive)) and file.url is not None:
            artifacts.append(_artifact(package, file, file.url, path, canonical))
        else:
            notes.append(f"passed over: {path} takes {package.name} from version control or from this machine")
    sdists = [each.filename for each in artifacts if each.kind == "sdist"]
    if sdists and not allow_sdist:
        raise ResolutionError(
            f"{path} has only a source archive for this platform: {', '.join(sdists)}",
            hint="--allow-sdist fetches it; it is built where it is installed",
        )
    return PipSolution(platform=platform, python=python, artifacts=tuple(artifacts), notes=tuple(notes), lock_text=text)


def _read(path: Path) -> tuple[str, Pylock]:
    try:
        text = path.read_text(encoding="utf-8")
        return text, Pylock.from_dict(tomllib.loads(text))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror or error}", hint="check --file") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} is not valid TOML: {scrub(str(error))}", hint="correct it") from None
    except (PylockValidationError, PylockUnsupportedVersionError) as error:
        text = scrub(str(error))
        raise ConfigurationError(f"{path} is no lock file that can be read: {text}", hint="PEP 751 says how") from None


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


def _what_there_is(package: Package | None) -> str:
    names = [wheel.filename for wheel in (package.wheels if package else None) or ()]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"there are: {', '.join(names[:_SHOWN])}{more}" if names else "make the lock file anew for it"


# --------------------------------------------------------------------------- another machine


def _environment(platform: str, python: str) -> _Environment:
    system, machine = _TARGETS[platform]
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
        "sys_platform": _SYS_PLATFORM[system],
    }


def _tags(python: str, platforms: Sequence[str]) -> list[Tag]:
    """What CPython of this version takes, the best first."""
    major, minor = (int(part) for part in python.split(".")[:2])
    interpreter = f"cp{major}{minor}"
    abi = f"{interpreter}m" if (major, minor) < (3, 8) else interpreter
    return [
        *cpython_tags((major, minor), [abi], platforms),
        *compatible_tags((major, minor), interpreter, platforms),
    ]


def _platforms(platform: str) -> list[str]:
    system, machine = _TARGETS[platform]
    if system == "Windows":
        return [_WINDOWS[machine]]
    return [*(mac_platforms(_MACOS, machine) if system == "Darwin" else _linux(machine))]


def _linux(machine: str) -> Iterator[str]:
    major, newest = _GLIBC
    oldest = _OLDEST if machine == "x86_64" else 17
    for minor in range(newest, oldest - 1, -1):
        yield f"manylinux_{major}_{minor}_{machine}"
        if minor in _LEGACY:
            yield f"{_LEGACY[minor]}_{machine}"
    yield f"linux_{machine}"

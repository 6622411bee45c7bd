"""Runs uv's resolver and parses the lock that it writes (PEP 751). uv downloads no files: it gets URLs of our gateway.

Rationale: docs/adr/pip-resolver.md. uv's own settings, its cache and most of this process's environment are excluded,
so that a request has the same result everywhere. Neither a password nor the gateway's path is passed on the command
line.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, Pylock, PylockUnsupportedVersionError, PylockValidationError
from packaging.tags import Tag

from resume_dl.errors import ConfigurationError, ResumeDLError
from resume_dl.model.url import scrub
from resume_dl.resolve.target import ASSUMED_GLIBC, best_wheel
from resume_dl.resolve.uv_program import explanation, find_uv, run_uv, stopped_resolving, uv_environment
from resume_dl.toml_text import TomlError, load_toml

_LINUX, _GLIBC = "manylinux_{}_{}".format(*ASSUMED_GLIBC), "glibc {}.{}".format(*ASSUMED_GLIBC)
_PLATFORMS: Mapping[str, tuple[str, str]] = {
    "linux-64": (f"x86_64-{_LINUX}", _GLIBC),
    "linux-aarch64": (f"aarch64-{_LINUX}", _GLIBC),
    "linux-riscv64": ("riscv64-unknown-linux", "a current glibc"),
    "osx-64": ("x86_64-apple-darwin", "macOS 13"),
    "osx-arm64": ("aarch64-apple-darwin", "macOS 13"),
    "win-32": ("i686-pc-windows-msvc", ""),
    "win-64": ("x86_64-pc-windows-msvc", ""),
    "win-arm64": ("aarch64-pc-windows-msvc", ""),
}
"""conda's subdir -> uv's name for it, and the system that uv assumes."""
_MANYLINUX = ((2, 17), (2, 28), *((2, minor) for minor in range(31, 41)))
"""The glibc versions that uv has platform names for (``uv pip compile --help``, --python-platform)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UvRequest:
    """One resolution. All URLs are the gateway's; requirements are lines of PEP 508 without options."""

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    index: str | None = None
    """None: no index, only ``find_links``."""
    extra: tuple[str, ...] = ()
    """Tried before ``index``; a project belongs to the first that has it."""
    find_links: tuple[str, ...] = ()
    refusal: str = ""
    """A proxy that refuses every request, for all other hosts."""
    platform: str | None = None
    """conda's subdir; None for the machine of ``interpreter``."""
    glibc: tuple[int, int] | None = None
    """The glibc of the machine of ``platform``, if known."""
    python: str | None = None
    """``3.10``; None for the version of ``interpreter``."""
    interpreter: Path
    tags: tuple[Tag, ...] = ()
    """The target's tags, best first, to choose among the wheels that uv locks for a version."""
    allow_sdist: bool = False
    pre: bool = False
    no_deps: bool = False


@dataclass(frozen=True, slots=True)
class LockedFile:
    """A file that uv chose; ``url`` is the gateway's."""

    name: str
    version: str
    url: str


class UvRefusedError(Exception):
    """uv found no solution; ``explanation`` is uv's own and contains URLs of the gateway."""

    def __init__(self, explanation: str) -> None:
        super().__init__(explanation)
        self.explanation = explanation


def assumed(platform: str, glibc: tuple[int, int] | None = None) -> str:
    """Return the assumptions about a machine of this platform, in a few words; may be empty.

    ``glibc`` is that of the machine, if known. Raises ConfigurationError for a platform without wheels.
    """
    return _platform(platform, glibc)[1]


def _platform(platform: str, glibc: tuple[int, int] | None) -> tuple[str, str]:
    """Return uv's name of a platform, and its assumptions."""
    if platform not in _PLATFORMS:
        raise ConfigurationError(
            f"there are no wheels for the platform {platform!r}", hint=f"one of {', '.join(_PLATFORMS)}"
        )
    name, told = _PLATFORMS[platform]
    if glibc is None or "manylinux" not in name:
        return name, told
    # the newest version that uv has a name for and the machine satisfies; on older machines the tags decide
    major, minor = max([each for each in _MANYLINUX if each <= glibc], default=_MANYLINUX[0])
    return f"{name.partition('-')[0]}-manylinux_{major}_{minor}", f"glibc {glibc[0]}.{glibc[1]}"


def lock(request: UvRequest, *, env: Mapping[str, str], cancelled: Callable[[], bool]) -> tuple[LockedFile, ...]:
    """Resolve with uv; return one file per project. Only a few variables of ``env`` are passed on.

    Raises UvRefusedError, ConfigurationError, Interrupted.
    """
    with tempfile.TemporaryDirectory(prefix="resume-dl-") as name:
        folder = Path(name)
        _write(folder / "requirements.in", request.requirements)
        _write(folder / "constraints.in", request.constraints)
        command = [str(find_uv()), *_arguments(request)]
        code, out, err = run_uv(command, folder, _environment(request, env, folder), cancelled)
    if code != 0 and cancelled():  # uv receives the terminal's Ctrl-C too
        raise stopped_resolving()
    if code < 0 or "\nUsage: uv" in err:
        raise ResumeDLError(
            f"uv exited with status {code}: {scrub(explanation(err)) or 'no output'}",
            hint="another version of uv may help: pip install --upgrade uv",
        )
    if code != 0:
        raise UvRefusedError(explanation(err))
    return _read(out, request)


def _write(path: Path, lines: tuple[str, ...]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _arguments(request: UvRequest) -> list[str]:
    args = ["pip", "compile", "requirements.in", "--constraints", "constraints.in", "--format", "pylock.toml"]
    args += ["--no-header", "--no-config", "--no-cache", "--no-progress", "--color", "never", "--no-sources"]
    args += ["--no-python-downloads", "--no-managed-python", "--python", str(request.interpreter)]
    args += ["--keyring-provider", "disabled", "--index-strategy", "first-index"]
    args += [] if request.python is None else ["--python-version", request.python]
    args += [] if request.platform is None else ["--python-platform", _platform(request.platform, request.glibc)[0]]
    args += [] if request.allow_sdist else ["--only-binary", ":all:"]
    args += ["--prerelease", "allow"] if request.pre else []
    args += ["--no-deps"] if request.no_deps else []
    return [*args, *(["--no-index"] if request.index is None else [])]


def _addresses(request: UvRequest) -> dict[str, str]:
    """Return the gateway's URLs as environment variables, because every local user can read a process's arguments.

    (/proc/PID/cmdline; /proc/PID/environ is private.) The gateway's path gives access to the user's private indexes.
    The separators of lists are uv's (uv's reference, "Environment").
    """
    found = {"UV_DEFAULT_INDEX": request.index or "", "UV_INDEX": " ".join(request.extra)}
    found["UV_FIND_LINKS"] = ",".join(request.find_links)
    return {name: value for name, value in found.items() if value}


def _environment(request: UvRequest, env: Mapping[str, str], folder: Path) -> dict[str, str]:
    kept = uv_environment(env, folder)
    kept |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), request.refusal) if request.refusal else {}
    # The gateway retries and fails over itself; uv's retries would multiply its waits.
    return {**kept, **_addresses(request), "NO_PROXY": "127.0.0.1", "UV_HTTP_TIMEOUT": "86400", "UV_HTTP_RETRIES": "0"}


def _read(text: str, request: UvRequest) -> tuple[LockedFile, ...]:
    try:
        pylock = Pylock.from_dict(load_toml(text))
    except (TomlError, PylockValidationError, PylockUnsupportedVersionError) as error:
        raise ResumeDLError(f"uv's lock cannot be parsed: {error}", hint="this is a bug: please report it") from error
    return tuple(_file(package, request) for package in pylock.packages)


def _file(package: Package, request: UvRequest) -> LockedFile:
    wheels = {
        unquote(urlsplit(wheel.url).path.rpartition("/")[2]): wheel.url for wheel in package.wheels or () if wheel.url
    }
    best = best_wheel([*wheels], request.tags)
    if best is not None:
        url: str | None = wheels[best]
    elif package.sdist is not None and request.allow_sdist:
        url = package.sdist.url
    else:  # uv accepts a tag that is not in ours
        url = next(iter(wheels.values()), None)
    if url is None:
        raise ResumeDLError(f"uv locked no file for {package.name}", hint="this is a bug: please report it")
    return LockedFile(package.name, str(package.version or ""), url)

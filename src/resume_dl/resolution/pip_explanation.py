"""Errors for pip requests without a solution: the resolver's explanation, and the files that exist instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from resume_dl.errors import PackageNotFoundError, ResolutionError, UnsatisfiableError
from resume_dl.model.exclude_newer import UploadCutoff
from resume_dl.resolve.index_page import ListedFile
from resume_dl.resolve.target import accepts_python

_UNKNOWN = re.compile(
    r"\b(?P<name>[A-Za-z0-9][\w.-]*) was not found in the (?:package registry|provided package locations)"
)
_NO_WHEELS = re.compile(r"\b(?P<name>[A-Za-z0-9][\w.-]*?)(?:==(?P<version>\S+))? has no (?:usable )?wheels")
_NO_VERSION = re.compile(r"\bno versions? of (?P<name>[A-Za-z0-9][\w.-]*?)(?:\[[^\]]*\])?(?:[=<>!~{ ]|$)")
_ONLY = re.compile(r"\bonly (?P<name>[A-Za-z0-9][\w.-]*?)(?:[=<>!~]\S*) is available")
_ORDER = "pass the intended index as --extra-index-url, which is searched first, and the other as --index-url"
_MOST = 8
"""The number of files or versions to name, the newest ones."""

Listed = Callable[[str], Iterable[ListedFile]]
"""Returns the listed files of a project, given its normalized name."""


def refusal(text: str, listed: Listed, *, python: str = "", unreached: str = "") -> ResolutionError:
    """Return the error for an explanation in which the gateway's URLs have been replaced by real ones.

    ``python``: the target version; ``unreached``: the indexes that could not be reached.
    """
    lines = text.splitlines()
    kept = [line for line in lines if not line.startswith("hint:") and not line.startswith("No solution found when")]
    message = "\n".join(kept) or text
    hints = [hint for line in lines if line.startswith("hint:") and (hint := _hint(line.removeprefix("hint:").strip()))]
    hints += [*_alternatives(message, listed, python), *([unreached] if unreached else [])]
    unknown = _UNKNOWN.search(message)
    if unknown is not None and not any(listed(_normal(unknown[1]))):  # else no file of it is for this Python
        known = unreached or "check the name and the indexes"
        return PackageNotFoundError(message, hint="; ".join(dict.fromkeys([*hints, known])))
    return UnsatisfiableError(message, hint="; ".join(dict.fromkeys(hints)))


def too_new(names: Iterable[str], listed: Listed, cutoff: UploadCutoff) -> str:
    """Return which files of these projects ``cutoff`` excludes, in words; an empty string if it excludes none."""
    found = []
    for name in names:
        files = [file for file in listed(_normal(name)) if not cutoff.allows(_normal(name), file.uploaded)]
        if files and all(file.uploaded is None for file in files):
            found.append(f"the index has no upload times for {name}, so its files may be too new")
        elif files:
            oldest = min(file.uploaded for file in files if file.uploaded is not None)
            found.append(f"{len(files)} files of {name} are too new or have no upload time, from {oldest:%Y-%m-%d} on")
    if not found:
        return ""
    return f"{'; '.join(found)} ({cutoff.origin}): --exclude-newer sets another date, or none"


def _hint(text: str) -> str:
    """Return uv's hint in terms of our options; empty if it does not apply to our users."""
    if "building from source is disabled" in text:
        return "--allow-sdist accepts source archives, too, and builds them on this machine to learn their requirements"
    if "index-strategy" in text:
        found = text.partition("By default")[0].strip()
        return f"{found} A project comes from the first index that has it; others were not searched: {_ORDER}"
    return text.replace("--prerelease=allow", "--pre").replace("--prerelease allow", "--pre")


def _alternatives(message: str, listed: Listed, python: str) -> list[str]:
    found = []
    for match in _NO_WHEELS.finditer(message):
        files = [file for file in listed(_normal(match["name"])) if _fits(file, match["version"])]
        wheels = [file.filename for file in files if file.is_wheel]
        if wheels:
            found.append(f"there is {_newest(wheels)}")
        elif files:
            found.append(f"there is only source: {_newest(file.filename for file in files)}")
    for match in (*_NO_VERSION.finditer(message), *_ONLY.finditer(message), *_UNKNOWN.finditer(message)):
        name = match["name"]
        versions: dict[Version, list[str]] = {}
        for file in listed(_normal(name)):
            if (version := version_of(file)) is not None:
                versions.setdefault(version, []).append(file.requires_python)
        if versions:
            texts = (_with_python(version, versions[version], python) for version in sorted(versions))
            found.append(f"versions of {name}: {_newest(texts)}")
    return found


def _with_python(version: Version, requires: list[str], python: str) -> str:
    """Return the version, with the Python that it needs if none of its files accepts ours."""
    if not python or any(accepts_python(each, python) for each in requires):
        return str(version)
    return f"{version} (for Python {requires[0]})"


def _newest(texts: Iterable[str]) -> str:
    every = list(dict.fromkeys(texts))
    return ("… " if len(every) > _MOST else "") + ", ".join(every[-_MOST:])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _fits(file: ListedFile, version: str | None) -> bool:
    return version is None or str(version_of(file)) == version


def version_of(file: ListedFile) -> Version | None:
    """Return the version in a file's name; None if there is none."""
    try:
        return (parse_wheel_filename if file.is_wheel else parse_sdist_filename)(file.filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None

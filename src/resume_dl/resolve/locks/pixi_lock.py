"""Reader of pixi.lock, versions 5 to 7 (prefix-dev/pixi). py-rattler parses it, in its own process.

What py-rattler rejects is read once more as YAML, only to name the line or the key: its messages seldom do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from resume_dl.errors import ConfigurationError, WorkerCrashedError
from resume_dl.model.artifact import Artifact
from resume_dl.resolve.locks.lock_fields import LockFields, refuse
from resume_dl.resolve.locks.locked_files import Canonical, LockedPackage, LockedPackages, conda_file, pip_file
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.yaml_text import YamlError, load_yaml

_VERSIONS = (5, 6, 7)
_VERSION = re.compile(r"^version:[ \t]*(\S*)", re.MULTILINE)
_TOO_NEW = "newer lockfile format version"
"""A part of py-rattler's message about a version that only a later py-rattler reads."""
_HAS_LINE = re.compile(r"\bline \d")
_DEFAULT = "default"
_DIRECT = "direct+"
"""The prefix of a URL that a requirement names itself."""
_PATIENCE = 60.0
"""Time limit for py-rattler in seconds; the largest known locks take one."""
_MOST_EXPLAINED = 1 << 20
"""Longest text to read as YAML in search of an error; a megabyte takes seconds."""


def read_pixi_lock(text: str, where: str, canonical: Canonical, worker: RattlerWorker) -> LockedPackages:
    """Read all packages, of every platform. Raises ConfigurationError with the key, or with the line of a YAML error.

    A platform with a name of its own stands for its subdir if no other platform does.
    """
    _check_version(text, where)
    try:
        found = worker.request("read_lock", {"text": text}, _PATIENCE)
    except WorkerCrashedError as error:  # a stack overflow in Rust ends the process
        refuse(where, f"py-rattler failed on it: {error.message}")
    if found["problem"]:
        _explain(text, where, found["problem"], canonical)
    if not found["packages"]:
        refuse(where, "locks no package")
    labels = _labels(found["packages"])
    packages = [_package(each, labels[each["platform"]], where, canonical) for each in found["packages"]]
    return LockedPackages(
        packages=tuple(packages),
        platforms=tuple(sorted(labels.values())),
        groups=tuple(sorted({each["environment"] for each in found["packages"]})),
        default=frozenset((_DEFAULT,)),
    )


def _check_version(text: str, where: str) -> None:
    written = _VERSION.search(text)
    value = written[1] if written else ""
    LockFields({"version": int(value) if re.fullmatch(r"\d{1,9}", value) else value}, where).version(
        "version", *_VERSIONS
    )


def _labels(packages: list[dict[str, Any]]) -> dict[str, str]:
    """Return platform -> its subdir if it is the one to take for that, else its name."""
    subdirs = {each["platform"]: each["subdir"] for each in packages}
    by_subdir = {subdir: [name for name in subdirs if subdirs[name] == subdir] for subdir in subdirs.values()}
    alone = {names[0] for names in by_subdir.values() if len(names) == 1}
    return {name: subdir if name in alone else name for name, subdir in subdirs.items()}


def _package(fields: Mapping[str, Any], platform: str, where: str, canonical: Canonical) -> LockedPackage:
    return LockedPackage(
        platform=platform,
        groups=frozenset((fields["environment"],)),
        name=fields["name"],
        artifact=_artifact(
            fields["kind"],
            fields["location"],
            fields["hashes"],
            name=fields["name"],
            version=fields["version"],
            size=fields["size"],
            where=f"{where}, package {fields['name'][:80]}, {fields['kind']}",
            canonical=canonical,
        ),
    )


def _artifact(
    kind: str,
    location: str,
    hashes: Mapping[str, str],
    *,
    name: str,
    version: str | None,
    size: int | None,
    where: str,
    canonical: Canonical,
) -> Artifact | None:
    """Return the artifact; None for version control, local paths and packages that are built from source."""
    url = location.removeprefix(_DIRECT)
    if kind == "source" or url.startswith("git+") or not _scheme(url, where):
        return None
    if kind == "conda":
        return conda_file(url, hashes, name=name, size=size, where=where, canonical=canonical)
    known = {**_fragment(url), **hashes}
    if any(value.lower() != known[kind].lower() for kind, value in _fragment(url).items()):
        refuse(where, "the digest in the URL is not that of the lock")
    return pip_file(url, known, name=name, version=version or "", size=size, where=where, canonical=canonical)


def _scheme(url: str, where: str) -> str:
    """The scheme of a URL; empty for a path, also for one with a drive letter."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError:
        refuse(where, "is neither a URL nor a path")
    return scheme if len(scheme) > 1 else ""


def _fragment(url: str) -> dict[str, str]:
    """The digests in a URL's fragment (PEP 503)."""
    pairs = (part.partition("=") for part in url.partition("#")[2].split("&"))
    return {kind: value for kind, _, value in pairs if kind in {"sha256", "md5"}}


# --------------------------------------------------------------------------- what py-rattler rejects


def _explain(text: str, where: str, problem: str, canonical: Canonical) -> None:
    """Raise ConfigurationError with the line or key of ``problem``, as far as it can be found."""
    if _TOO_NEW in problem:
        refuse(
            f"{where}, version",
            f"this version of py-rattler does not read it: {problem}",
            hint="pip install -U py-rattler",
        )
    if len(text) <= _MOST_EXPLAINED and not _HAS_LINE.search(problem):
        document = LockFields(_document(text, where), where)
        environments = document.table("environments")
        for name in environments.names():
            _check_environment(environments.table(name))
        for entry in document.tables("packages"):
            _check_entry(entry, canonical)
    refuse(where, f"py-rattler does not read it: {problem}")


def _document(text: str, where: str) -> Any:
    try:
        return load_yaml(text)
    except YamlError as error:
        raise ConfigurationError(f"{where} is not valid YAML: {error}", hint="create the lock file again") from error


def _check_environment(fields: LockFields) -> None:
    platforms = fields.table("packages")
    for platform in platforms.names():
        for _ in platforms.tables(platform):
            pass  # each is checked to be a table


def _check_entry(entry: LockFields, canonical: Canonical) -> None:
    key = next((each for each in ("conda", "pypi", "url") if each in entry), None)  # url: of version 5
    if key is None:
        return
    location, kind = entry.text(key), entry.text("kind", key)
    _artifact(
        kind,
        location,
        {each: entry.text(each) for each in ("sha256", "md5") if each in entry},
        name=entry.text("name", _name_in(location, kind)),
        version=entry.text("version", ""),
        size=entry.size("size"),
        where=f"{entry.where}, {key}",
        canonical=canonical,
    )


def _name_in(location: str, kind: str) -> str:
    """The package's name in the file name of a URL or path, which states the build or wheel's tags after it."""
    filename = location.partition("#")[0].rpartition("/")[2]
    return filename.rsplit("-", 2)[0] if kind == "conda" else filename.partition("-")[0]

"""Artifacts of the files that lock files name; what a lock may not say is refused. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from resume_dl.errors import InvalidSpecError, ResolutionError
from resume_dl.model.artifact import Artifact
from resume_dl.model.digest import Digest
from resume_dl.model.mirror import is_plain_path
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.explicit import parse_line
from resume_dl.resolve.index_page import LONGEST_ADDRESS
from resume_dl.resolve.locks.lock_fields import refuse

Canonical = Callable[[str], str]
"""``MirrorTable.canonical``."""
_SCHEMES = ("https", "http", "file")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SDISTS = (".tar.gz", ".zip", ".tar.bz2", ".tgz", ".tar.xz")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
"""Characters that some parsers of URLs leave out."""
_HOSTILE = "the file may be malicious: do not trust it"


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackage:
    """One package of a lock file."""

    platform: str
    """conda's subdir of the machine, never ``noarch``."""
    groups: frozenset[str]
    """pixi's environments, or conda-lock's categories, that it belongs to."""
    name: str
    artifact: Artifact | None
    """None for version control and local paths, which are not fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedPackages:
    """All packages of a lock file; the artifacts have canonical URLs and no sources."""

    packages: tuple[LockedPackage, ...]
    platforms: tuple[str, ...]
    groups: tuple[str, ...]
    default: frozenset[str]
    """The groups that the lock's own tool installs unless others are named."""
    always: frozenset[str] = frozenset()
    """The groups that it installs besides the named ones."""
    group_word: str = "environment"
    """What the lock's own tool calls a group."""


def checked_url(url: str, where: str, *, may_have_login: bool = False) -> str:
    """``url`` without its fragment. Raises ConfigurationError for one that no lock file should have.

    ``may_have_login``: for formats whose own tools accept a login there.
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        refuse(where, "is not a URL")
    if len(url) > LONGEST_ADDRESS:
        refuse(where, f"the URL has {len(url):,} characters, more than servers accept", hint=_HOSTILE)
    if parts.scheme not in _SCHEMES:
        refuse(where, f"the URL's scheme is {parts.scheme[:20]!r}; https, http and file are supported", hint=_HOSTILE)
    plain = url.partition("#")[0]
    no_host = parts.scheme == "file" and host in {None, "", "localhost"}
    shows_place = no_host or (parts.scheme != "file" and host)
    if not shows_place or not is_plain_path(parts.path) or _CONTROL.search(url):
        refuse(where, "the URL leads to another place than it shows", hint=_HOSTILE)
    if not may_have_login and RedactedUrl(plain).has_secret:
        refuse(
            where,
            "the URL has a login, which everybody with the lock file can read",
            hint="remove it there, and put the login into the settings of conda or pip, or into netrc",
        )
    return plain


def conda_file(
    url: str, hashes: Mapping[str, str], *, name: str, size: int | None = None, where: str, canonical: Canonical
) -> Artifact:
    """Return the artifact of a conda package. ``hashes``: ``md5``, ``sha256`` -> hex; one of them is required."""
    try:
        artifact = parse_line(checked_url(url, where), canonical=canonical, where=where)
    except InvalidSpecError as error:
        refuse(where, error.message.removeprefix(f"{where}: "))
    if artifact.name.lower() != name.lower():
        refuse(where, f"the URL leads to {artifact.filename!r}, which is not {name!r}", hint=_HOSTILE)
    known = _digests(hashes, where)
    return changed(artifact, sha256=known.get("sha256"), md5=known.get("md5"), size=size)


def pip_file(
    url: str,
    hashes: Mapping[str, str],
    *,
    name: str,
    version: str,
    size: int | None = None,
    where: str,
    canonical: Canonical,
) -> Artifact:
    """Return the artifact of a wheel or a source archive."""
    plain = checked_url(url, where)
    filename = unquote(urlsplit(plain).path.rpartition("/")[2])
    is_wheel = filename.endswith(".whl")
    if is_wheel:
        try:
            named = parse_wheel_filename(filename)[0]
        except InvalidWheelFilename:
            refuse(where, f"{filename!r} is not a wheel's name", hint=_HOSTILE)
        if named != canonicalize_name(name):
            refuse(where, f"the URL leads to {filename!r}, which is not {name!r}", hint=_HOSTILE)
    elif not filename.endswith(_SDISTS):
        refuse(where, f"{filename!r} is neither a wheel nor a source archive")
    known = _digests(hashes, where)
    try:
        return Artifact(
            kind="wheel" if is_wheel else "sdist",
            filename=filename,
            url=RedactedUrl(canonical(plain)),
            size=size,
            sha256=known.get("sha256"),
            md5=known.get("md5"),
            name=name,
            version=version,
            record={"hashes": known, "allowed": sorted(f"{kind}:{value}" for kind, value in known.items())},
        )
    except ValueError as error:
        refuse(where, str(error), hint=_HOSTILE)


def checked_hashes(hashes: Mapping[str, str], where: str) -> dict[str, str]:
    """The hashes of algorithms that every Python has (PEP 751), in lower case. Raises ConfigurationError.

    Without one that can be compared nothing would be verified, and a malformed one could never match.
    """
    known = {}
    for kind, value in hashes.items():
        if kind not in hashlib.algorithms_guaranteed or not (
            size := hashlib.new(kind, usedforsecurity=False).digest_size
        ):
            continue
        if len(value) != 2 * size or not _HEX.fullmatch(value):
            refuse(where, f"not a {kind} digest: {value!r}")
        known[kind] = value.lower()
    if not known:
        refuse(where, "has no digest that can be compared (sha256 or another of Python's hashlib)")
    return known


def check_sdists(path: Path, artifacts: Iterable[Artifact], *, allowed: bool) -> None:
    """Raise ResolutionError for source archives that are not allowed."""
    sdists = [each.filename for each in artifacts if each.kind == "sdist"]
    if sdists and not allowed:
        raise ResolutionError(
            f"{path} has only a source archive for this platform: {', '.join(sdists)}",
            hint="--allow-sdist fetches it; the installing machine builds it",
        )


def _digests(hashes: Mapping[str, str], where: str) -> dict[str, str]:
    known = {kind: value.lower() for kind, value in hashes.items() if kind in {"sha256", "md5"}}
    if not known:
        refuse(where, "has no digest (sha256 or md5), so that nothing could be verified")
    for kind, value in known.items():
        try:
            Digest(kind, value)
        except ValueError as error:
            refuse(where, str(error))
    return known

"""The project versions that a bundle's platforms install by pip, each with its files and platforms."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from packaging.utils import canonicalize_name

from resume_dl.model.bundle import BundlePackage, Manifest
from resume_dl.model.platforms import marker


@dataclass(frozen=True, slots=True)
class Release:
    """One version of one project."""

    name: str
    """Normalized name (PEP 503)."""
    version: str
    files: tuple[BundlePackage, ...]
    """Sorted by path."""
    marker: str
    """Marker (PEP 508) of the platforms that install it; empty if all that use pip do."""


def releases(manifest: Manifest) -> tuple[Release, ...]:
    """The releases of a manifest, sorted by name and version.

    Raises KeyError for wheels on a platform without wheels, for which pip packages are never resolved.
    """
    known = {each.path: each for each in manifest.packages}
    platforms = [each for each in manifest.platforms if each.pip]
    paths: dict[tuple[str, str], set[str]] = defaultdict(set)
    users: dict[tuple[str, str], set[str]] = defaultdict(set)
    for platform in platforms:
        for path in platform.pip:
            key = (str(canonicalize_name(known[path].name)), known[path].version)
            paths[key].add(path)
            users[key].add(platform.platform)
    return tuple(
        Release(
            *key,
            files=tuple(known[path] for path in sorted(paths[key])),
            marker=" or ".join(map(marker, sorted(users[key]))) if len(users[key]) < len(platforms) else "",
        )
        for key in sorted(paths)
    )

"""``pylock.toml`` of a bundle: one lock (PEP 751) for all of its platforms, whose files lie beside it.

``environments`` names each platform with its Python, so installers elsewhere reject it. A version that not all
platforms use carries the marker of those that do.
"""

from __future__ import annotations

from collections.abc import Iterator

from packaging.version import Version

from resume_dl.bundle.releases import Release, releases
from resume_dl.model.bundle import BundlePackage, Manifest
from resume_dl.model.platforms import marker
from resume_dl.model.pylock import FileInLock, PackageInLock, write_lock


def write_pylock(manifest: Manifest) -> Iterator[bytes]:
    """The lock in chunks, sorted by project. Paths are as seen from the bundle's folder.

    Raises KeyError for wheels on a platform that none are made for, for which pip packages are never resolved.
    """
    platforms = [each for each in manifest.platforms if each.pip]
    minors = sorted({_minor(each.python) for each in platforms}, key=Version)
    pieces = write_lock(
        map(_package, releases(manifest)),
        requires_python=f">={minors[0]}" if minors else "",
        environments=[f"{marker(each.platform)} and python_version == '{_minor(each.python)}'" for each in platforms],
    )
    yield from (piece.encode() for piece in pieces)


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _package(release: Release) -> PackageInLock:
    sdists = [_file(each) for each in release.files if each.kind == "sdist"]
    return PackageInLock(
        name=release.name,
        version=release.version,
        marker=release.marker,
        wheels=tuple(_file(each) for each in release.files if each.kind == "wheel"),
        sdist=sdists[0] if sdists else None,
    )


def _file(package: BundlePackage) -> FileInLock:
    hashes = {"sha256": package.sha256}
    return FileInLock(name=package.filename, url=package.url, path=package.path, size=package.size, hashes=hashes)

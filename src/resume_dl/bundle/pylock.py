"""``pylock.toml`` of a bundle: one lock (PEP 751) for all of its platforms, whose files lie beside it.

``environments`` names each platform with its Python, so nobody else takes it for theirs. A version that not all
platforms have carries the marker of those that do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from packaging.utils import canonicalize_name
from packaging.version import Version

from resume_dl.model.bundle import BundlePackage, BundlePlatform, Manifest
from resume_dl.model.platforms import marker
from resume_dl.model.pylock import FileInLock, PackageInLock, write_lock


def write_pylock(manifest: Manifest) -> Iterator[bytes]:
    """The lock in chunks, sorted by project. Paths are as seen from the bundle's folder.

    Raises KeyError for wheels on a platform that none are made for: nobody resolves those.
    """
    platforms = [each for each in manifest.platforms if each.pip]
    minors = sorted({_minor(each.python) for each in platforms}, key=Version)
    pieces = write_lock(
        _packages(platforms, {each.path: each for each in manifest.packages}),
        requires_python=f">={minors[0]}" if minors else "",
        environments=[f"{marker(each.platform)} and python_version == '{_minor(each.python)}'" for each in platforms],
    )
    yield from (piece.encode() for piece in pieces)


def _minor(python: str) -> str:
    return ".".join(python.split(".")[:2])


def _packages(platforms: Sequence[BundlePlatform], known: Mapping[str, BundlePackage]) -> Iterator[PackageInLock]:
    files: dict[tuple[str, str], set[str]] = defaultdict(set)
    users: dict[tuple[str, str], set[str]] = defaultdict(set)
    for platform in platforms:
        for path in platform.pip:
            key = (str(canonicalize_name(known[path].name)), known[path].version)
            files[key].add(path)
            users[key].add(platform.platform)
    for key in sorted(files):
        packages = [known[path] for path in sorted(files[key])]
        sdists = [_file(each) for each in packages if each.kind == "sdist"]
        only = sorted(users[key]) if len(users[key]) < len(platforms) else []
        yield PackageInLock(
            name=key[0],
            version=key[1],
            marker=" or ".join(marker(platform) for platform in only),
            wheels=tuple(_file(each) for each in packages if each.kind == "wheel"),
            sdist=sdists[0] if sdists else None,
        )


def _file(package: BundlePackage) -> FileInLock:
    hashes = {"sha256": package.sha256}
    return FileInLock(name=package.filename, url=package.url, path=package.path, size=package.size, hashes=hashes)

"""The manifest of an offline bundle, ``manifest.json``, as values. docs/offline.md shows the folder.

Paths are below the bundle, with ``/``, on every platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1
KIND = "resume-dl bundle"
MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
SIGNATURE = "manifest.json.sig"
NAMESPACE = "resume-dl-bundle"
"""Namespace of signatures (ssh-keygen -Y, PROTOCOL.sshsig): others are not valid for a bundle."""
CHANNEL = "channel"
WHEELS = "wheels"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePackage:
    """One archive, wheel or sdist. Sizes in bytes, digests in lower-case hex."""

    path: str
    """``channel/linux-64/numpy-1.0-0.conda``, ``wheels/tqdm-4.0-py3-none-any.whl``."""
    kind: str
    """``conda``, ``wheel`` or ``sdist``."""
    name: str
    version: str
    url: str
    """The canonical URL, without a login; empty for a local file of the maker's machine."""
    size: int
    sha256: str
    md5: str | None = None
    build: str = ""
    subdir: str = ""
    channel: str = ""
    license: str = ""
    """The licence that the package states; empty if missing."""
    requested_by: tuple[str, ...] = ()
    """The specs, requirements and files of the request that led to it, sorted."""
    included: bool = True
    """False if a delta expects the target's own copy."""

    @property
    def filename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def as_json(self) -> dict[str, Any]:
        """The entry in ``packages`` of the manifest."""
        return {name: getattr(self, name) for name in self.__slots__} | {"requested_by": list(self.requested_by)}


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of the bundle other than a package; size in bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePlatform:
    """The packages of one platform."""

    platform: str
    """conda's subdir."""
    python: str = ""
    """The Python of the wheels, ``3.10`` or ``3.10.4``; empty without wheels and conda's Python."""
    virtual_packages: tuple[str, ...] = ()
    """Those of the solve: ``__cuda=11.0=0``."""
    conda: tuple[str, ...] = ()
    """Paths of its conda packages, sorted."""
    pip: tuple[str, ...] = ()
    """Paths of its wheels, sorted."""
    explicit: str = ""
    """The path of its @EXPLICIT list; empty without conda packages."""
    requirements: str = ""
    """The path of its requirements.txt with hashes; empty without wheels."""
    exclude_newer: str = ""
    """The time (ISO 8601, UTC) after which conda packages were left out; empty if none were."""
    pip_exclude_newer: str = ""
    """The time (ISO 8601, UTC) from which uploaded pip packages were left out; empty if none were."""

    def as_json(self) -> dict[str, Any]:
        """The entry in ``platforms`` of the manifest."""
        optional = {name for name in ("exclude_newer", "pip_exclude_newer") if not getattr(self, name)}
        return {name: _plain(getattr(self, name)) for name in self.__slots__ if name not in {"platform", *optional}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of a bundle, without the manifest, its signature and SHA256SUMS."""

    created_by: str
    """``resume-dl 0.6.0``"""
    request: Mapping[str, Any] = field(default_factory=dict)
    """The request: ``specs``, ``pip``, ``files``, ``channels``; without logins."""
    platforms: tuple[BundlePlatform, ...]
    packages: tuple[BundlePackage, ...]
    """Sorted by path."""
    files: tuple[BundleFile, ...] = ()
    """All other files, sorted by path."""
    indexes: tuple[Mapping[str, str], ...] = ()
    """``channel``, ``subdir`` and ``vouched`` of each channel index: why its records are trusted."""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

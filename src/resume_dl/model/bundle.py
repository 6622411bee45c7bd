"""What an offline bundle says of itself: ``manifest.json`` as values. docs/offline.md draws the folder.

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
"""Of the signature (ssh-keygen -Y, PROTOCOL.sshsig): one made for something else is none for a bundle."""
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
    """The canonical one, without a login; empty for a file that came from a folder of the maker's machine."""
    size: int
    sha256: str
    md5: str | None = None
    build: str = ""
    subdir: str = ""
    channel: str = ""
    license: str = ""
    """As the package itself says it; empty where it says nothing."""
    requested_by: tuple[str, ...] = ()
    """The specs, requirements and files of the request that brought it, sorted."""
    included: bool = True
    """False where a delta relies on the target's own copy."""

    @property
    def filename(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def as_json(self) -> dict[str, Any]:
        """One of ``packages`` of the manifest."""
        return {name: getattr(self, name) for name in self.__slots__} | {"requested_by": list(self.requested_by)}


@dataclass(frozen=True, slots=True)
class BundleFile:
    """A file of the bundle that is no package; size in bytes."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePlatform:
    """What one platform installs."""

    platform: str
    """conda's subdir."""
    python: str = ""
    """``3.10`` or ``3.10.4``, for which the wheels are; empty where there are none and conda brings no Python."""
    virtual_packages: tuple[str, ...] = ()
    """As solved with: ``__cuda=11.0=0``."""
    conda: tuple[str, ...] = ()
    """Paths of its conda packages, sorted."""
    pip: tuple[str, ...] = ()
    """Paths of its wheels, sorted."""
    explicit: str = ""
    """The path of its @EXPLICIT list; empty where it has no conda packages."""
    requirements: str = ""
    """The path of its requirements.txt with hashes; empty where it has no wheels."""

    def as_json(self) -> dict[str, Any]:
        """One of ``platforms`` of the manifest."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__ if name != "platform"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """All that a bundle holds, but itself, its signature and SHA256SUMS."""

    created_by: str
    """``resume-dl 0.6.0``"""
    request: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for: ``specs``, ``pip``, ``files``, ``channels``; without logins."""
    platforms: tuple[BundlePlatform, ...]
    packages: tuple[BundlePackage, ...]
    """Sorted by path."""
    files: tuple[BundleFile, ...] = ()
    """Everything else, sorted by path."""
    indexes: tuple[Mapping[str, str], ...] = ()
    """``channel``, ``subdir`` and ``vouched`` of each channel index: why its records were believed."""


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value

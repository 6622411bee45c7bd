"""A small conda channel on disk: real archives, and the repodata that names them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from resume_dl.demo.package import STORED, PackageSpec, index_json, write_package
from resume_dl.zstd_frames import compress

__all__ = ["BuiltPackage", "ChannelInfo", "PackageSpec", "build_channel", "hash_file", "pytorch_like", "write_repodata"]

_CHUNK = 1024 * 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BuiltPackage:
    """An archive on disk; ``size`` in bytes, digests as lower-case hex, ``record`` as in repodata."""

    spec: PackageSpec
    path: Path
    size: int
    md5: str
    sha256: str
    record: dict[str, Any]

    @property
    def filename(self) -> str:
        """The archive's file name."""
        return self.path.name

    @property
    def url_path(self) -> str:
        """``<subdir>/<filename>``: what follows the channel's base URL."""
        return f"{self.spec.subdir}/{self.filename}"


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A built channel: its folder and packages."""

    root: Path
    packages: tuple[BuiltPackage, ...]

    @property
    def archive_bytes(self) -> int:
        """The sizes of all archives together."""
        return sum(package.size for package in self.packages)

    def find(self, name: str, version: str = "") -> BuiltPackage:
        """The first package of this name (and version, where given); raises KeyError."""
        for package in self.packages:
            if package.spec.name == name and version in {"", package.spec.version}:
                return package
        raise KeyError(name)


def build_channel(
    root: Path, packages: Iterable[PackageSpec], *, subdirs: Iterable[str] = ("linux-64", "noarch")
) -> ChannelInfo:
    """Write archives and repodata below ``root``; ``subdirs`` get a (perhaps empty) repodata in any case.

    An existing archive is kept: the same description gives the same bytes, so a large one is built once for many
    tests. Content is streamed in chunks of 1 MiB.
    """
    built = []
    for spec in packages:
        folder = root / spec.subdir
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / spec.filename
        if not path.exists():
            path = write_package(spec, folder)
        built.append(_describe(spec, path))
    for subdir in {*subdirs, *(package.spec.subdir for package in built)}:
        (root / subdir).mkdir(parents=True, exist_ok=True)
        write_repodata(root, subdir, [package for package in built if package.spec.subdir == subdir])
    return ChannelInfo(root, tuple(built))


def write_repodata(root: Path, subdir: str, packages: Iterable[BuiltPackage]) -> None:
    """Write ``repodata.json``, ``current_repodata.json`` and their ``.zst`` for one subdir."""
    records: dict[str, dict[str, dict[str, Any]]] = {"tar.bz2": {}, "conda": {}}
    for package in sorted(packages, key=lambda package: package.filename):
        records[package.spec.format][package.filename] = package.record
    document = {
        "info": {"subdir": subdir},
        "packages": records["tar.bz2"],
        "packages.conda": records["conda"],
        "removed": [],
        "repodata_version": 1,
    }
    data = json.dumps(document, indent=1).encode()
    for name in ("repodata.json", "current_repodata.json"):
        (root / subdir / name).write_bytes(data)
        (root / subdir / f"{name}.zst").write_bytes(compress(data, STORED))


class FileHash(NamedTuple):
    """A whole file's size in bytes and its digests as lower-case hex."""

    size: int
    md5: str
    sha256: str


def hash_file(path: Path) -> FileHash:
    """Read a file once, a chunk of 1 MiB at a time."""
    md5, sha256, size = hashlib.md5(usedforsecurity=False), hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            md5.update(chunk)
            sha256.update(chunk)
            size += len(chunk)
    return FileHash(size, md5.hexdigest(), sha256.hexdigest())


def _describe(spec: PackageSpec, path: Path) -> BuiltPackage:
    found = hash_file(path)
    record = {**index_json(spec), "md5": found.md5, "sha256": found.sha256, "size": found.size}
    if spec.md5_only:
        del record["sha256"]
    record |= spec.record
    return BuiltPackage(spec, path, found.size, found.md5, found.sha256, record)


def pytorch_like(*, large: int = 64 * _MIB, medium: int = 3 * _MIB) -> dict[str, list[PackageSpec]]:
    """Channel name -> packages, named and depending as the real ones of 2021: ``pytorch`` and ``pkgs/main``.

    ``pytorch`` 1.7.1 for CUDA 11.0 holds ``large`` bytes, ``cudatoolkit`` and ``mkl`` hold ``medium``; the others are
    small, most of them ``.tar.bz2`` as they were then, and some with md5 only. There is a 1.7.0 beside it that
    no solve of ``pytorch=1.7`` should take, and pip with what it needs, because conda adds pip to python.
    No package is ``noarch: python``: the python here is a name only and could not byte-compile.
    """
    python = ("python >=3.8,<3.9.0a0",)
    site = "lib/python3.8/site-packages"
    torch_depends = (
        "blas * mkl",
        "cudatoolkit >=11.0,<11.1",
        "libuv >=1.40.0,<2.0a0",
        "mkl >=2018",
        "ninja",
        "numpy >=1.11",
        *python,
        "typing_extensions",
    )

    def small(
        name: str,
        version: str,
        build: str,
        depends: tuple[str, ...] = (),
        *,
        noarch: bool = False,
        md5_only: bool = False,
    ) -> PackageSpec:
        return PackageSpec(
            name=name,
            version=version,
            build=build,
            depends=depends,
            subdir="noarch" if noarch else "linux-64",
            format="tar.bz2",
            payload_size=40_000,
            md5_only=md5_only,
            files={f"{site}/{name}/__init__.py": f"__version__ = {version!r}\n".encode()},
        )

    def torch(version: str, payload_size: int) -> PackageSpec:
        return PackageSpec(
            name="pytorch",
            version=version,
            build="py3.8_cuda11.0.221_cudnn8.0.5_0",
            depends=torch_depends,
            payload_size=payload_size,
            files={f"{site}/torch/__init__.py": f"__version__ = {version!r}\n".encode()},
        )

    return {
        "pytorch": [torch("1.7.1", large), torch("1.7.0", 20_000)],
        "pkgs/main": [
            small("python", "3.8.5", "h7579374_1", md5_only=True),
            small("pip", "20.3.3", "py38h06a4308_0", (*python, "setuptools", "wheel")),
            small("setuptools", "51.1.2", "py38h06a4308_4", python),
            small("wheel", "0.36.2", "pyhd3eb1b0_0", ("python",), noarch=True),
            small("numpy", "1.19.2", "py38h54aff64_0", ("blas 1.0 mkl", "mkl >=2019.4,<2021.0a0", *python)),
            small("blas", "1.0", "mkl", md5_only=True),
            small("libuv", "1.40.0", "h7b6447c_0"),
            small("ninja", "1.10.2", "py38hff7bd54_0", python),
            small("typing_extensions", "3.7.4.3", "pyha847dfd_0", ("python >=3.6",), noarch=True),
            PackageSpec(name="mkl", version="2020.2", build="256", payload_size=medium, md5_only=True),
            PackageSpec(name="cudatoolkit", version="11.0.221", build="h6bb024c_0", payload_size=medium),
        ],
    }

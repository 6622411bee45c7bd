"""One conda package archive on disk, ``.conda`` (CEP 2 zip) or ``.tar.bz2``, from a short description."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from resume_dl.zstd_frames import writer

_CHUNK = 1024 * 1024
STORED = -131072
"""zstd's fastest level, which shortens next to nothing: an archive's size does not depend on its content."""
_EPOCH = 1_609_459_200
"""Modification time of every member: fixed, so that the same description always gives the same bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSpec:
    """The name and content of a made package; sizes in bytes, ``timestamp`` in milliseconds as in repodata.

    ``payload_size`` bytes of incompressible content, made from ``seed`` and the package's name, go to
    ``share/<name>/payload.bin``. ``files`` are further members (path in the environment -> content); those under
    ``bin/`` are executable. With ``md5_only`` the channel's record has no sha256, as those of old packages.
    ``record`` overrides fields of the channel's record (not of the archive): a wrong digest, say.
    """

    name: str
    version: str
    build: str = "0"
    build_number: int = 0
    depends: tuple[str, ...] = ()
    constrains: tuple[str, ...] = ()
    subdir: str = "linux-64"
    payload_size: int = 0
    format: Literal["conda", "tar.bz2"] = "conda"
    md5_only: bool = False
    files: Mapping[str, bytes] = field(default_factory=dict)
    noarch: Literal["", "generic", "python"] = ""
    """Only for subdir ``noarch``, where the default is ``generic``: conda byte-compiles ``python`` ones with the
    environment's own python, so they need a real one."""
    timestamp: int = _EPOCH * 1000
    license: str = "BSD-3-Clause"
    track_features: str = ""
    seed: int = 0
    record: Mapping[str, Any] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """``name-version-build``."""
        return f"{self.name}-{self.version}-{self.build}"

    @property
    def filename(self) -> str:
        """The archive's file name."""
        return f"{self.stem}.{self.format}"


def index_json(spec: PackageSpec) -> dict[str, Any]:
    """``info/index.json``, which also starts the channel's record."""
    index: dict[str, Any] = {
        "build": spec.build,
        "build_number": spec.build_number,
        "depends": list(spec.depends),
        "license": spec.license,
        "name": spec.name,
        "subdir": spec.subdir,
        "timestamp": spec.timestamp,
        "version": spec.version,
    }
    if spec.constrains:
        index["constrains"] = list(spec.constrains)
    if spec.track_features:
        index["track_features"] = spec.track_features
    platform, _, arch = spec.subdir.partition("-")
    if spec.subdir == "noarch":
        index |= {"arch": None, "noarch": spec.noarch or "generic", "platform": None}
    else:
        index |= {"arch": {"64": "x86_64", "32": "x86"}.get(arch, arch), "platform": platform}
    return index


class _Payload:
    """A readable of deterministic noise: SHAKE-128 of seed, name and block number, hashed as it is read."""

    def __init__(self, spec: PackageSpec) -> None:
        self._key = f"{spec.seed}:{spec.name}:{spec.version}:{spec.build}".encode()
        self._left = spec.payload_size
        self._blocks = 0
        self._buffer = memoryview(b"")
        self.sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """At most ``size`` bytes (any number less than a block at a time), empty at the end."""
        if not self._buffer:
            length = min(_CHUNK, self._left)
            noise = hashlib.shake_128(self._key + self._blocks.to_bytes(8, "little")).digest(length)
            self.sha256.update(noise)
            self._buffer = memoryview(noise)
            self._left -= length
            self._blocks += 1
        take = len(self._buffer) if size < 0 else min(size, len(self._buffer))
        data = bytes(self._buffer[:take])
        self._buffer = self._buffer[take:]
        return data


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    info.mtime = _EPOCH
    info.mode = 0o755 if name.startswith(("bin/", "Scripts/")) else 0o644
    return info


def _path_entry(name: str, size: int, sha256: str) -> dict[str, Any]:
    return {"_path": name, "path_type": "hardlink", "sha256": sha256, "size_in_bytes": size}


def _write_content(tar: tarfile.TarFile, spec: PackageSpec) -> list[dict[str, Any]]:
    """Add what is linked into an environment; returns the entries of ``info/paths.json``."""
    script = f"#!/bin/sh\necho {spec.name} {spec.version}\n".encode()
    files = {f"bin/{spec.name}-version": script, **spec.files}
    entries = []
    for name, data in sorted(files.items()):
        tar.addfile(_member(name, len(data)), io.BytesIO(data))
        entries.append(_path_entry(name, len(data), hashlib.sha256(data).hexdigest()))
    if spec.payload_size:
        name = f"share/{spec.name}/payload.bin"
        payload = _Payload(spec)
        tar.addfile(_member(name, spec.payload_size), payload)
        entries.append(_path_entry(name, spec.payload_size, payload.sha256.hexdigest()))
    return entries


def _write_info(tar: tarfile.TarFile, spec: PackageSpec, entries: list[dict[str, Any]]) -> None:
    """Add ``info/``, after the content so that its digests are known and nothing is made twice."""
    about = {"summary": f"{spec.name}, made for tests and the demo", "license": spec.license, "home": ""}
    documents: dict[str, Any] = {
        "index.json": index_json(spec),
        "about.json": about,
        "paths.json": {"paths": entries, "paths_version": 1},
    }
    if spec.noarch == "python":
        documents["link.json"] = {"noarch": {"type": "python"}, "package_metadata_version": 1}
    members = {name: json.dumps(document, indent=1).encode() for name, document in documents.items()}
    members["files"] = "".join(f"{entry['_path']}\n" for entry in entries).encode()
    for name, data in sorted(members.items()):
        tar.addfile(_member(f"info/{name}", len(data)), io.BytesIO(data))


@contextmanager
def _zstd_tar(archive: zipfile.ZipFile, name: str, *, huge: bool) -> Iterator[tarfile.TarFile]:
    """A tar stream inside a zstd frame inside a stored ZIP member."""
    entry = zipfile.ZipInfo(name, date_time=(2021, 1, 1, 0, 0, 0))
    with (
        archive.open(entry, "w", force_zip64=huge) as member,
        writer(member, STORED) as frame,
        tarfile.open(mode="w|", fileobj=frame, format=tarfile.PAX_FORMAT) as tar,
    ):
        yield tar


def write_package(spec: PackageSpec, folder: Path) -> Path:
    """Write the archive into ``folder`` (must exist) and return its path; the same spec gives the same bytes.

    It gets its name when complete, so an interrupted build leaves nothing that looks finished.
    """
    path = folder / spec.filename
    building = folder / f"{spec.filename}.building"
    if spec.format == "conda":
        _write_conda(spec, building)
    else:
        with tarfile.open(building, "w:bz2", format=tarfile.PAX_FORMAT, compresslevel=1) as tar:
            _write_info(tar, spec, _write_content(tar, spec))
    return building.replace(path)


def _write_conda(spec: PackageSpec, path: Path) -> None:
    """Write the newer format: a stored ZIP around two zstd-framed tars."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        metadata = zipfile.ZipInfo("metadata.json", date_time=(2021, 1, 1, 0, 0, 0))
        archive.writestr(metadata, json.dumps({"conda_pkg_format_version": 2}))
        with _zstd_tar(archive, f"pkg-{spec.stem}.tar.zst", huge=spec.payload_size > 1 << 30) as tar:
            entries = _write_content(tar, spec)
        with _zstd_tar(archive, f"info-{spec.stem}.tar.zst", huge=False) as tar:
            _write_info(tar, spec, entries)

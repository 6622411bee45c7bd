"""A channel whose index is large and hardly shrinks when packed, as conda-forge's does not: digests are random."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zstandard

NEEDLE = "needle"
"""The package that tests ask for; it depends on nothing."""


@dataclass(frozen=True)
class LargeChannel:
    """``root/large`` with ``records`` records in linux-64 and none in noarch; sizes in bytes."""

    root: Path
    records: int

    @property
    def subdir(self) -> Path:
        return self.root / "large" / "linux-64"

    @property
    def packed(self) -> int:
        return (self.subdir / "repodata.json.zst").stat().st_size

    @property
    def plain(self) -> int:
        return (self.subdir / "repodata.json").stat().st_size


def build_large_channel(root: Path, records: int) -> LargeChannel:
    """Write the index and its packed form; there is no archive, so a dry run is what can be done with it."""
    packages = {}
    for number in range(records):
        name = f"package{number % 6000:04}"
        filename = f"{name}-1.{number // 6000}-h{number:07x}_0.conda"
        packages[filename] = _record(name, f"1.{number // 6000}", f"h{number:07x}_0", ["python >=3.9", "libfoo"])
    packages[f"{NEEDLE}-1.0-0.conda"] = _record(NEEDLE, "1.0", "0", [])
    write_index(root / "large" / "linux-64", packages)
    write_index(root / "large" / "noarch", {}, subdir="noarch")
    return LargeChannel(root, records)


def write_index(
    folder: Path, packages: dict[str, Any], *, subdir: str = "linux-64", name: str = "repodata.json"
) -> None:
    """``name`` and ``name.zst`` in ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    index = {"info": {"subdir": subdir}, "packages": {}, "packages.conda": packages, "repodata_version": 1}
    text = json.dumps(index, separators=(",", ":")).encode()
    (folder / name).write_bytes(text)
    (folder / f"{name}.zst").write_bytes(zstandard.ZstdCompressor(level=3).compress(text))


def _record(name: str, version: str, build: str, depends: list[str]) -> dict[str, Any]:
    seed = f"{name}-{version}-{build}".encode()
    return {
        "build": build,
        "build_number": 0,
        "depends": depends,
        "md5": hashlib.md5(seed).hexdigest(),
        "name": name,
        "sha256": hashlib.sha256(seed).hexdigest(),
        "size": 100_000,
        "subdir": "linux-64",
        "timestamp": 1700000000000,
        "version": version,
    }

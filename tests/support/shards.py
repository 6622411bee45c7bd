"""Sharded channels for tests (CEP 16), written as conda-index writes them."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import zstandard

INDEX = "repodata_shards.msgpack.zst"


def packed(value: Any) -> bytes:
    """A value as MessagePack in zstd."""
    return zstandard.compress(msgspec.msgpack.encode(value), 3)


def shard_of(archives: Mapping[str, Mapping[str, Any]], **more: Any) -> bytes:
    """A shard of file name -> record; digests as bytes."""
    sections: dict[str, dict[str, Any]] = {"packages": {}, "packages.conda": {}}
    for filename, record in archives.items():
        digests = {name: bytes.fromhex(record[name]) for name in ("md5", "sha256") if name in record}
        section = "packages.conda" if filename.endswith(".conda") else "packages"
        sections[section][filename] = {**record, **digests}
    return packed({**sections, "removed": [], **more})


def index_of(
    hashes: Mapping[str, Any], *, subdir: str = "linux-64", base_url: str = "", shards_base_url: str = "", **more: Any
) -> bytes:
    """A shard index of name -> hash."""
    info = {"subdir": subdir, "base_url": base_url, "shards_base_url": shards_base_url}
    return packed({"version": 1, "info": info, "shards": dict(hashes), **more})


def write_shards(folder: Path, archives: Mapping[str, Mapping[str, Any]], *, base: str = "") -> dict[str, str]:
    """Write the index and the shards of one subdir into its folder; name -> SHA-256 of its shard in hex."""
    by_name: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for filename, record in archives.items():
        by_name[record["name"]][filename] = record
    (folder / base).mkdir(parents=True, exist_ok=True)
    hashes = {}
    for name, found in sorted(by_name.items()):
        data = shard_of(found)
        hashes[name] = hashlib.sha256(data).hexdigest()
        (folder / base / f"{hashes[name]}.msgpack.zst").write_bytes(data)
    index = index_of(
        {name: bytes.fromhex(digest) for name, digest in hashes.items()}, subdir=folder.name, shards_base_url=base
    )
    (folder / INDEX).write_bytes(index)
    return hashes


def write_whole(folder: Path, archives: Mapping[str, Mapping[str, Any]]) -> None:
    """Write repodata.json and repodata.json.zst of one subdir into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    sections: dict[str, dict[str, Any]] = {"packages": {}, "packages.conda": {}}
    for filename, record in sorted(archives.items()):
        sections["packages.conda" if filename.endswith(".conda") else "packages"][filename] = dict(record)
    text = json.dumps({"info": {"subdir": folder.name}, **sections, "removed": [], "repodata_version": 1}).encode()
    (folder / "repodata.json").write_bytes(text)
    (folder / "repodata.json.zst").write_bytes(zstandard.compress(text, 3))


def record_of(
    name: str, version: str, depends: tuple[str, ...] = (), *, number: int = 0, **more: Any
) -> dict[str, Any]:
    """A record with digests that follow from its name, version and number."""
    seed = f"{name}-{version}-{number}"
    return {
        "build": f"h{number}_{number}",
        "build_number": number,
        "depends": list(depends),
        "md5": hashlib.md5(seed.encode()).hexdigest(),
        "name": name,
        "sha256": hashlib.sha256(seed.encode()).hexdigest(),
        "size": 1000,
        "subdir": "linux-64",
        "timestamp": 1_700_000_000_000 + number,
        "version": version,
        **more,
    }


def filename_of(record: Mapping[str, Any], suffix: str = ".conda") -> str:
    """The archive's name."""
    return f"{record['name']}-{record['version']}-{record['build']}{suffix}"


def archives_of(*records: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """File name -> record."""
    return {filename_of(record): record for record in records}

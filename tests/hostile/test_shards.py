"""Hostile shards and shard indexes: a clear word that names index and source, and the solve by the whole index.

| what | outcome |
| --- | --- |
| a carrier's shards are others under the right names | its bytes are compared with the index's hash, and dropped |
| the authority's own shard does not have the hash of its index | no source has it: the whole index |
| an index or a shard is refused (types, names, nesting, sizes, hashes, another subdir, addresses) | the same |
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import zstandard

from resume_dl.indexes.shards import FILENAME
from support.shard_mirrors import LINUX, NOARCH, shard_mirrors, shard_nginx
from support.shard_user import ShardUser, shard_user
from support.shards import filename_of, index_of, packed, shard_of, write_shards, write_whole

__all__ = ["shard_mirrors", "shard_nginx", "shard_user"]
pytestmark = pytest.mark.nginx

TROJAN = "66" * 32


def altered(archives: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {filename: {**record, "sha256": TROJAN} for filename, record in archives.items()}


def swap(folder: Path, archives: Mapping[str, Mapping[str, Any]], served: Mapping[str, Mapping[str, Any]]) -> None:
    """Under the address of each shard of ``archives`` lies a well-formed one with ``served``'s records."""
    hashes = write_shards(folder, archives)
    for name, digest in hashes.items():
        records = {filename: record for filename, record in served.items() if record["name"] == name}
        (folder / f"{digest}.msgpack.zst").write_bytes(shard_of(records))


@pytest.mark.parametrize("lacking", [False, True], ids=["authority-has-them", "authority-lost-them"])
def test_carriers_with_wrong_shards_are_rejected(shard_user: ShardUser, lacking: bool) -> None:
    for mirror in (1, 2):
        for subdir, archives in (("linux-64", LINUX), ("noarch", NOARCH)):
            swap(shard_user.of.root(mirror) / subdir, archives, altered(archives))
            write_whole(shard_user.of.root(mirror) / subdir, altered(archives))
    if lacking:
        for path in (shard_user.of.root(0) / "linux-64").glob("*.msgpack.zst"):
            if path.name != FILENAME:
                path.unlink()
    done = shard_user.fetch("app")
    assert done.code == 0, done.err
    assert TROJAN not in shard_user.chosen(done).values()
    assert ("repodata.json.zst" in shard_user.asked(0)) == lacking
    assert not {"repodata.json.zst", "repodata.json"} & (shard_user.asked(1) | shard_user.asked(2))


def one_shard(data: bytes) -> dict[str, bytes]:
    """An index with one name, and its shard."""
    digest = hashlib.sha256(data)
    return {FILENAME: index_of({"app": digest.digest()}), f"{digest.hexdigest()}.msgpack.zst": data}


APP = next(record for record in LINUX.values() if record["name"] == "app")
DEEP = b"\x91" * 10**6 + b"\xc0"
HOSTILE: dict[str, dict[str, bytes]] = {
    "bomb": {FILENAME: zstandard.compress(bytes(300 << 20))},
    "index nested": {FILENAME: zstandard.compress(b"\x81\xa6shards" + DEEP)},
    "index of lists": {FILENAME: packed([1, 2, 3])},
    "index cut off": {FILENAME: index_of({"app": bytes(32)})[:-5]},
    "hash too short": {FILENAME: index_of({"app": bytes(31)})},
    "name with ../": {FILENAME: index_of({"../app": bytes(32)})},
    "another subdir": {FILENAME: index_of({"app": bytes(32)}, subdir="osx-64")},
    "another scheme": {FILENAME: index_of({"app": bytes(32)}, base_url="file:///etc/")},
    "shards by another scheme": {FILENAME: index_of({"app": bytes(32)}, shards_base_url="ftp://127.0.0.1/")},
    "shard nested": one_shard(zstandard.compress(b"\x81\xa8packages" + DEEP)),
    "shard bomb": one_shard(zstandard.compress(bytes(20 << 20))),
    "shard of another name": one_shard(shard_of({filename_of(APP): {**APP, "name": "lib"}})),
    "file name with ../": one_shard(packed({"packages.conda": {"../" + filename_of(APP): dict(APP)}})),
    "digest too short": one_shard(packed({"packages.conda": {filename_of(APP): {**APP, "sha256": "66"}}})),
    "wrong types": one_shard(packed({"packages.conda": {filename_of(APP): {**APP, "depends": 5}}})),
    "no such shard": {FILENAME: index_of({"app": bytes(32)})},
}


@pytest.mark.parametrize("files", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_refused_is_named_and_left_out(shard_user: ShardUser, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (shard_user.of.root(0) / "linux-64" / name).write_bytes(data)
    done = shard_user.fetch("app")
    assert done.code == 0, done.err
    expected = {filename: record["sha256"] for filename, record in {**LINUX, **NOARCH}.items()}
    assert shard_user.chosen(done).items() <= expected.items()
    (said,) = [line for line in done.err.splitlines() if "shard" in line]
    assert "forge/linux-64" in said
    assert shard_user.of.nginx.base(0).removeprefix("http://") in said
    assert len(said) < 700

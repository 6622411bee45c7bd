"""``channel/<subdir>/repodata.json``: the index that makes a bundle's archives a conda channel.

Every record is the channel's own, unchanged, so conda, mamba and pixi read the same data as online. A delta's index
also lists what the target has, because the bundle is completed before use. There is no ``base_url`` (CEP 15): archives
lie beside their index, and the bundle can be moved.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from resume_dl.model.bundle import CHANNEL, BundlePackage, Manifest

_NOARCH = "noarch"
_CONDA = ".conda"


def subdirs(manifest: Manifest) -> tuple[str, ...]:
    """The subdirs that need an index, sorted; always with noarch, which clients request even if empty.

    Empty for a bundle without conda packages.
    """
    if not any(each.kind == "conda" for each in manifest.packages):
        return ()
    asked = {each.platform for each in manifest.platforms if each.conda}
    return tuple(sorted({_NOARCH, *asked, *(_subdir(each) for each in manifest.packages if each.kind == "conda")}))


def write_repodata(manifest: Manifest, subdir: str, records: Mapping[str, Mapping[str, Any]]) -> Iterator[bytes]:
    """``repodata.json`` of one subdir in chunks, a record on each line, sorted by file name.

    ``records``: a package's path -> its channel's record. Fields that conda requires are added if missing (as in lists
    and very old channels); nothing is changed.
    """
    here = [each for each in manifest.packages if each.kind == "conda" and _subdir(each) == subdir]
    yield b'{"info":{"subdir":' + _json(subdir) + b'},\n"packages":{'
    yield from _entries([each for each in here if not each.path.endswith(_CONDA)], records)
    yield b'},\n"packages.conda":{'
    yield from _entries([each for each in here if each.path.endswith(_CONDA)], records)
    yield b'},\n"removed":[],\n"repodata_version":1}\n'


def _subdir(package: BundlePackage) -> str:
    return package.path.removeprefix(f"{CHANNEL}/").partition("/")[0]


def _entries(packages: Sequence[BundlePackage], records: Mapping[str, Mapping[str, Any]]) -> Iterator[bytes]:
    for number, package in enumerate(sorted(packages, key=lambda each: each.filename)):
        record = _whole(package, records[package.path])
        yield (b",\n" if number else b"\n") + _json(package.filename) + b":" + _json(record)


def _whole(package: BundlePackage, record: Mapping[str, Any]) -> dict[str, Any]:
    needed: dict[str, Any] = {
        "name": package.name,
        "version": package.version,
        "build": package.build,
        "build_number": 0,
        "depends": [],
        "size": package.size,
    }
    if not record.get("sha256") and not record.get("md5"):
        needed["sha256"] = package.sha256
    return {**needed, **record}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

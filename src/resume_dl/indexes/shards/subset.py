"""Writer of a partial repodata.json with the records that a solve can reach, for the solver."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from resume_dl.indexes.shards.shard import Shard

_USUAL = ("", ".", "./")
"""Values of base_url that mean "beside the index", for which repodata.json has no base_url."""


def write_subset(path: Path, shards: Iterable[Shard], *, subdir: str, base_url: str) -> None:
    """Write the records of ``shards`` to a new file, in the order of ``shards``; the solver needs no sorting.

    Raises OSError.
    """
    sections: dict[str, list[bytes]] = {"packages": [], "packages.conda": []}
    for shard in shards:
        for section, members in shard.members.items():
            if members:
                sections.setdefault(section, []).append(members)
    info = {"subdir": subdir} if base_url in _USUAL else {"subdir": subdir, "base_url": base_url}
    newer = [section for section in sections if section.startswith("v3/")]
    with path.open("wb") as file:
        file.write(b'{"info":' + _text(info))
        for section in ("packages", "packages.conda"):
            file.write(b"," + _text(section) + b":" + _object(sections[section]))
        for number, section in enumerate(newer):
            file.write((b"," if number else b',"v3":{') + _text(section.removeprefix("v3/")) + b":")
            file.write(_object(sections[section]))
        file.write((b"}" if newer else b"") + b',"removed":[],"repodata_version":1}')


def write_names(path: Path, names: Iterable[str]) -> None:
    """Write all names of an index, one per line, for suggestions for mistyped names. Raises OSError."""
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _object(members: Iterable[bytes]) -> bytes:
    return b"{" + b",".join(members) + b"}"


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()

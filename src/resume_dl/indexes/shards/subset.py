"""The records of the names that a solve can come to, as repodata.json: read by the solver in a whole index's place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from resume_dl.indexes.shards.shard import Shard

_USUAL = ("", ".", "./")
"""Spellings of base_url for archives beside the index, which repodata.json leaves out."""


def write_subset(path: Path, shards: Iterable[Shard], *, subdir: str, base_url: str) -> None:
    """Write the records of ``shards`` to a new file, archives in alphabetical order as in a whole index.

    Raises OSError.
    """
    sections: dict[str, list[tuple[str, bytes]]] = {"packages": [], "packages.conda": []}
    for shard in shards:
        for section, members in shard.members.items():
            sections.setdefault(section, []).extend(members)
    texts = {section: _object(members) for section, members in sections.items()}
    newer = {section.removeprefix("v3/"): text for section, text in texts.items() if section.startswith("v3/")}
    info = {"subdir": subdir} if base_url in _USUAL else {"subdir": subdir, "base_url": base_url}
    whole = {
        "info": _text(info),
        "packages": texts["packages"],
        "packages.conda": texts["packages.conda"],
        "removed": b"[]",
        "repodata_version": b"1",
    }
    if newer:
        whole["v3"] = _members(newer)
    path.write_bytes(_members(whole))


def write_names(path: Path, names: Iterable[str]) -> None:
    """Write every name of an index, one a line: what a mistyped one is compared with. Raises OSError."""
    path.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _object(members: list[tuple[str, bytes]]) -> bytes:
    return _members(dict(sorted(members)))


def _members(members: Mapping[str, bytes]) -> bytes:
    return b"{" + b",".join(_text(name) + b":" + text for name, text in members.items()) + b"}"


def _text(value: Any) -> bytes:
    return json.dumps(value).encode()

"""Mirrors that have blocked us, kept in one small file of the user's state folder.

An unreadable file counts as empty, which at worst causes one more refused request.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from resume_dl import fs

_MOST_BYTES = 16 << 20
SCHEMA = 1
_FILE = "blocks.json"


@dataclass(frozen=True, slots=True)
class Block:
    """``host`` (``host[:port]``) of ``mirror`` has refused us; ``since`` in seconds since 1970."""

    mirror: str
    host: str
    since: float


def blocks_file(state: Path) -> Path:
    """The file in the state folder."""
    return state / _FILE


def read_blocks(path: Path, *, now: float, lasting: float) -> dict[str, Block]:
    """Host -> block, of those younger than ``lasting`` seconds.

    Entries dated that far in the future are ignored: clocks are set back, and machines that share a home differ.
    """
    try:
        document = json.loads(fs.read_regular(path, _MOST_BYTES))
        if document["schema"] != SCHEMA:
            return {}
        entries = dict(document["blocks"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    found = {}
    for host, entry in entries.items():
        with suppress(KeyError, TypeError, ValueError, OverflowError):
            block = Block(str(entry["mirror"]), str(host), float(entry["since"]))
            if abs(now - block.since) < lasting:
                found[block.host] = block
    return found


def write_blocks(path: Path, blocks: Mapping[str, Block]) -> None:
    """Replace the file atomically; remove it if there are no blocks.

    The caller holds the lock for reading and writing. Raises OSError.
    """
    if not blocks:
        path.unlink(missing_ok=True)
        return
    entries = {host: {"mirror": block.mirror, "since": block.since} for host, block in sorted(blocks.items())}
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        new.write_text(json.dumps({"schema": SCHEMA, "blocks": entries}, indent=1), encoding="utf-8")
        fs.replace(new, path)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise

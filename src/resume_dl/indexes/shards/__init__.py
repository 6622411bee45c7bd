"""Sharded channel indexes (CEP 16): a small index of hashes, and one file for each package name."""

from __future__ import annotations

from importlib.util import find_spec

from resume_dl import zstd_frames

FILENAME = "repodata_shards.msgpack.zst"


def are_readable() -> bool:
    """Whether this Python has what the modules here import; resume-dl.pyz has neither msgspec nor zstd."""
    return find_spec("msgspec") is not None and zstd_frames.is_available()

"""Fixtures of channels with shards."""

from __future__ import annotations

from support.shard_mirrors import shard_mirrors, shard_nginx

__all__ = ["shard_mirrors", "shard_nginx"]

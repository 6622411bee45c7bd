"""Fixtures of channels with shards."""

from __future__ import annotations

from support.shard_mirrors import shard_mirrors, shard_nginx
from support.shard_user import shard_user

__all__ = ["shard_mirrors", "shard_nginx", "shard_user"]

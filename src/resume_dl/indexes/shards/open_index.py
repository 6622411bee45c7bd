"""A shard index that was opened: which source vouches for it, where its shards are, and what has come of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

from resume_dl.core.failures import FailureKind
from resume_dl.indexes.shards.index import ShardFolder, ShardIndex
from resume_dl.indexes.shards.shard import Shard
from resume_dl.indexes.shards.store import KeptIndex
from resume_dl.model.artifact import Source

CONNECTIONS = 8
"""Connections to a host without a limit in the mirrors table: at 50 ms, 120 shards take 1 s; with 4, 2 s."""


@dataclass(frozen=True, slots=True)
class ShardSources:
    """The sources of a subdir's shard index, and the carriers that may have its shards, as URLs of the index."""

    title: str
    """``conda-forge/linux-64``"""
    subdir: str
    authorities: tuple[Source, ...]
    carriers: tuple[Source, ...] = ()


@dataclass(slots=True)
class OpenIndex:
    """A parsed index and the state of its shards."""

    sources: ShardSources
    source: Source
    """The source that vouches for the index."""
    index: ShardIndex
    digest: str
    """SHA-256 of the index as served."""
    checked: float
    """When the source last confirmed it, in seconds since 1970."""
    own: ShardFolder
    """The location of the shards at the source."""
    carriers: tuple[ShardFolder, ...] = ()
    """Their location at carriers."""
    downloaded: int = 0
    """Bytes of index and shards downloaded in this run."""
    carried_by: set[str] = field(default_factory=set)
    """The mirrors that supplied shards in this run."""
    shards: dict[str, Shard] = field(default_factory=dict)
    """The requested shards, by name."""
    unkept: KeptIndex | None = None
    """New shards of this run, to be kept for the next."""
    broken: str = ""
    """Why a shard is unavailable, so that the whole index is needed."""


@dataclass(frozen=True, slots=True)
class NoIndex:
    """The reason why there is no shard index."""

    why: str
    kinds: frozenset[FailureKind] = frozenset()
    downloaded: int = 0


def open_index(wanted: ShardSources, source: Source, kept: KeptIndex, index: ShardIndex) -> OpenIndex:
    """Return the state for an index parsed from ``kept``, for which ``source`` vouches; without shards."""
    digest = hashlib.sha256(kept.data).hexdigest()
    own, carriers = index.shards_of(with_connections(source)), tuple(map(index.shards_of, wanted.carriers))
    return OpenIndex(wanted, source, index, digest, kept.note.checked, own, carriers)


def with_connections(source: Source) -> Source:
    """Return the source with a connection limit for small files, unless the mirrors table has one."""
    return source if source.connections is not None else replace(source, connections=CONNECTIONS)

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
"""To a host for which the mirrors table has no limit: at 50 ms they bring 120 shards in a second, 4 in two."""


@dataclass(frozen=True, slots=True)
class ShardSources:
    """Where one subdir's index may come from, and which others may have its shards; URLs of the index."""

    title: str
    """``conda-forge/linux-64``"""
    subdir: str
    authorities: tuple[Source, ...]
    carriers: tuple[Source, ...] = ()


@dataclass(slots=True)
class OpenIndex:
    """An index that was parsed, and what its shards have brought."""

    sources: ShardSources
    source: Source
    """It vouches for the index."""
    index: ShardIndex
    digest: str
    """SHA-256 of the index as it came."""
    checked: float
    """When the source last said that it is current, in seconds since 1970."""
    own: ShardFolder
    """Where the source has the shards."""
    carriers: tuple[ShardFolder, ...] = ()
    """Where others may have them."""
    downloaded: int = 0
    """Bytes of index and shards that came in this run."""
    carried_by: set[str] = field(default_factory=set)
    """The mirrors that gave shards in this run."""
    shards: dict[str, Shard] = field(default_factory=dict)
    """By name; those that were asked for."""
    unkept: KeptIndex | None = None
    """What came in this run, to be kept for the next."""
    broken: str = ""
    """Why a shard cannot be had: the whole index is needed."""


@dataclass(frozen=True, slots=True)
class NoIndex:
    """Why there is no shard index."""

    why: str
    kinds: frozenset[FailureKind] = frozenset()
    downloaded: int = 0


def open_index(wanted: ShardSources, source: Source, kept: KeptIndex, index: ShardIndex) -> OpenIndex:
    """Parsed from ``kept``, which ``source`` vouches for; none of its shards yet."""
    digest = hashlib.sha256(kept.data).hexdigest()
    own, carriers = index.shards_of(with_connections(source)), tuple(map(index.shards_of, wanted.carriers))
    return OpenIndex(wanted, source, index, digest, kept.note.checked, own, carriers)


def with_connections(source: Source) -> Source:
    """The source with as many connections as small files want, where the mirrors table does not say otherwise."""
    return source if source.connections is not None else replace(source, connections=CONNECTIONS)

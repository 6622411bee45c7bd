"""Prefetch of the shards that a client's solver will read, into the client's own database (CEP 16).

The client's copy of each shard index is authoritative: a shard may come from any source whose bytes match the hash.
Shards that cannot be fetched or are refused are left out, and the client requests them itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from resume_dl.errors import Interrupted
from resume_dl.indexes.client_mirrors import MirroredAhead, MirroredIndex, Whispering
from resume_dl.indexes.shards import FILENAME
from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.shards.index import ShardIndex, parse_index
from resume_dl.indexes.shards.open_index import CONNECTIONS, OpenIndex, ShardSources
from resume_dl.indexes.shards.packed import BadShardsError
from resume_dl.indexes.shards.shard import Shard, mentioned_names, parse_shard
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import Reporter
from resume_dl.resolution.conda_shards import shard_fetcher, shard_store
from resume_dl.settings.paths import Paths
from resume_dl.transfer.setup import Setup, engine_for


class ShardedIndex(MirroredIndex, Protocol):
    """An index in the cache of a client whose solver reads shards."""

    def shard_index(self) -> bytes | None:
        """Return the shard index that the client will read without a request; None if there is none."""


@dataclass(frozen=True, slots=True)
class ClientShard:
    """A shard for the client's database; ``index_url`` is the client's URL of its index, login included."""

    index_url: RedactedUrl
    index: ShardIndex
    name: str
    data: bytes = field(repr=False)


class ShardDatabase(Protocol):
    """The client's own database of shards."""

    def read(self, digests: Collection[str]) -> Mapping[str, bytes]:
        """Return those of these shards (SHA-256 in hex) that it has; their digests are not verified."""

    def insert(self, shards: Iterable[ClientShard]) -> None:
        """Add verified and parsed shards, unless the database already has the bytes under their URLs."""


@dataclass(frozen=True, slots=True)
class ClosureOptions:
    """``names`` are those that the client's solve starts from. ``follow``: it reads their dependencies, too."""

    names: Collection[str]
    follow: bool = True
    add_pip: bool = False
    """Python depends on pip."""


def fetch_shards_ahead(
    indexes: Sequence[ShardedIndex],
    database: ShardDatabase,
    options: ClosureOptions,
    *,
    paths: Paths,
    setup: Callable[[], Setup],
    reporter: Reporter,
    cancelled: Callable[[], bool],
) -> list[str]:
    """Add every shard that the client will read to ``database``; return one line for each reason why some are missing.

    ``setup`` is called only if something has to be fetched. Raises what it raises, what ``database`` raises, and
    NotWritableError or OSError.
    """
    closure = _ClientClosure(database, shard_store(paths), options)
    for index in indexes:
        data = index.shard_index()
        if data is not None:
            closure.open(index, data)
    try:
        missing = closure.follow_local(closure.names.add(options.names))
        if missing and not cancelled():
            closure.fetch(missing, setup(), reporter, cancelled)
    except Interrupted:
        pass  # cancelled by the user; the shards that arrived are inserted below
    finally:
        closure.insert()
    return closure.refused


class _Names(Closure):
    """A closure that, without ``follow``, does not follow dependencies."""

    def __init__(self, *, follow: bool, add_pip: bool) -> None:
        super().__init__(add_pip=add_pip and follow)
        self._is_open = True
        self._follow = follow

    def add(self, names: Iterable[str]) -> Collection[str]:
        """Return those of ``names`` that are new; without ``follow``, only the first call returns any."""
        new = super().add(names) if self._is_open else ()
        self._is_open = self._follow
        return new


class _ClientClosure:
    """The indexes of one solve. ``refused``: the reasons why shards are left to the client."""

    def __init__(self, database: ShardDatabase, store: ShardStore, options: ClosureOptions) -> None:
        self._database = database
        self._store = store
        self._indexes: list[tuple[ShardedIndex, OpenIndex]] = []
        self._known: dict[tuple[int, str], bytes] = {}
        """(Index number, name) -> a shard that the database has, possibly under another channel's URL."""
        self.names = _Names(follow=options.follow, add_pip=options.add_pip)
        self.refused: list[str] = []

    def open(self, index: ShardedIndex, data: bytes) -> None:
        """Add an index; ``data`` is what the client will read."""
        title, url = f"{index.channel}/{index.subdir}", _index_url(index)
        try:
            parsed = parse_index(data, subdir=index.subdir, url=url.reveal())
        except BadShardsError as error:
            self.refused.append(f"the shard index of {title} is refused: {error}")
            return
        source = Source(url.host, url, CONNECTIONS)
        sources = ShardSources(title, index.subdir, (source,))
        digest = hashlib.sha256(data).hexdigest()
        self._indexes.append((index, OpenIndex(sources, source, parsed, digest, 0.0, parsed.shards_of(source))))

    def follow_local(self, names: Collection[str]) -> set[str]:
        """Follow ``names`` through the shards on this machine; return the names of which some shards are missing."""
        missing: set[str] = set()
        while names:
            wanted = [
                (number, name, digest)
                for number, (_, each) in enumerate(self._indexes)
                for name in names
                if (digest := each.index.digest_of(name)) is not None
            ]
            known = self._database.read({digest for *_, digest in wanted})
            mentioned: set[str] = set()
            for number, name, digest in wanted:
                data = known.get(digest)
                is_known = data is not None and hashlib.sha256(data).hexdigest() == digest
                data = data if is_known else self._store.read(digest)
                if data is None:
                    missing.add(name)
                else:
                    mentioned.update(self._mentioned(number, name, data, is_known=is_known))
            names = self.names.add(mentioned)
        return missing

    def _mentioned(self, number: int, name: str, data: bytes, *, is_known: bool) -> Collection[str]:
        index = self._indexes[number][1]
        try:
            shard = Shard({}, mentioned_names(data)) if is_known else parse_shard(data, name=name)
        except BadShardsError as error:
            self.refused.append(f"the shard of {name} in {index.sources.title} is refused: {error}")
            return ()
        index.shards[name] = shard  # the fetcher skips shards that are present
        if is_known:
            self._known[number, name] = data
        return shard.mentioned

    def fetch(self, names: Collection[str], setup: Setup, reporter: Reporter, cancelled: Callable[[], bool]) -> None:
        """Fetch the shards of ``names`` and of their closure. Raises Interrupted, NotWritableError or OSError."""
        whispering = Whispering(reporter)
        with engine_for(setup, reporter, cancelled) as engine:
            mirrors = MirroredAhead(engine, setup, reporter, cancelled=cancelled)
            opened = []
            for index, each in self._indexes:
                access = setup.access(_index_url(index))
                if not setup.rules.permit_file(access.url):
                    continue  # the client reports it
                own = Source(access.url.host, access.url, CONNECTIONS, access.headers)
                each.own = each.index.shards_of(own)
                each.carriers = tuple(map(each.index.shards_of, mirrors.others(index, FILENAME)))
                opened.append(each)
            fetcher = shard_fetcher(setup, whispering, engine, offline=False, cancelled=cancelled)
            try:
                fetcher.fetch(opened, names, self.names)
            finally:
                fetcher.close()
                self.refused += [f"a shard of {each.sources.title}: {each.broken}" for each in opened if each.broken]

    def insert(self) -> None:
        """Insert the shards that the client lacks."""
        new = []
        for number, (index, each) in enumerate(self._indexes):
            for name in each.shards:
                digest = each.index.digest_of(name)
                if digest is None:
                    continue
                data = self._known.get((number, name)) or self._store.read(digest)
                if data is not None:
                    new.append(ClientShard(_index_url(index), each.index, name, data))
        if new:
            self._database.insert(new)


def _index_url(index: ShardedIndex) -> RedactedUrl:
    return RedactedUrl(f"{index.base.reveal()}/{FILENAME}")

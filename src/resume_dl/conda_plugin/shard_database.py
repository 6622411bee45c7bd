"""conda's own database of shards (since 26.7), accessed by conda's own classes.

Private names of conda: ``ShardCache`` with ``conn``, ``insert`` and its table ``shards (url, package, shard)``,
``AnnotatedRawShard``, and ``Shards.shard_url``, which makes the URL that conda will look up. If conda lacks one of them
or has another signature, this raises ImportError, AttributeError, TypeError or sqlite3.Error, and conda fetches its
shards itself. Each row is a transaction, so a killed process leaves whole rows only; the database is closed during
downloads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from resume_dl.resolution.client_shards import ClientShard

_ADDRESS = re.compile(r".*/([0-9a-f]{64})\.msgpack\.zst")
_AT_ONCE = 500
"""Rows a query; SQLite allows 999 parameters."""


class CondaShards:
    """``resolution.client_shards.ShardDatabase`` for conda. Raises ImportError if conda has no known database."""

    def __init__(self) -> None:
        import conda.gateways.shards  # noqa: F401 - since 26.7; loads the private modules in the right order
        from conda._private.shards.cache import AnnotatedRawShard, ShardCache
        from conda._private.shards.shards import Shards
        from conda.gateways.repodata import create_cache_dir

        self._row, self._cache, self._index = AnnotatedRawShard, ShardCache, Shards
        self._folder = Path(create_cache_dir())
        self._urls: dict[str, str] = {}
        """Digest -> a URL under which the database has this shard."""
        self._has: set[str] = set()
        with self._opened() as cache:
            for (url,) in cache.conn.execute("SELECT url FROM shards"):
                self._has.add(url)
                if found := _ADDRESS.fullmatch(url):
                    self._urls[found[1]] = url

    def read(self, digests: Collection[str]) -> Mapping[str, bytes]:
        """The stored shards among ``digests`` (SHA-256 in hex), not verified."""
        wanted = {url: digest for digest in digests if (url := self._urls.get(digest)) is not None}
        if not wanted:
            return {}
        found: dict[str, bytes] = {}
        with self._opened() as cache:
            urls = [*wanted]
            for start in range(0, len(urls), _AT_ONCE):
                some = urls[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                rows = cache.conn.execute(f"SELECT url, shard FROM shards WHERE url IN ({marks})", some)  # noqa: S608  marks only
                found |= {wanted[url]: bytes(data) for url, data in rows}
        return found

    def insert(self, shards: Iterable[ClientShard]) -> None:
        """Add verified and parsed shards.

        A row with the same URL and other data is replaced: conda does not compare digests and would solve on it.
        """
        indexes: dict[int, Any] = {}
        with self._opened() as cache:
            for shard in shards:
                index = indexes.get(id(shard.index))
                if index is None:
                    info = {"base_url": shard.index.base_url, "shards_base_url": shard.index.shards_base_url}
                    packed = {"version": 1, "info": info, "shards": shard.index.hashes}
                    index = indexes[id(shard.index)] = self._index(packed, shard.index_url.reveal())
                url = index.shard_url(shard.name)
                if url in self._has:
                    row = cache.conn.execute("SELECT shard FROM shards WHERE url = ?", (url,)).fetchone()
                    if row is not None and bytes(row[0]) == shard.data:
                        continue
                    cache.conn.execute("DELETE FROM shards WHERE url = ?", (url,))  # same transaction as the insert
                cache.insert(self._row(url, shard.name, shard.data))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        cache = self._cache(self._folder)
        try:
            yield cache
        finally:
            cache.close()

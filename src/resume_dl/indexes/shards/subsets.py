"""The sharded indexes of one solve: opens them, follows dependencies, writes subsets for the solver."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from resume_dl.indexes.shards.closure import Closure
from resume_dl.indexes.shards.open_index import NoIndex, OpenIndex, ShardSources
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.subset import write_names, write_subset

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Subset:
    """A repodata.json with one subdir's records of the names that a solve can reach."""

    path: Path
    names: Path
    """A file with all names of its index, one per line."""
    index: OpenIndex
    """The index from which it was made."""


class Subsets(Generic[K]):
    """The sharded indexes of one solve, by any key; files are written to ``make_folder()``, which the caller removes.

    The folder is created after all downloads, because syncing its parent folders would delay the first request.
    ``add_pip``: python depends on pip, according to conda's setting.
    """

    def __init__(self, fetcher: ShardFetcher, make_folder: Callable[[], Path], *, add_pip: bool) -> None:
        self._fetcher = fetcher
        self._make_folder = make_folder
        self._folder: Path | None = None
        self._closure = Closure(add_pip=add_pip)
        self._opened: dict[K, OpenIndex] = {}
        self._written: dict[K, tuple[int, Subset]] = {}

    @property
    def names(self) -> frozenset[str]:
        """The names that the solve can reach, so far."""
        return self._closure.names

    @property
    def keys(self) -> list[K]:
        """Return the keys of indexes whose shards are in use."""
        return list(self._opened)

    def open(self, wanted: Mapping[K, ShardSources], *, past_caches: bool = False) -> dict[K, NoIndex]:
        """Open the shard index of each; return those that have none. Raises Interrupted."""
        answers = dict(zip(wanted, self._fetcher.open(list(wanted.values()), past_caches=past_caches), strict=True))
        self._opened |= {key: answer for key, answer in answers.items() if isinstance(answer, OpenIndex)}
        return {key: answer for key, answer in answers.items() if isinstance(answer, NoIndex)}

    def extend(self, names: Collection[str]) -> list[K]:
        """Fetch the shards that a solve of these names can reach; return indexes that lack a shard and are dropped.

        For these the whole index is needed. Raises Interrupted.
        """
        new = self._closure.add(names)
        indexes = list(self._opened.values())
        self._fetcher.fetch(indexes, new, self._closure)
        broken = [key for key, index in self._opened.items() if index.broken]
        for key in broken:
            del self._opened[key]
        return broken

    def write(self) -> dict[K, Subset]:
        """Write a file for each index, unless it has not changed since the last call. Raises OSError."""
        found: dict[K, Subset] = {}
        folder = self._folder = self._folder or self._make_folder()
        for number, (key, index) in enumerate(self._opened.items()):
            count, subset = self._written.get(key, (-1, None))
            if subset is None or count != len(index.shards) or subset.index is not index:
                path = folder / f"{number}-{len(index.shards)}.json"
                subset = Subset(path, path.with_suffix(".names"), index)
                shards: Sequence[str] = sorted(index.shards)
                records = [index.shards[name] for name in shards]
                write_subset(path, records, subdir=index.sources.subdir, base_url=index.index.base_url)
                write_names(subset.names, index.index.hashes)
                self._written[key] = len(index.shards), subset
            found[key] = subset
        return found

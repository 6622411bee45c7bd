"""Shards instead of whole indexes, for the channels of a solve."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from resume_dl.fs.removal import remove
from resume_dl.indexes.shards.open_index import OpenIndex, ShardSources
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.indexes.shards.subsets import Subsets
from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.resolve.request import RepodataFile

Wanted = tuple[Channel, str]
"""A channel and a subdir."""
Mentioned = Callable[[Sequence[RepodataFile], Collection[str]], Collection[str]]
"""Returns the transitive dependencies of names in whole indexes, including the names themselves."""


class ChannelShards:
    """The shards of one command. ``close`` removes the solver's temporary files.

    ``mentioned`` follows names through whole indexes, as a channel without shards may depend on one with shards.
    ``add_pip``: python depends on pip, according to conda's setting.
    """

    def __init__(self, fetcher: ShardFetcher, store: ShardStore, mentioned: Mentioned, *, add_pip: bool) -> None:
        self._fetcher = fetcher
        self._store = store
        self._mentioned = mentioned
        self._add_pip = add_pip
        self._folders: list[Path] = []
        self._sources: dict[Wanted, ShardSources] = {}
        self._without: set[Wanted] = set()
        """Indexes with unusable shards, which are not tried again in this run."""
        self._left: set[Wanted] = set()
        self._subsets: Subsets[Wanted] | None = None
        self._names: Collection[str] = ()
        self._used: dict[Wanted, OpenIndex] = {}
        self._has_asked = False

    @property
    def used(self) -> Mapping[Wanted, OpenIndex]:
        """The indexes from which the last files were made."""
        return self._used

    @property
    def left(self) -> Collection[Wanted]:
        """Indexes that have a shard index but of which a shard is unavailable."""
        return self._left

    @property
    def downloaded(self) -> int:
        """Body bytes of indexes and shards downloaded so far."""
        return self._fetcher.downloaded

    def close(self) -> None:
        """Cancel requests and remove temporary files. Never raises."""
        self._fetcher.close()
        for folder in self._folders:
            with suppress(OSError):  # a later run removes the rest
                remove(folder)

    def begin(
        self,
        wanted: Mapping[Wanted, tuple[tuple[Source, ...], tuple[Source, ...]]],
        names: Collection[str],
        *,
        past_caches: bool = False,
    ) -> list[Wanted]:
        """Return those of ``wanted`` (index -> authorities and carriers of its shard index) that have shards.

        ``names`` are those that the solve starts from. Call ``complete`` for the files once the whole indexes of the
        others are available. Raises Interrupted.
        """
        self._sources = {
            each: ShardSources(f"{each[0].name}/{each[1]}", each[1], authorities, carriers)
            for each, (authorities, carriers) in wanted.items()
            if each not in self._without and not any(source.url.reveal()[:5] == "file:" for source in authorities)
        }
        self._names, self._used = names, {}
        self._subsets = subsets = Subsets[Wanted](self._fetcher, self._new_folder, add_pip=self._add_pip)
        self._without |= subsets.open(self._sources, past_caches=past_caches).keys()
        self.leave(subsets.extend(names))
        return subsets.keys

    def complete(self, whole: Sequence[RepodataFile]) -> dict[Wanted, RepodataFile] | None:
        """Return a file for each index that has shards; ``whole`` are the whole indexes of the others.

        None if a shard is missing: everything then has to start again without that index's shards. Raises Interrupted
        or OSError.
        """
        subsets = self._subsets
        if subsets is None or not subsets.keys:
            return {}
        while whole:
            before = subsets.names
            if broken := subsets.extend(self._mentioned(whole, before)):
                self.leave(broken)
                return None
            if subsets.names == before:
                break
        written = subsets.write()
        self._used = {each: subset.index for each, subset in written.items()}
        return {each: RepodataFile(*each, subset.path, subset.names) for each, subset in written.items()}

    def leave(self, those: Collection[Wanted]) -> None:
        """Stop using the shards of these indexes in this run."""
        self._without |= set(those)
        self._left |= set(those)

    def has_newer(self) -> bool:
        """Whether a server has a newer index than the one in use, bypassing caches.

        Each is asked once; a new index is kept and used from the next ``begin`` on.
        """
        if not self._used or self._has_asked:
            return False
        self._has_asked = True
        asked = [self._sources[each] for each in self._used]
        answers = self._fetcher.open(asked, past_caches=True)
        return any(
            isinstance(answer, OpenIndex) and answer.digest != index.digest
            for answer, index in zip(answers, self._used.values(), strict=True)
        )

    def _new_folder(self) -> Path:
        folder = self._store.make_temporary()
        self._folders.append(folder)
        with suppress(OSError):
            folder.chmod(0o700)
        return folder

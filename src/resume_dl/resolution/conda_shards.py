"""Construction of the shard store and fetcher for a command's solves, from its settings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace as changed

from resume_dl.indexes.copies import Freshness
from resume_dl.indexes.shards.channels import ChannelShards
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.indexes.small_fetch import Reader
from resume_dl.ports import Reporter
from resume_dl.resolve.request import RepodataFile
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.paths import Paths
from resume_dl.transfer.setup import Setup
from resume_dl.transfer.watched_engine import WatchedEngine


def shard_store(paths: Paths) -> ShardStore:
    """Return the store of kept shards."""
    return ShardStore(paths.cache / "repodata" / "shards")


def shard_fetcher(
    setup: Setup, reporter: Reporter, engine: WatchedEngine, *, offline: bool, cancelled: Callable[[], bool]
) -> ShardFetcher:
    """Return a fetcher of shards over ``engine``'s connections; the caller closes it."""
    options = setup.options
    policy = options.policy()
    hurried = changed(policy, give_up_after=min(policy.give_up_after, policy.authority_give_up))
    return ShardFetcher(
        Reader(engine.transport, policy, setup.network),
        shard_store(setup.paths),
        reporter,
        hurried=Reader(engine.transport, hurried, setup.network),
        network=setup.network,
        offline=offline,
        freshness=Freshness(options.refresh, options.index_max_age),
        cancelled=cancelled,
    )


def channel_shards(
    setup: Setup,
    reporter: Reporter,
    engine: WatchedEngine,
    worker: RattlerWorker,
    *,
    offline: bool,
    cancelled: Callable[[], bool],
) -> ChannelShards:
    """Return the shards of every channel, fetched over ``engine``'s connections; ``worker`` reads whole indexes."""
    conda, store = setup.conda, shard_store(setup.paths)
    fetcher = shard_fetcher(setup, reporter, engine, offline=offline, cancelled=cancelled)

    def mentioned(files: Sequence[RepodataFile], names: Collection[str]) -> Collection[str]:
        arguments = {
            "files": [str(file.path.absolute()) for file in files],
            "subdirs": [file.subdir for file in files],
            "names": sorted(names),
            "only_tar_bz2": conda.use_only_tar_bz2,
        }
        found: Collection[str] = worker.request("mentioned", arguments)
        return found

    return ChannelShards(fetcher, store, mentioned, add_pip=conda.add_pip_as_python_dependency)

"""The same answers from shards as from whole indexes: solutions with every record, and errors with every word.

60 requests in ``make test``, 500 with ``RESUME_DL_EXPLORE`` (make test-long). Each follows from its number.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from resume_dl.errors import ResumeDLError
from resume_dl.indexes.copies import Note
from resume_dl.indexes.shards import FILENAME
from resume_dl.indexes.shards.channels import ChannelShards
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import KeptIndex, ShardStore
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.channel import Channel
from resume_dl.model.http import CacheHeaders
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.installed import Installed, read_installed
from resume_dl.resolve.request import RepodataFile, Solution, SolveRequest
from resume_dl.resolve.solve import package_names, solve
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.transport.client import HttpTransport
from support.real_channel import real_channel, write_channel
from support.shard_mirrors import Told

REQUESTS = 500 if os.environ.get("RESUME_DL_EXPLORE") else 60
NAMES = 150
SUBDIRS = ("linux-64", "noarch")
ENV = {"CONDA_OVERRIDE_CUDA": ""}


@dataclass
class World:
    """Two channels with shards and whole indexes, and a third with whole indexes alone."""

    folder: Path
    channels: dict[str, Channel]
    records: dict[str, list[dict[str, Any]]]
    worker: RattlerWorker
    store: ShardStore
    reader: Reader

    def whole(self, request: SolveRequest) -> list[RepodataFile]:
        return [
            RepodataFile(channel, subdir, self.folder / channel.name / subdir / "repodata.json")
            for channel in request.channels
            for subdir in SUBDIRS
        ]

    def subsets(self, request: SolveRequest) -> tuple[ChannelShards, list[RepodataFile]]:
        """The same from what the store holds; no server is asked."""

        def mentioned(files: Sequence[RepodataFile], names: Any) -> Any:
            arguments = {"files": [str(file.path) for file in files], "subdirs": [file.subdir for file in files]}
            bz2 = request.use_only_tar_bz2
            return self.worker.request("mentioned", {**arguments, "names": sorted(names), "only_tar_bz2": bz2})

        fetcher = ShardFetcher(self.reader, self.store, Told(), offline=True)
        shards = ChannelShards(fetcher, self.store, mentioned, add_pip=request.add_pip)
        wanted = {
            (channel, subdir): ((Source("upstream", channel.file_url(subdir, FILENAME)),), ())
            for channel in request.channels
            for subdir in SUBDIRS
        }
        names = package_names(request)
        assert names is not None
        found = shards.begin(wanted, names)
        assert {channel.name for channel, _ in found} <= {"forge", "second"}
        rest = [file for file in self.whole(request) if (file.channel, file.subdir) not in found]
        files = shards.complete(rest)
        assert files is not None
        return shards, [*files.values(), *rest]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, worker: RattlerWorker) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("channels")
    store = ShardStore(folder / "kept")
    channels, records = {}, {}
    for seed, name in enumerate(("forge", "second", "plain")):
        content = real_channel(seed, NAMES if seed == 0 else NAMES // 3, core=30, builds=16)
        write_channel(folder / name, content, shards=name != "plain")
        base = RedactedUrl(f"https://conda.example/{name}")
        channels[name] = Channel(name, None, base, base)
        records[name] = [record for archives in content.values() for record in archives.values()]
        for subdir in SUBDIRS if name != "plain" else ():
            url = channels[name].file_url(subdir, FILENAME)
            data = (folder / name / subdir / FILENAME).read_bytes()
            store.keep_index(url, KeptIndex(data, Note(str(url), CacheHeaders(), 0.0)))
            for path in (folder / name / subdir).glob("*.msgpack.zst"):
                store.keep(path.name.partition(".")[0], path.read_bytes())
    transport = HttpTransport(NetworkSettings())
    yield World(folder, channels, records, worker, store, Reader(transport))
    transport.close()


def asked_for(number: int, world: World, folder: Path) -> SolveRequest:
    """The request of this number: one to three specs of any form, with settings as users have them."""
    chance = random.Random(number)
    names = chance.choice((["forge"], ["forge", "second"], ["second", "forge"], ["forge", "plain"], ["plain", "forge"]))
    channels = [world.channels[name] for name in names]
    known = [record for name in names for record in world.records[name]]
    specs = [spec_of(chance, chance.choice(known), chance.choice(names)) for _ in range(chance.choice((1, 1, 2, 3)))]
    request = SolveRequest(
        specs=tuple(specs),
        channels=tuple(channels),
        platform="linux-64",
        channel_priority=chance.choice(("strict", "flexible", "disabled")),
        pinned=(f"p{chance.randrange(30)} >=1",) if chance.random() < 0.2 else (),
        add_pip=chance.random() < 0.7,
        use_only_tar_bz2=chance.random() < 0.1,
        default_packages=("pip",) if chance.random() < 0.1 else (),
        no_deps=chance.random() < 0.1,
    )
    return replace(request, installed=environment(chance, known, folder)) if chance.random() < 0.3 else request


def spec_of(chance: random.Random, record: dict[str, Any], channel: str) -> str:
    name, version = record["name"], record["version"]
    if chance.random() < 0.04:
        return chance.choice((f"{name}x", f"{name}=99", f"{channel}::{name}"))
    forms = [name] * 9 + [
        f"{name}={version}",
        f"{name}>={version}",
        f"{name}=={version}",
        f"{name}={version}={record['build']}",
    ]
    return chance.choice(forms)


def environment(chance: random.Random, known: list[dict[str, Any]], prefix: Path) -> Installed:
    """A few packages that fit or do not, one that no channel has, and a history."""
    chosen = {record["name"]: record for record in chance.sample(known, 4)}
    gone = {**known[0], "name": "gone", "version": "1.0", "depends": [known[-1]["name"], "nowhere"]}
    meta = prefix / "conda-meta"
    meta.mkdir(parents=True)
    for record in [*chosen.values(), gone]:
        stem = f"{record['name']}-{record['version']}-{record['build']}"
        place = f"https://conda.example/forge/{record['subdir']}"
        more = {"fn": f"{stem}.conda", "url": f"{place}/{stem}.conda", "channel": place, "files": []}
        whole = {**record, **more, "paths_data": {"paths": [], "paths_version": 1}}
        (meta / f"{stem}.json").write_text(json.dumps(whole))
    log = f"==> 2024-01-01 00:00:00 <==\n# update specs: ['{next(iter(chosen))}', 'p3']\n"
    (meta / "history").write_text(log)
    return read_installed(prefix)


def outcome(request: SolveRequest, files: list[RepodataFile], worker: RattlerWorker) -> Solution | tuple[str, ...]:
    try:
        return solve(request, files, worker, env=ENV)
    except ResumeDLError as error:
        if request.use_only_tar_bz2:  # an index has names and no formats: one like it may exist as .conda alone
            return type(error).__name__, error.message
        return type(error).__name__, error.message, error.hint, *getattr(error, "nearest", ())


def test_shards_and_whole_indexes_give_the_same(world: World, tmp_path: Path) -> None:
    kinds: Counter[str] = Counter()
    smaller = 0
    for number in range(REQUESTS):
        request = asked_for(number, world, tmp_path / f"env{number}")
        whole = world.whole(request)
        shards, files = world.subsets(request)
        expected = outcome(request, whole, world.worker)
        assert outcome(request, files, world.worker) == expected, f"request {number}: {request}"
        kinds["solved" if isinstance(expected, Solution) else expected[0]] += 1
        smaller += sum(file.path.stat().st_size for file in files) < sum(file.path.stat().st_size for file in whole) / 2
        shards.close()
    print(f"\n{REQUESTS} requests: {dict(kinds)}; {smaller} with less than half of the records")
    assert kinds["solved"] >= REQUESTS / 3, kinds
    assert len(kinds) >= 3, "solutions, unknown names and contradictions were all among them"
    assert smaller >= REQUESTS / 3

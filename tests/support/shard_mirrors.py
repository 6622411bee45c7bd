"""A channel with shards at its authority, and mirrors, in one nginx."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from resume_dl.core.reachability import Reachability
from resume_dl.indexes.shards import FILENAME
from resume_dl.indexes.shards.open_index import ShardSources
from resume_dl.indexes.shards.shard_fetcher import ShardFetcher
from resume_dl.indexes.shards.store import ShardStore
from resume_dl.indexes.small_fetch import Reader
from resume_dl.model.artifact import Source
from resume_dl.model.network import NetworkSettings
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import ArtifactProgress
from resume_dl.transport.client import HttpTransport
from support.nginx import NginxMirrors, find_nginx
from support.shards import archives_of, record_of, write_shards, write_whole

LINUX = archives_of(
    record_of("app", "1.0", ("lib >=1", "python >=3.10")),
    record_of("lib", "1.0", ("data", "__glibc >=2.17")),
    record_of("lib", "2.0", ("data >=2", "gone")),
    record_of("python", "3.12.1", ("lib",)),
    *(record_of("other", f"{major}.0", (f"far{major}",)) for major in range(40)),
    *(record_of(f"far{number}", "1.0") for number in range(40)),
)
NOARCH = archives_of(
    record_of("data", "2.0", ("base",), subdir="noarch", noarch="generic"),
    record_of("base", "1.0", subdir="noarch", noarch="generic"),
    record_of("pip", "24.0", ("python",), subdir="noarch", noarch="python"),
    *(record_of(f"noise{number}", "1.0", subdir="noarch") for number in range(40)),
)
REACHED = {"linux-64": {"app", "lib", "python"}, "noarch": {"data", "base", "pip"}}


class Told:
    """A Reporter that keeps its messages, and what it is told of indexes on their way."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []
        self.told: list[ArtifactProgress] = []

    def progress(self, progress: ArtifactProgress) -> None:
        self.told.append(progress)

    def message(self, text: str, *, level: str = "info") -> None:
        self.lines.append((level, text))

    def at(self, level: str) -> list[str]:
        return [text for each, text in self.lines if each == level]


class ShardMirrors:
    """The authority (mirror 0) and carriers, and a fetcher of theirs with a store that tests may share."""

    def __init__(self, folder: Path, nginx: NginxMirrors) -> None:
        self.folder = folder
        self.nginx = nginx
        self.told = Told()
        self.store = ShardStore(folder / "cache" / "shards")
        self._open: list[tuple[ShardFetcher, HttpTransport, Reader]] = []

    def root(self, mirror: int) -> Path:
        return self.folder / f"mirror{mirror}" / "forge"

    def source(self, mirror: int, subdir: str) -> Source:
        name = "upstream" if mirror == 0 else f"carrier{mirror}"
        return Source(name, RedactedUrl(f"{self.nginx.base(mirror)}/forge/{subdir}/{FILENAME}"))

    def sources(self, subdir: str, carriers: tuple[int, ...] = ()) -> ShardSources:
        others = tuple(self.source(mirror, subdir) for mirror in carriers)
        return ShardSources(f"forge/{subdir}", subdir, (self.source(0, subdir),), others)

    def fetcher(self, **options: object) -> ShardFetcher:
        transport = HttpTransport(NetworkSettings())
        reader, carriers = Reader(transport, network=Reachability()), Reader(transport, network=Reachability())
        fetcher = ShardFetcher(reader, self.store, self.told, hurried=carriers, **options)
        self._open.append((fetcher, transport, reader))
        return fetcher

    def close(self) -> None:
        for fetcher, transport, reader in self._open:
            fetcher.close()
            reader.stop()
            transport.close()


@pytest.fixture(scope="module")
def shard_nginx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, NginxMirrors]]:
    if find_nginx() is None:
        pytest.skip("nginx is not installed")
    folder = tmp_path_factory.mktemp("shards")
    roots = [folder / f"mirror{number}" for number in range(3)]
    for root in roots:
        root.mkdir()
    mirrors = NginxMirrors(roots, folder / "nginx")
    mirrors.start()
    yield folder, mirrors
    mirrors.stop()


@pytest.fixture
def shard_mirrors(shard_nginx: tuple[Path, NginxMirrors], tmp_path: Path) -> Iterator[ShardMirrors]:
    """Mirror 0 has whole indexes and shards; the others have nothing until a test writes it."""
    folder, nginx = shard_nginx
    for link in range(3):
        served = tmp_path / f"mirror{link}"
        (served / "forge").mkdir(parents=True)
        if sys.platform == "win32":  # where links need a privilege
            nginx.change(link, root=served)
            continue
        (folder / f"mirror{link}" / "forge").unlink(missing_ok=True)
        (folder / f"mirror{link}" / "forge").symlink_to(served / "forge")
    for subdir, archives in (("linux-64", LINUX), ("noarch", NOARCH)):
        write_whole(tmp_path / "mirror0" / "forge" / subdir, archives)
        write_shards(tmp_path / "mirror0" / "forge" / subdir, archives)
    nginx.reset_log()
    found = ShardMirrors(tmp_path, nginx)
    yield found
    found.close()

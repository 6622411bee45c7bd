"""A worker for all tests of this folder, and a solve that needs one line."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from resume_dl.model.channel import Channel
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.request import RepodataFile, Solution, SolveRequest
from resume_dl.resolve.solve import solve
from resume_dl.resolve.worker import RattlerWorker
from support import records
from support.records import Record

MIRROR = "https://mirror.example/anaconda"
Solve = Callable[..., Solution]


def channel(name: str, *, group: str = "") -> Channel:
    """A channel as its origin has it, and at the user's mirror."""
    place = "https://repo.anaconda.com" if name.startswith("pkgs/") else "https://conda.anaconda.org"
    client = MIRROR if name.startswith("pkgs/") else f"{MIRROR}/cloud"
    return Channel(name, f"conda:{name}", RedactedUrl(f"{place}/{name}"), RedactedUrl(f"{client}/{name}"), group)


PYTORCH = channel("pytorch")
MAIN = channel("pkgs/main", group="defaults")


@pytest.fixture(scope="session")
def worker() -> Iterator[RattlerWorker]:
    """One real worker process; ``RESUME_DL_TEST_RATTLER`` names a Python with another py-rattler to run it in."""
    other = os.environ.get("RESUME_DL_TEST_RATTLER")
    with RattlerWorker(python=Path(other) if other else None) as running:
        yield running


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[RepodataFile]:
    """The real pytorch channel of 2021, and made records of pkgs/main."""
    folder = tmp_path_factory.mktemp("real")
    return [
        RepodataFile(PYTORCH, "linux-64", records.PYTORCH),
        RepodataFile(PYTORCH, "noarch", records.write(folder / "mutex.json", records.mutex_records(), subdir="noarch")),
        RepodataFile(MAIN, "linux-64", records.write(folder / "main.json", records.main_records())),
        RepodataFile(MAIN, "noarch", records.write(folder / "noarch.json", records.noarch_records(), subdir="noarch")),
    ]


@pytest.fixture
def fetch(worker: RattlerWorker, real: list[RepodataFile]) -> Solve:
    """``fetch("pytorch=1.7", cuda="10.2")``: a solve on the real records for a machine without a GPU."""

    def run(
        *specs: str, repodata: list[RepodataFile] = real, platform: str = "linux-64", **options: object
    ) -> Solution:
        options.setdefault("channels", tuple(dict.fromkeys(file.channel for file in repodata)))
        env = options.pop("env", {"CONDA_OVERRIDE_CUDA": ""})
        return solve(SolveRequest(specs=specs, platform=platform, **options), repodata, worker, env=env)

    return run


@pytest.fixture
def made(fetch: Solve, tmp_path: Path) -> Solve:
    """``made({"one": [record(...)]}, "a", …)``: a solve on made channels, named in their order of priority."""

    def run(
        channels: dict[str, Iterable[Record]], *specs: str, info: dict[str, str] | None = None, **options: object
    ) -> Solution:
        files = []
        for name, content in channels.items():
            path = records.write(tmp_path / f"{name.replace('/', '-')}.json", content, **(info or {}))
            files.append(RepodataFile(channel(name), "linux-64", path))
        return fetch(*specs, repodata=files, **options)

    return run

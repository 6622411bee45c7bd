"""Shards as rattler's and conda's index writers make them of real archives: the records of their own repodata.json."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel
from resume_dl.indexes.shards import FILENAME
from resume_dl.indexes.shards.index import parse_index
from resume_dl.indexes.shards.shard import parse_shard
from resume_dl.indexes.shards.subset import write_subset
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from support.conda_env import VARIABLE


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A channel of archives without any index."""
    root = tmp_path / "channel"
    specs = [PackageSpec(name="app", version="1.0", depends=("lib >=1",))]
    specs += [PackageSpec(name="lib", version=version) for version in ("1.0", "2.0")]
    build_channel(root, specs)
    for path in root.glob("*/repodata*"):
        path.unlink()
    return root


def test_a_shard_index_written_by_rattler_is_read(root: Path) -> None:
    index_fs = pytest.importorskip("rattler.index.index").index_fs
    asyncio.run(index_fs(root, write_zst=False, write_shards=True))
    assert_same_records(root)


def test_what_conda_index_writes(root: Path) -> None:
    """By the first Python of those that tests may run whose conda has conda-index beside it."""
    for python in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
        command = [python, "-m", "conda_index", "--write-shards", "--no-channeldata", str(root)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if "No module named" not in done.stderr:
            assert done.returncode == 0, done.stderr
            assert_same_records(root)
            return
    pytest.skip(f"no Python that {VARIABLE} names has conda-index: pip install conda-index there to run this test")


def assert_same_records(root: Path) -> None:
    """The shards of each subdir, looked up by their index, have the records of its repodata.json."""
    checked = 0
    for folder in (root / "linux-64", root / "noarch"):
        if not (folder / FILENAME).exists():
            continue
        url = f"https://conda.example/c/{folder.name}/{FILENAME}"
        index = parse_index((folder / FILENAME).read_bytes(), subdir=folder.name, url=url)
        shards = []
        for name, digest in index.hashes.items():
            at = index.shards_of(Source("upstream", RedactedUrl(url))).shard(digest.hex()).url.reveal()
            data = (root / at.removeprefix("https://conda.example/c/")).read_bytes()
            assert hashlib.sha256(data).digest() == digest
            shards.append(parse_shard(data, name=name))
            checked += 1
        write_subset(root / "subset.json", shards, subdir=folder.name, base_url=index.base_url)
        subset = json.loads((root / "subset.json").read_text())
        whole = json.loads((folder / "repodata.json").read_text())
        assert subset["packages"] == whole["packages"]
        assert subset["packages.conda"] == whole["packages.conda"]
        assert {"lib"} == {each for shard in shards for each in shard.mentioned} or folder.name == "noarch"
    assert checked == 2

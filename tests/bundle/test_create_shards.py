"""``bundle create`` from a channel that has its index in shards alone, as rattler's writer makes them."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path

import pytest

from faults.server import FaultServer
from resume_dl.app.bundle_create import CreateRequest, create
from resume_dl.demo.channel import BuiltPackage, PackageSpec, build_channel
from resume_dl.indexes.shards import FILENAME
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.offline_tools.verification.check import check
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.transfer.setup import TransferOptions, load_setup

SPECS = [
    PackageSpec(name="app", version="1.0", depends=("lib >=1",)),
    PackageSpec(name="lib", version="1.0"),
    PackageSpec(name="lib", version="2.0", subdir="noarch"),
    PackageSpec(name="other", version="1.0"),
]


@pytest.fixture
def packages(tmp_path: Path) -> dict[str, BuiltPackage]:
    """By file name; the channel's folders have no whole index."""
    index_fs = pytest.importorskip("rattler.index.index").index_fs
    channel = build_channel(tmp_path / "root" / "lab", SPECS)
    asyncio.run(index_fs(channel.root, write_zst=False, write_shards=True, force=True))
    for path in channel.root.glob("*/repodata.json*"):
        path.unlink()
    return {package.filename: package for package in channel.packages}


def test_what_a_bundle_of_shards_holds(
    tmp_path: Path, packages: dict[str, BuiltPackage], fault_server: type[FaultServer]
) -> None:
    """The packages of the closure, their records in an index of its own, who vouched; and it can be verified."""
    server = fault_server()
    server.mount(tmp_path / "root")
    table = tmp_path / "mirrors.toml"
    table.write_text(f'schema = 1\n[origins]\n"conda:lab" = "{server.base()}/lab"\n', encoding="utf-8")
    env = {f"RESUME_DL_{kind}_DIR": str(tmp_path / kind) for kind in ("CACHE", "STATE", "CONFIG")}
    setup = load_setup(TransferOptions(mirrors_file=table), {"HOME": str(tmp_path), **env}, conda=CondaSettings())
    request = FetchRequest(
        specs=("app",), channels=("lab",), override_channels=True, platforms=("linux-64",), extract=False
    )
    bundle = tmp_path / "bundle"
    told = io.StringIO()
    reporter = NoneReporter(Console(told, "warning"))
    with RattlerWorker() as worker:
        result = create(CreateRequest(fetch=request, output=bundle), setup, reporter, worker=worker)
    assert (result.exit_code, told.getvalue()) == (0, "")
    assert [(index.subdir, index.form) for index in result.indexes] == [("linux-64", "shards"), ("noarch", "shards")]

    manifest = json.loads((bundle / "manifest.json").read_text())
    assert manifest["indexes"] == [
        {"channel": "lab", "subdir": subdir, "vouched": "authority"} for subdir in ("linux-64", "noarch")
    ]
    taken = {Path(package["path"]).name: package["sha256"] for package in manifest["packages"]}
    chosen = {"app-1.0-0.conda", "lib-2.0-0.conda"}
    assert taken == {name: packages[name].sha256 for name in chosen}
    records = {}
    for path in bundle.glob("channel/*/repodata.json"):
        records |= json.loads(path.read_text())["packages.conda"]
    assert {name: record["sha256"] for name, record in records.items()} == taken
    assert records["app-1.0-0.conda"]["depends"] == ["lib >=1"]
    assert {request.path.rpartition("/")[2] for request in server.requests(path="*/lab/*") if request.status == 200} > {
        FILENAME,
        *chosen,
    }
    report = check(bundle)
    assert (report.exit_code, report.problems) == (0, [])

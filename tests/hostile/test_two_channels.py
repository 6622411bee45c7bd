"""Two channels of one command: what is wrong with one of them weakens nothing that is believed of the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from faults.behaviours import NeverAnswer
from faults.server import FaultServer
from resume_dl.app.fetch import fetch
from resume_dl.demo.channel import PackageSpec, build_channel, write_repodata
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.resolution.fetch_request import FetchRequest
from resume_dl.transfer.report import RunResult
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.in_process import Heard, LastingWorker

ANSWERS, SILENT = 0, 1
"""Ports of authorities; the carriers of both channels are at 2 and 3."""


@pytest.fixture(scope="module")
def worker() -> Iterator[LastingWorker]:
    worker = LastingWorker()
    yield worker
    worker.end()


@dataclass
class Scene:
    """The channels ``lab``, with the package ``app``, and ``x-lab``, with ``tool``: each has an authority, two mirrors.

    Both mirrors of ``lab`` lie alike: they would be believed if its authority were not.
    """

    folder: Path
    server: FaultServer
    worker: LastingWorker
    lines: list[str] = field(default_factory=list)

    def fetch(
        self, *, lab: int = ANSWERS, other: int = ANSWERS, channels: tuple[str, ...] = ("lab", "x-lab")
    ) -> RunResult:
        base = self.server.base
        text = "schema = 1\n[origins]\n"
        text += f'"conda:lab" = "{base(lab)}/honest/lab"\n"conda:x-lab" = "{base(other)}/honest/x-lab"\n'
        for name, port in (("one", 2), ("two", 3)):
            text += f'[[mirror]]\nname = "{name}"\noperator = "{name}"\n[mirror.carries]\n'
            text += f'"conda:lab" = "{base(port)}/evil/lab"\n"conda:x-lab" = "{base(port)}/carried/x-lab"\n'
        table = self.folder / "mirrors.toml"
        table.write_text(text, encoding="utf-8")
        env = {f"RESUME_DL_{kind}_DIR": str(self.folder / kind) for kind in ("CACHE", "STATE", "CONFIG")}
        setup = load_setup(
            TransferOptions(mirrors_file=table), {"HOME": str(self.folder), **env}, conda=CondaSettings()
        )
        heard = Heard()
        request = FetchRequest(
            specs=("app", "tool"), channels=channels, override_channels=True, platforms=("linux-64",), extract=False,
            dest=self.folder / "out",
        )  # fmt: skip
        try:
            return fetch(request, setup, heard, worker=self.worker)
        finally:
            self.lines = heard.lines


@pytest.fixture
def scene(
    tmp_path: Path, fault_server: Callable[..., FaultServer], worker: LastingWorker, monkeypatch: pytest.MonkeyPatch
) -> Scene:
    policy = TransferOptions.policy
    short = {"authority_give_up": 0.5, "first_byte_seconds": 1.0, "first_byte_most": 1.0}
    monkeypatch.setattr(TransferOptions, "policy", lambda options: replace(policy(options), **short))
    app, tool = PackageSpec(name="app", version="1.0"), PackageSpec(name="tool", version="1.0")
    build_channel(tmp_path / "honest" / "lab", [app])
    for place in ("honest", "carried"):
        build_channel(tmp_path / place / "x-lab", [tool])
    build_channel(tmp_path / "evil" / "lab", [app, replace(app, version="9.9", files={"trojan": b"trojan"})])
    server = fault_server(ports=4)
    server.mount(tmp_path)
    server.always(SILENT, NeverAnswer())
    return Scene(tmp_path, server, worker)


def believed(result: RunResult) -> dict[str, str]:
    return {index.channel: index.vouched.value for index in result.indexes}


def versions(result: RunResult) -> dict[str, str]:
    return {each.artifact.name: each.artifact.version for each in result.artifacts}


@pytest.mark.parametrize("channels", [("lab", "x-lab"), ("x-lab", "lab")])
def test_one_silent_authority_takes_nothing_from_the_other(scene: Scene, channels: tuple[str, ...]) -> None:
    """The other channel's carriers are not asked for its index, and their lie does not count."""
    result = scene.fetch(other=SILENT, channels=channels)
    assert result.exit_code == 0, scene.lines
    assert versions(result) == {"app": "1.0", "tool": "1.0"}
    assert believed(result) == {"lab": "authority", "x-lab": "agreement"}
    assert [each for each in scene.server.requests() if "/evil/lab" in each.path and "repodata" in each.path] == []


def test_an_authority_that_answers_vouches_for_its_own_channel_alone(scene: Scene) -> None:
    """Records of the silent channel need two carriers, whatever the answering authority has."""
    result = scene.fetch(lab=SILENT)
    assert result.exit_code == 0, scene.lines
    assert believed(result) == {"lab": "agreement", "x-lab": "authority"}
    assert versions(result) == {"app": "9.9", "tool": "1.0"}, "both operators say so, and nothing else is known"


@pytest.mark.parametrize("kind", ["file name", "record"])
def test_a_carriers_unreadable_index_does_not_set_aside_the_other_channels_authority(scene: Scene, kind: str) -> None:
    """The refusal quotes what the carrier wrote: names of other channels in it are no evidence against them."""
    channel = scene.folder / "carried" / "x-lab"
    (made,) = build_channel(channel, [PackageSpec(name="tool", version="1.0")]).packages
    if kind == "record":
        made.record["url"] = "https://evil.example/lab/linux-64/../x"
        write_repodata(channel, "linux-64", [made])
    else:
        index = json.loads((channel / "linux-64" / "repodata.json").read_text())
        index["packages"]["../lab/linux-64/app-1.0-0.tar.bz2"] = {}
        for path in (channel / "linux-64").glob("repodata*"):
            path.unlink()
        (channel / "linux-64" / "repodata.json").write_text(json.dumps(index))
    with pytest.raises(Exception, match="is refused") as caught:
        scene.fetch(other=SILENT)
    assert caught.value.exit_code == 4
    evil = [each for each in scene.server.requests() if "/evil/lab" in each.path and "repodata" in each.path]
    assert evil == [], scene.lines

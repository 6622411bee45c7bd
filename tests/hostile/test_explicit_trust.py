"""An address without a digest: its own host's index alone says what the bytes have to be, whatever mirrors say."""

from __future__ import annotations

import io
import json
import os

import pytest

from faults.behaviours import NeverAnswer, Status
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec
from resume_dl.model.conda_settings import CondaSettings
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.resolution.explicit_addresses import look_up
from resume_dl.resolve.explicit import parse_line
from resume_dl.transfer.setup import TransferOptions, load_setup

HONEST, CARRIER, OTHER = 0, 1, 2
"""Ports: the address's own host, a hostile mirror of it, and a third place."""


@pytest.fixture(scope="session")
def channels(tmp_path_factory):
    """The channel as its host has it, and the same package with other bytes in an index of its own."""
    root = tmp_path_factory.mktemp("explicit")
    spec = {"name": "tool", "version": "1.0", "payload_size": 20_000, "subdir": "noarch"}
    honest = build_channel(root / "honest" / "lab", [PackageSpec(**spec, files={"share/whose": b"honest"})])
    trojan = build_channel(root / "trojan" / "lab", [PackageSpec(**spec, files={"share/whose": b"trojan"})])
    assert honest.packages[0].sha256 != trojan.packages[0].sha256
    return honest, trojan


@pytest.fixture
def server(channels, fault_server):
    honest, trojan = channels
    server = fault_server(ports=3)
    for folder, name in ((honest, "honest"), (trojan, "trojan")):
        for path in folder.root.rglob("*"):
            if path.is_file():
                server.put(f"/{name}/{path.relative_to(folder.root.parent)}", path.read_bytes())
    return server


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr("resume_dl.resolution.explicit_addresses.ANSWER_WITHIN", 2.0)


def table(server, path, position):
    """A mirror table in which the address's host is the origin, or a mirror that stands before the hostile one."""
    trojan, honest = f"{server.base(CARRIER)}/trojan/lab", f"{server.base(HONEST)}/honest/lab"
    origin = f"{server.base(OTHER)}/nothing/lab" if position == "last" else honest
    mirrors = [("honest", honest), ("carrier", trojan)] if position == "last" else [("carrier", trojan)]
    lines = ["schema = 1", "[origins]", f'"conda:lab" = "{origin}"']
    for name, base in mirrors:
        lines += ["[[mirror]]", f'name = "{name}"', "[mirror.carries]", f'"conda:lab" = "{base}"']
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("position", ["first", "last", "alone"])
@pytest.mark.parametrize("lie", ["other digest", "hash removed", "silent", "404"])
def test_no_mirror_vouches_for_an_address(channels, server, tmp_path, lie, position):
    """The digest is the host's own, or there is none, and the address is left to conda; no mirror is asked at all."""
    honest, trojan = channels
    if lie == "hash removed":
        index = json.loads((trojan.root / "noarch" / "repodata.json").read_text())
        for record in index["packages.conda"].values():
            record.pop("sha256"), record.pop("md5")
        server.put("/trojan/lab/noarch/repodata.json", json.dumps(index).encode())
        server.always(CARRIER, Status(404), path="*.zst")
    elif lie == "silent":
        server.always(CARRIER, NeverAnswer())
    elif lie == "404":
        server.always(CARRIER, Status(404))
    if position == "alone":
        server.always(HONEST, Status(503))
    env = {**os.environ, **{f"RESUME_DL_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "CACHE", "STATE")}}
    options = TransferOptions(mirrors_file=table(server, tmp_path / "mirrors.toml", position))
    setup = load_setup(options, env, conda=CondaSettings())
    line = parse_line(f"{server.base(HONEST)}/honest/lab/noarch/{honest.packages[0].filename}")
    reporter = NoneReporter(Console(io.StringIO(), "info"))

    (found,) = look_up([line], setup, reporter, offline=False, cancelled=lambda: False)
    (kept,) = look_up([line], setup, reporter, offline=True, cancelled=lambda: False)

    assert found.sha256 == kept.sha256 == (None if position == "alone" else honest.packages[0].sha256)
    assert server.requests(CARRIER) == []
    assert server.requests(OTHER) == []


@pytest.mark.conda
def test_conda_never_gets_a_mirrors_bytes(channels, server, test_conda):
    """A real conda: the honest package beside a hostile mirror; where its host is down, nothing is installed."""
    honest, _ = channels
    mirrors = table(server, test_conda.folder / "mirrors.toml", "first")
    test_conda.configure(plugins={"resume_dl_mirrors": str(mirrors)}, remote_max_retries=0)
    address = f"{server.base(HONEST)}/honest/lab/noarch/{honest.packages[0].filename}"
    done = test_conda.run("create", "-p", test_conda.folder / "env", address)
    assert done.returncode == 0, done.stderr
    assert (test_conda.folder / "env" / "share" / "whose").read_bytes() == b"honest"

    server.always(HONEST, Status(503))
    soon = {"RESUME_DL_CACHE_DIR": str(test_conda.folder / "empty"), "RESUME_DL_GIVE_UP_AFTER": "2"}
    test_conda.configure(pkgs_dirs=[str(test_conda.folder / "other-pkgs")])
    done = test_conda.run("create", "-p", test_conda.folder / "alone", address, env=soon)
    assert done.returncode == 1
    assert not (test_conda.folder / "alone" / "share").exists()
    assert not server.requests(CARRIER, "*repodata*")

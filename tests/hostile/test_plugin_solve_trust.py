"""What conda solves is decided by the server that conda itself would ask: a hostile mirror of the table never is."""

from __future__ import annotations

import json

import pytest

from faults.behaviours import Status
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec

HONEST, CARRIER = 0, 1


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    """An honest channel, and a mirror with other bytes under one name, a newer version, and a misspelt name."""
    root = tmp_path_factory.mktemp("solve")
    tool = {"name": "tool", "payload_size": 20_000, "subdir": "noarch"}
    trojan = {"share/whose": b"trojan"}
    build_channel(root / "honest" / "lab", [PackageSpec(**tool, version="1.0", files={"share/whose": b"honest"})])
    lies = [
        PackageSpec(**tool, version="1.0", files=trojan),
        PackageSpec(**tool, version="2.0", files=trojan, timestamp=99_000_000_000_000),
        PackageSpec(**{**tool, "name": "tol"}, version="1.0", files=trojan),
    ]
    build_channel(root / "trojan" / "lab", lies)
    return root


@pytest.mark.conda
def test_a_mirror_never_decides_what_conda_solves(root, fault_server, test_conda):
    """Its index is never asked for: not first, not beside an honest server, and not where that one is down."""
    server = fault_server(ports=2)
    server.mount(root)
    mirrors = test_conda.folder / "mirrors.toml"
    origin, carrier = f"{server.base(HONEST)}/honest/lab", f"{server.base(CARRIER)}/trojan/lab"
    lines = ["schema = 1", "[origins]", f'"conda:lab" = "{origin}"', "[[mirror]]", 'name = "carrier"']
    mirrors.write_text("\n".join([*lines, "[mirror.carries]", f'"conda:lab" = "{carrier}"']), encoding="utf-8")
    test_conda.configure(channels=[origin], plugins={"resume_dl_mirrors": str(mirrors)}, remote_max_retries=0)

    done = test_conda.run("create", "-p", test_conda.folder / "env", "tool")
    assert done.returncode == 0, done.stderr
    assert (test_conda.folder / "env" / "share" / "whose").read_bytes() == b"honest"
    (record,) = (test_conda.folder / "env" / "conda-meta").glob("tool-*.json")
    assert json.loads(record.read_text())["version"] == "1.0"
    assert any(one.headers["user-agent"].startswith("resume-dl/") for one in server.requests(HONEST, "*repodata*"))

    missing = test_conda.run("create", "-p", test_conda.folder / "typo", "tol")
    assert missing.returncode == 1
    assert "PackagesNotFound" in missing.stdout + missing.stderr

    server.always(HONEST, Status(503))
    test_conda.configure(pkgs_dirs=[str(test_conda.folder / "other-pkgs")])
    soon = {"RESUME_DL_GIVE_UP_AFTER": "2"}
    done = test_conda.run("create", "-p", test_conda.folder / "alone", "tool", env=soon)
    assert done.returncode == 1
    assert not (test_conda.folder / "alone" / "share").exists()
    assert not server.requests(CARRIER, "*repodata*")

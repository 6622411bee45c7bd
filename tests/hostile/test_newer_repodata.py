"""``fetch`` from a channel whose index has repodata v3 (CEP 48): real archives, a real server, and hostile sections."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from resume_dl.demo.channel import PackageSpec, build_channel
from support.fetching import User

pytestmark = pytest.mark.nginx
SPECS = (
    PackageSpec(name="app", version="1.0", build="0", payload_size=20_000),
    PackageSpec(name="needed", version="1.0", build="0", payload_size=20_000),
    PackageSpec(name="other", version="1.0", build="0", payload_size=20_000),
    PackageSpec(name="extra", version="1.0", build="0", format="tar.bz2", payload_size=20_000),
)
ONLY = ("-c", "pytorch", "--override-channels", "--json")


class Channel:
    """A channel of four packages, all of them in ``v3``; ``write`` adds sections."""

    def __init__(self, folder: Path, nginx_mirrors) -> None:
        self.root = folder / "root" / "pytorch"
        self.packages = {package.spec.name: package for package in build_channel(self.root, SPECS).packages}
        self.records: dict[str, dict[str, Any]] = {}
        for package in self.packages.values():
            self.records.setdefault(package.spec.format, {})[package.spec.stem] = package.record
        self.app = self.records["conda"][self.packages["app"].spec.stem]
        self.app["depends"] = ['needed[when="__linux"]', 'other[when="__win"]']
        self.app["extra_depends"] = {"more": ["extra"]}
        self.write()
        self.nginx = nginx_mirrors([self.root.parent])
        self.user = User(folder / "user")
        self.user.mirrors(one=self.nginx.base())

    def write(self, **sections: Any) -> None:
        document = {
            "info": {"subdir": "linux-64"},
            "packages": {},
            "packages.conda": {},
            "v3": self.records,
            **sections,
        }
        for path in (self.root / "linux-64").glob("*repodata.json*"):
            path.unlink()
        (self.root / "linux-64" / "repodata.json").write_text(json.dumps(document))


@pytest.fixture
def served(tmp_path, nginx_mirrors):
    return Channel(tmp_path, nginx_mirrors)


def test_packages_of_v3_become_cache_entries(served):
    """What the condition and the extra ask for, with the record that the channel has; a second run has it all."""
    done = served.user.fetch("app[extras=[more]]", *ONLY)
    assert done.code == 0, done.err
    wanted = [served.packages[name] for name in ("app", "needed", "extra")]
    assert done.statuses == {package.filename: "downloaded" for package in wanted}
    served.user.assert_complete(wanted)
    path = served.user.pkgs / served.packages["app"].spec.stem / "info" / "repodata_record.json"
    record = json.loads(path.read_text())
    assert record["depends"] == served.app["depends"]
    assert record["fn"] == served.packages["app"].filename
    served.nginx.reset_log()
    again = served.user.fetch("app[extras=[more]]", *ONLY)
    assert set(again.statuses.values()) == {"cached"}
    assert served.nginx.archive_requests() == []


def test_a_later_revision_is_said(served):
    served.write(
        info={"subdir": "linux-64", "repodata_revisions": {"v4": {"n_packages": 2, "message": "\x1b[2J"}}}, v4=[1]
    )
    done = served.user.fetch("app", *ONLY)
    assert done.code == 0, done.err
    assert "2 packages of repodata revision v4" in done.err
    assert "\x1b" not in done.err
    assert any("revision v4" in note for note in done.report["notes"])


@pytest.mark.parametrize("section", ["v3", "v4", "packages.whl"])
@pytest.mark.parametrize("name", ["../../evil-1-0", "/tmp/evil-1-0", "C:\\evil-1-0"])
def test_hostile_names_in_newer_sections(served, section, name):
    """Refused (4) with the name shown; nothing of the harmless packages is fetched, nothing written."""
    rows = {name: {**served.app, "name": "evil"}}
    served.write(**{section: rows if section == "packages.whl" else {"conda": rows}})
    done = served.user.fetch("needed", *ONLY)
    assert done.code == 4, done.err
    assert done.report["error"]["type"] == "IntegrityError"
    assert "Traceback" not in done.err
    assert served.nginx.archive_requests() == []
    assert served.user.archives() == set()


def test_a_later_version_is_refused(served):
    """``repodata_version`` 3 may mean anything."""
    served.write(repodata_version=3)
    done = served.user.fetch("app", *ONLY)
    assert done.code == 4, done.err
    assert "repodata_version is 3" in done.err

"""conda-lock.yml with packages of conda and of pip: both are fetched, and both are in a bundle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.bundles import BOTH, COLORAMA, COMMON, FAST, LINUX, WINDOWS, Maker, World, archives_of, by_path, sums_hold

pytestmark = pytest.mark.nginx
CONDA = {"linux-64": LINUX, "win-64": WINDOWS}
PIP = {"linux-64": {*COMMON, FAST["linux-64"]}, "win-64": {*COMMON, FAST["win-64"], COLORAMA}}


def write_lock(maker: Maker, world: World) -> Path:
    """A lock file of the world for both platforms, with the channels' own URLs; JSON is YAML too."""
    entries = []
    wheels = {f"wheels/{wheel.filename}": wheel for wheel in world.wheels}
    for platform, paths in CONDA.items():
        for path in sorted(paths):
            package = world.packages[path]
            name = "pytorch" if "pytorch" in path else "main"
            channel = {"pytorch": "https://conda.anaconda.org/pytorch", "main": "https://repo.anaconda.com/pkgs/main"}
            entries.append(_entry(package.spec.name, "conda", platform, f"{channel[name]}/{package.url_path}"))
            entries[-1]["hash"] = {"md5": package.md5}
        for path in sorted(PIP[platform]):
            wheel = wheels[path]
            entries.append(
                _entry(wheel.normalized, "pip", platform, f"https://files.pythonhosted.org/{wheel.url_path}")
            )
            entries[-1]["hash"] = {"sha256": wheel.sha256}
    lock = maker.folder / "conda-lock.yml"
    document = {"version": 1, "metadata": {"platforms": [*CONDA]}, "package": entries}
    lock.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return lock


def _entry(name: str, manager: str, platform: str, url: str) -> dict[str, object]:
    return {"name": name, "version": "1", "manager": manager, "platform": platform, "url": url, "category": "main"}


def read_indexes(maker: Maker) -> list[str]:
    """What was requested of the servers besides packages."""
    return [each.uri for each in maker.nginx.requests() if "/simple/" in each.uri or "repodata" in each.uri]


def test_packages_of_conda_and_pip_are_fetched(maker: Maker, world: World) -> None:
    """Of one platform; no index of conda or pip is read."""
    lock, dest = write_lock(maker, world), maker.folder / "dest"
    words = ["--platform", "linux-64", "--dest", dest]
    done = maker.run("fetch", *maker.options, "--file", lock, *words, "--json")
    assert done.code == 0, done.err
    wanted = {path.rpartition("/")[2]: world.bytes[path] for path in CONDA["linux-64"] | PIP["linux-64"]}
    there = {path.name: path.read_bytes() for path in dest.iterdir() if path.is_file() and path.name in wanted}
    assert there == wanted
    assert {each["filename"] for each in done.report["artifacts"]} == {*wanted}
    assert {each["verified_by"] for each in done.report["artifacts"]} == {"digest"}
    assert "8 conda packages and 3 pip packages for linux-64" in done.err
    assert read_indexes(maker) == []


def test_a_bundle_of_it(maker: Maker, world: World) -> None:
    """For both platforms, complete by its own checksums."""
    lock = write_lock(maker, world)
    done = maker.create("--file", lock, *BOTH)
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX | WINDOWS | PIP["linux-64"] | PIP["win-64"]
    assert sums_hold(maker.out)
    assert by_path(maker.out)[COLORAMA]["requested_by"] == ["conda-lock.yml"]
    assert read_indexes(maker) == []

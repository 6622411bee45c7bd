"""pixi.lock made by py-rattler itself: fetched without an index and a solve, installed offline by py-rattler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.bundles import BOTH, COLORAMA, COMMON, FAST, LINUX, WINDOWS, Maker, World, archives_of, by_path, sums_hold
from support.fetching import User

pytestmark = pytest.mark.nginx
MAKE = """
import json, os, sys
from rattler import Channel, PackageName, SparseRepoData
from rattler.lock import LockChannel, LockFile, LockPlatform

wanted = json.load(sys.stdin)
platforms = {name: LockPlatform(name) for name in wanted["platforms"]}
lock = LockFile([*platforms.values()])
for environment in wanted["environments"]:
    lock.set_channels(environment, [LockChannel(base) for base in wanted["channels"]])
for base, folder in wanted["channels"].items():
    for subdir in (*platforms, "noarch"):
        index = SparseRepoData(Channel(base), subdir, f"{folder}/{subdir}/repodata.json")
        for name in index.package_names():
            for record in index.load_records(PackageName(name)):
                for environment, platform, filename in wanted["conda"]:
                    if record.file_name == filename and subdir in (platform, "noarch"):
                        lock.add_conda_package(environment, platforms[platform], record)
for environment, platform, *package in wanted["pypi"]:
    lock.add_pypi_package(environment, platforms[platform], *package)
lock.to_path(sys.argv[1])
sys.stdout.flush()
os._exit(0)
"""
"""As pixi does after its solve; a lock's platforms and environments may differ in their packages."""
INSTALL = """
import asyncio, os, sys
from rattler import install
from rattler.lock import LockFile

async def main(path, prefix):
    lock = LockFile.from_path(path)
    platform = next(each for each in lock.platforms() if each.name == "linux-64")
    records = lock.default_environment().conda_repodata_records_for_platform(platform)
    await install(records, target_prefix=prefix, platform=platform.subdir, show_progress=False)
    print(len(records))

asyncio.run(main(*sys.argv[1:]))
sys.stdout.flush()
os._exit(0)
"""
"""``os._exit``: py-rattler's threads sometimes crash an interpreter that shuts down."""
CONDA = {"linux-64": LINUX, "win-64": WINDOWS}
PIP = {"linux-64": {*COMMON, FAST["linux-64"]}, "win-64": {*COMMON, FAST["win-64"], COLORAMA}}
OTHER = "channel/linux-64/pytorch-1.7.1-py3.8_cpu.conda"


def write_lock(folder: Path, world: World, bases: dict[str, str], *, pip: bool = True) -> Path:
    """The lock of the world for both platforms; its environment ``cpu`` has another pytorch, and no wheels.

    ``bases``: channel -> its URL in the lock.
    """
    conda = [("default", platform, path.rpartition("/")[2]) for platform, paths in CONDA.items() for path in paths]
    conda += [("cpu", "linux-64", path.rpartition("/")[2]) for path in (*LINUX, OTHER) if "cuda11" not in path]
    wheels = {f"wheels/{wheel.filename}": wheel for wheel in world.wheels}
    pypi = []
    for platform, path in [(platform, path) for platform, paths in PIP.items() if pip for path in sorted(paths)]:
        url = f"https://files.pythonhosted.org/{wheels[path].url_path}#sha256={wheels[path].sha256}"
        pypi.append(("default", platform, wheels[path].normalized, wheels[path].filename.split("-")[1], url))
    wanted = {
        "platforms": [*CONDA],
        "environments": ["default", "cpu"],
        "channels": {bases[name]: str(world.root / name) for name in bases},
        "conda": conda,
        "pypi": pypi,
    }
    lock = folder / "pixi.lock"
    run = [sys.executable, "-c", MAKE, str(lock)]
    done = subprocess.run(run, input=json.dumps(wanted), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return lock


ORIGINS = {"pytorch": "https://conda.anaconda.org/pytorch", "pkgs/main": "https://repo.anaconda.com/pkgs/main"}


def read_indexes(maker: Maker) -> list[str]:
    """What was requested of the servers besides packages."""
    return [each.uri for each in maker.nginx.requests() if "/simple/" in each.uri or "repodata" in each.uri]


def test_what_rattler_locked_is_fetched_and_installed_offline(world: World, nginx_mirrors, tmp_path: Path) -> None:
    """No index is requested and nothing is solved; py-rattler then installs without any request, the server away."""
    nginx = nginx_mirrors([world.root])
    user = User(tmp_path / "user")
    user.mirrors(one=nginx.base())
    lock = write_lock(user.folder, world, {name: f"{nginx.base()}/{name}" for name in ORIGINS}, pip=False)
    done = user.run("fetch", "--file", lock, "--platform", "linux-64", "--rattler-cache", "--json")
    assert done.code == 0, done.err
    assert {each["verified_by"] for each in done.report["artifacts"]} == {"digest"}
    wanted = sorted(path.rpartition("/")[2] for path in LINUX)
    assert sorted(each.uri.rpartition("/")[2] for each in nginx.requests()) == wanted
    assert (
        "pixi.lock: 8 conda packages for linux-64, environment default; ignored: environment cpu, platform win-64"
        in done.err
    )
    assert "solving for" not in done.err

    nginx.stop()
    prefix = tmp_path / "env"
    run = [sys.executable, "-c", INSTALL, str(lock), str(prefix)]
    made = subprocess.run(run, env=user.environment(), capture_output=True, text=True, timeout=120, check=False)
    assert (made.returncode, made.stdout.strip()) == (0, "8"), made.stderr
    metas = (prefix / "conda-meta").glob("*.json")
    assert sorted(json.loads(path.read_text())["fn"] for path in metas) == wanted


def test_packages_of_conda_and_pip_are_fetched(maker: Maker, world: World) -> None:
    """From the mirrors of the origins that the lock names, of one environment; no index of conda or pip is read."""
    lock, dest = write_lock(maker.folder, world, ORIGINS), maker.folder / "dest"
    words = ["--platform", "linux-64", "--json", "--dest"]
    done = maker.run("fetch", *maker.options, "--file", lock, *words, dest)
    assert done.code == 0, done.err
    wanted = {path.rpartition("/")[2]: world.bytes[path] for path in LINUX | PIP["linux-64"]}
    there = {path.name: path.read_bytes() for path in dest.iterdir() if path.is_file() and path.name in wanted}
    assert there == wanted
    assert {each["verified_by"] for each in done.report["artifacts"]} == {"digest"}
    assert "8 conda packages and 3 pip packages for linux-64, environment default" in done.err
    assert read_indexes(maker) == []

    cpu = maker.run("fetch", *maker.options, "--file", lock, "--environment", "cpu", *words, maker.folder / "cpu")
    assert cpu.code == 0, cpu.err
    assert {each["filename"] for each in cpu.report["artifacts"]} == {
        path.rpartition("/")[2] for path in (*LINUX, OTHER) if "cuda11" not in path
    }
    assert read_indexes(maker) == []


def test_a_bundle_of_it(maker: Maker, world: World) -> None:
    """For both platforms, complete by its own checksums."""
    lock = write_lock(maker.folder, world, ORIGINS)
    done = maker.create("--file", lock, *BOTH)
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX | WINDOWS | PIP["linux-64"] | PIP["win-64"]
    assert sums_hold(maker.out)
    assert by_path(maker.out)[COLORAMA]["requested_by"] == ["pixi.lock"]
    assert read_indexes(maker) == []


def test_what_cannot_be_taken_is_refused(maker: Maker, world: World) -> None:
    """Exit code 2, nothing is written: two environments that differ, one that is not there, another platform, and a
    file that somebody has changed."""
    lock, out = write_lock(maker.folder, world, ORIGINS), maker.folder / "nothing"
    hostile = maker.folder / "changed.lock"  # known by its content
    hostile.write_text(lock.read_text().replace("/linux-64/mkl-", "/linux-64/..%2Fmkl-"))
    for path, words, said in (
        (lock, ["--environment", "cpu", "--environment", "default"], "environment cpu and default differ: pytorch"),
        (lock, ["--environment", "docs"], "has no environment 'docs', but cpu, default"),
        (lock, ["--platform", "osx-64"], "has no packages for osx-64, but for linux-64, win-64"),
        (hostile, [], "package ..%2Fmkl, conda: "),
    ):
        platform = [] if "--platform" in words else ["--platform", "linux-64"]
        for command in (["fetch", "--dest"], ["bundle", "create", "-o"]):
            done = maker.run(*command, out, *maker.options, "--file", path, *platform, *words)
            assert (done.code, said in done.err) == (2, True), done.err
            assert not out.exists()
    assert maker.nginx.requests() == []

"""The whole loop of a delta: a target that has 80 % of the packages, its inventory, what is left, installed there.

The target's conda cache is filled by a first bundle, as it would be; the network is cut whenever something is
installed. What is left out and is not there any more is named, and then nothing is started.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from support.bundles import Maker, World, by_path, files_of, sums_hold
from support.conda_env import TestConda, condas_at_hand
from support.installable import SITE, Target
from support.nginx import NginxMirrors
from support.offline import MIB, NEEDS, Cut, Offline, offline

__all__ = ["offline"]
pytestmark = NEEDS
LINUX = ("--platform", "linux-64", "--cuda", "11.0")
BASE = ("python", "pip", "numpy", "cudatoolkit", "libuv", "tzdata", "typing_extensions", "--pip", "tqdm", *LINUX)
ALL = ("pytorch", "ninja", "--pip", "demo-app", *LINUX)
CUDATOOLKIT = "cudatoolkit-11.0.221-0.conda"
TQDM = "tqdm-4.66.0-py3-none-any.whl"


@dataclass
class Loop:
    """Who makes the bundles, and the target, which has the first bundle's packages in its conda's cache."""

    world: World
    maker: Maker
    nginx: NginxMirrors
    target: Target
    cut: Callable[[], Cut]
    base: Path

    def profile(self, name: str, *command: str | Path) -> Path:
        """What a program on the target prints, as a file."""
        done = self.target.run(*command)
        assert done.returncode == 0, done.stderr
        path = self.maker.folder / name
        path.write_text(done.stdout, encoding="utf-8")
        return path

    def make(self, *more: str | Path) -> Path:
        """The bundle of what is missing."""
        self.nginx.reset_log()
        done = self.maker.create(*ALL, *more, out=self.maker.folder / "delta")
        assert done.code == 0, done.err
        return self.maker.folder / "delta"

    def install(self, bundle: Path, *more: str | Path):
        """``python install.py -n lab`` in it, cut off."""
        with self.cut() as cut:
            return cut.run(self.target, sys.executable, "install.py", "-n", "lab", *more, cwd=bundle)


@pytest.fixture(scope="module", params=condas_at_hand(), ids=lambda conda: conda.label)
def first(request: pytest.FixtureRequest, offline: Offline, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    """The first bundle is made and installed; nobody may change this target."""
    folder = tmp_path_factory.mktemp("delta")
    nginx = NginxMirrors([offline.world.root], folder / "nginx")
    nginx.start()
    try:
        maker, base = Maker(folder / "maker", nginx), folder / "base"
        assert maker.create(*BASE, out=base).code == 0
        target = Target(TestConda(request.param, folder / "conda"))
        loop = Loop(offline.world, maker, nginx, target, lambda: Cut(offline.port), base)
        with loop.cut() as cut:
            done = cut.run(target, sys.executable, "install.py", "-n", "first", cwd=base)
        assert done.returncode == 0, done.stderr
        yield loop
    finally:
        nginx.stop()


@pytest.fixture
def loop(first: Loop, tmp_path: Path) -> Iterator[Loop]:
    """The same with a target of its own, whose conda has the same cache."""
    target = Target(TestConda(first.target.conda.conda, tmp_path / "conda"))
    shutil.copytree(first.target.conda.pkgs, target.conda.pkgs, symlinks=True)
    yield replace(first, target=target)
    shutil.rmtree(first.maker.folder / "delta", ignore_errors=True)


def test_only_what_is_missing_travels(loop: Loop) -> None:
    wheels = ("--wheels", loop.base / "wheels")
    asked = [
        loop.profile("target.json", sys.executable, loop.base / "probe.py", *wheels),
        loop.profile("probe.json", sys.executable, "-m", "resume_dl", "probe", *wheels),
        loop.profile("inventory.json", sys.executable, "-m", "resume_dl", "bundle", "inventory", *wheels),
    ]
    inventory, *same = [json.loads(each.read_text("utf-8"))["inventory"] for each in asked]
    assert same == [inventory, inventory]
    bundle = loop.make("--since", asked[0])
    packages = by_path(bundle)
    there = {path for path, each in packages.items() if not each["included"]}
    missing = {*packages} - there
    assert {path.rpartition("/")[2] for path in there} <= {
        each["filename"] for each in (*inventory["packages"], *inventory["wheels"])
    }
    conda = {path for path in packages if path.startswith("channel/")}
    assert len(there & conda) / len(conda) >= 0.8
    assert {Path(path).name.partition("-")[0] for path in missing} == {"pytorch", "ninja", "demo_app", "fast"}
    size = sum(map(len, files_of(bundle).values()))
    assert size <= sum(packages[path]["size"] for path in missing) + 1_000_000
    assert size < 2 * MIB < 6 * MIB <= sum(packages[path]["size"] for path in there)
    assert loop.nginx.body_bytes() == sum(packages[path]["size"] for path in missing), "nothing else was fetched"
    assert sums_hold(bundle)
    assert "What is not in it" in (bundle / "README.txt").read_text("utf-8")

    done = loop.install(bundle, *wheels)
    assert done.returncode == 0, done.stderr
    prefix = loop.target.conda.folder / "envs" / "lab"
    assert len([*prefix.glob("conda-meta/*.json")]) == len(conda)
    ran = loop.target.run(
        prefix / "bin" / "python", "-I", "-c", "import torch, demo_app, tqdm, fast; print(torch.BUILD, tqdm.VERSION)"
    )
    assert ran.stdout == "py_cuda11.0 4.66.0\n", ran.stderr
    for spec in (built.spec for path, built in loop.world.packages.items() if path in conda and not built.spec.noarch):
        assert all((prefix / name).read_bytes() == data for name, data in spec.files.items()), spec.name
    assert (prefix / SITE / "typing_extensions.py").is_file()


def test_a_removed_base_of_a_delta(loop: Loop) -> None:
    """Named with digest, size and where it was looked for; neither conda nor pip is started."""
    wheels = ("--wheels", loop.base / "wheels")
    words = [sys.executable, "-m", "resume_dl", "bundle", "inventory", *wheels]
    bundle = loop.make("--since", loop.profile("inventory.json", *words))
    places = [loop.target.conda.pkgs / CUDATOOLKIT, loop.base / "wheels" / TQDM]
    before = [place.read_bytes() for place in places]
    for harm in ("removed", "flipped", "cut"):
        for place, data in zip(places, before, strict=True):
            if harm == "removed":
                place.unlink()
            else:
                middle = len(data) // 2
                end = b"" if harm == "cut" else bytes([data[middle] ^ 1]) + data[middle + 1 :]
                place.write_bytes(data[:middle] + end)
        done = loop.install(bundle, *wheels)
        check_named(loop, bundle, places, done, "missing" if harm == "removed" else "present, with other bytes")
        for place, data in zip(places, before, strict=True):
            place.write_bytes(data)
    done = loop.install(bundle, *wheels)
    assert done.returncode == 0, done.stderr


def check_named(loop: Loop, bundle: Path, places: list[Path], done, said: str) -> None:
    packages = by_path(bundle)
    assert done.returncode == 1, done.stderr
    assert "2 of these files are not here; nothing was installed" in done.stderr
    for place in places:
        (entry,) = [each for path, each in packages.items() if path.endswith(f"/{place.name}")]
        assert f"{place.name}\n    sha256 {entry['sha256']}, {entry['size']:,} bytes\n" in done.stderr
        assert f"{said}: {place}\n" in done.stderr
    others = {path.rpartition("/")[2] for path in packages} - {place.name for place in places}
    assert not [name for name in others if f"  {name}\n" in done.stderr], "and nothing else is named"
    assert "resume-dl bundle inventory" in done.stderr
    assert loop.target.calls == []
    assert not (loop.target.conda.folder / "envs" / "lab").exists()


def test_a_target_without_the_wheels_folder(loop: Loop) -> None:
    """Only what a program finds without being told is left out: the wheel travels again."""
    asked = loop.profile("inventory.json", sys.executable, "-m", "resume_dl", "bundle", "inventory")
    bundle = loop.make("--since", asked)
    assert (bundle / "wheels" / TQDM).is_file()
    assert not (bundle / "channel" / "linux-64" / CUDATOOLKIT).exists()
    done = loop.install(bundle)
    assert done.returncode == 0, done.stderr

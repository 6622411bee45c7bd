"""What a bundle's folder gives a real conda: its channel, its lists and its environment.yml."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from resume_dl.bundle.channel_files import subdirs, write_repodata
from resume_dl.demo.channel import PackageSpec
from resume_dl.model.bundle import BundlePackage, Manifest
from support.conda_env import TestConda
from support.installable import venv_with_pip
from support.laid_out import LaidOut, lay_out
from support.pip_index import build_wheel

pytestmark = pytest.mark.conda

ODD = PackageSpec(name="_lib.x_y", version="1!2.0", build="h_0", files={"share/odd": b"for linux"})
ODD_WIN = PackageSpec(name="_lib.x_y", version="1!2.0", build="w_0", subdir="win-64", files={"share/odd": b"for win"})
OLD = PackageSpec(name="old", version="1.0", format="tar.bz2", md5_only=True, files={"share/old": b"1.0"})
OLD_WIN = PackageSpec(name="old", version="0.9", subdir="win-64", format="tar.bz2", files={"share/old": b"0.9"})
PURE = PackageSpec(name="pure", version="2.0", subdir="noarch", depends=("old", "_lib.x_y"), files={"share/pure": b"2"})
BOTH = {"linux-64": [ODD, OLD, PURE], "win-64": [ODD_WIN, OLD_WIN, PURE]}
INSTALLED = {
    "linux-64": {"odd": "for linux", "old": "1.0", "pure": "2"},
    "win-64": {"odd": "for win", "old": "0.9", "pure": "2"},
}
BLANK, ODDEST = "my bundle", "my b é 自"
"""Folders for a bundle."""


def installed(prefix: Path) -> Mapping[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in (prefix / "share").iterdir()}


@pytest.mark.parametrize("platform", sorted(BOTH))
def test_a_list_of_one_platform_makes_what_was_solved_for_it(
    test_conda: TestConda, tmp_path: Path, platform: str
) -> None:
    """In a folder with a blank in its path; odd names and an epoch, an archive with md5 only."""
    bundle = lay_out(tmp_path / BLANK, conda=BOTH)
    words = ("create", "--offline", "-p", tmp_path / "env", "--file", f"explicit/{platform}.txt")
    done = test_conda.run(*words, cwd=bundle.folder, env={"CONDA_SUBDIR": platform})
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "env") == INSTALLED[platform]


@pytest.mark.parametrize("platform", sorted(BOTH))
def test_the_channel_gives_every_platform_its_own(test_conda: TestConda, tmp_path: Path, platform: str) -> None:
    bundle = lay_out(tmp_path / ODDEST, conda=BOTH)
    words = ("create", "--offline", "--override-channels", "-c", "./channel", "-p", tmp_path / "env", "pure")
    done = test_conda.run(*words, cwd=bundle.folder, env={"CONDA_SUBDIR": platform})
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "env") == INSTALLED[platform]


@pytest.mark.parametrize("platform", sorted(BOTH))
def test_environment_yml_gives_every_platform_its_own(test_conda: TestConda, tmp_path: Path, platform: str) -> None:
    """By what was asked for alone; a channel of the user's condarc that nobody reaches is in nobody's way."""
    bundle = lay_out(tmp_path / ODDEST, conda=BOTH, requested=["pure"])
    test_conda.configure(channels=["http://127.0.0.1:1/never"])
    words = ("env", "create", "--offline", "-p", tmp_path / "env", "--file", "environment.yml")
    done = test_conda.run(*words, cwd=bundle.folder, env={"CONDA_SUBDIR": platform})
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path / "env") == INSTALLED[platform]


def test_where_conda_cannot_read_a_list_is_as_the_readme_says(test_conda: TestConda, tmp_path: Path) -> None:
    """If this fails, conda has learnt to read lists in such folders, and README.txt and lists.py need not warn."""
    bundle = lay_out(tmp_path / ODDEST, conda=BOTH)
    words = ("create", "--offline", "-p", tmp_path / "env", "--file", "explicit/linux-64.txt")
    assert test_conda.run(*words, cwd=bundle.folder).returncode != 0
    assert "ASCII" in bundle.text("README.txt")
    assert "sha256 only" not in bundle.text("README.txt")


def test_a_list_with_sha256_only(test_conda: TestConda, tmp_path: Path) -> None:
    bundle = lay_out(tmp_path / "bundle", conda=BOTH, missing_md5=True)
    assert bundle.text("explicit/linux-64.txt").count("#sha256:") == 3
    assert "conda 24.9 or newer, because some packages have a sha256 only" in " ".join(
        bundle.text("README.txt").split()
    )
    words = ("create", "--offline", "-p", tmp_path / "env", "--file", "explicit/linux-64.txt")
    done = test_conda.run(*words, cwd=bundle.folder)
    assert (done.returncode == 0) == (test_conda.version() >= (24, 9)), done.stderr


def test_what_was_asked_for_is_pinned_as_far_as_platforms_agree(tmp_path: Path) -> None:
    """Another build: the version; another version: the name; one platform only: a comment."""
    only = PackageSpec(name="only-here", version="1.0")
    bundle = lay_out(tmp_path, conda={**BOTH, "linux-64": [*BOTH["linux-64"], only]})
    lines = bundle.text("environment.yml").splitlines()
    assert lines[lines.index("channels:") : lines.index("dependencies:")] == [
        "channels:",
        "  - ./channel",
        "  - nodefaults",
    ]
    assert lines[lines.index("dependencies:") + 1 :] == [
        '  - "_lib.x_y==1!2.0"',
        '  - "old"',
        "  # only-here: only for linux-64, and in its list in explicit/",
        '  - "pure=2.0=0"',
    ]


def test_environment_yml_installs_the_wheels_of_each_platform_with_their_hashes(
    test_conda: TestConda, tmp_path: Path
) -> None:
    """By conda's own run of the real pip: the environment's python here hands on to one that has it."""
    if os.name == "nt":
        pytest.skip("a python that is a shell script is for POSIX only")
    real = venv_with_pip(tmp_path / "venv")
    script = f'#!/bin/sh\nexec "{real}" "$@"\n'.encode()
    pythons = {
        "linux-64": PackageSpec(name="python", version="3.11.9", depends=("pip",), files={"bin/python": script}),
        "win-64": PackageSpec(name="python", version="3.11.9", subdir="win-64", depends=("pip",)),
    }
    pip = PackageSpec(name="pip", version="24.0", subdir="noarch")
    here = build_wheel(tmp_path / "built", "demo.app", "1!2.0+cu101")
    there = build_wheel(tmp_path / "built", "demo.app", "1!1.0")
    common = build_wheel(tmp_path / "built", "common", "1.0")
    bundle = lay_out(
        tmp_path / "my bundle",
        conda={platform: [python, pip] for platform, python in pythons.items()},
        wheels={"linux-64": [here, common], "win-64": [there, common]},
        requested=["python"],
    )
    assert [line.strip() for line in bundle.text("environment.yml").splitlines()[9:13]] == [
        "- pip:",
        "- --no-index",
        "- --find-links ./wheels",
        "- --require-hashes",
    ]
    words = ("env", "create", "--offline", "--file", "environment.yml", "-p")
    wheel = bundle.folder / "wheels" / here.filename
    data = wheel.read_bytes()
    wheel.unlink()  # it is a link to the one that was built
    wheel.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused = test_conda.run(*words, tmp_path / "damaged", cwd=bundle.folder)
    assert refused.returncode != 0
    assert "DO NOT MATCH THE HASHES" in refused.stdout + refused.stderr

    wheel.write_bytes(data)
    done = test_conda.run(*words, tmp_path / "env", cwd=bundle.folder)
    assert done.returncode == 0, done.stdout + done.stderr
    found = {path.name for path in (tmp_path / "venv").rglob("*.dist-info")}
    assert {"demo_app-1!2.0+cu101.dist-info", "common-1.0.dist-info"} <= found
    assert "demo_app-1!1.0.dist-info" not in found


# --------------------------------------------------------------------------- the text itself


def test_records_are_the_channels_own(tmp_path: Path) -> None:
    """Whatever is in them, and nothing beside: no sha256 for one that has an md5 only, no base_url."""
    strange = PackageSpec(name="strange", version="1.0", record={"license": "Licence 自由", "extra": [1, {"b": None}]})
    bundle = lay_out(tmp_path, conda={"linux-64": [ODD, OLD, PURE, strange], "win-64": [ODD_WIN]})
    for subdir in ("linux-64", "win-64", "noarch"):
        document = json.loads(bundle.text(f"channel/{subdir}/repodata.json"))
        assert document["info"] == {"subdir": subdir}
        assert document["repodata_version"] == 1
        records = {**document["packages"], **document["packages.conda"]}
        assert records == {
            path.rpartition("/")[2]: record
            for path, record in bundle.records.items()
            if path.startswith(f"channel/{subdir}/")
        }
        assert all(name.endswith(".tar.bz2") for name in document["packages"])
        assert all(name.endswith(".conda") for name in document["packages.conda"])
    assert "sha256" not in json.loads(bundle.text("channel/linux-64/repodata.json"))["packages"][OLD.filename]


def test_noarch_is_there_though_nothing_is_in_it(tmp_path: Path) -> None:
    bundle = lay_out(tmp_path, conda={"linux-64": [ODD], "win-64": []})
    assert subdirs(bundle.manifest) == ("linux-64", "noarch")
    document = json.loads(bundle.text("channel/noarch/repodata.json"))
    assert (document["packages"], document["packages.conda"]) == ({}, {})


def test_a_bundle_of_wheels_is_not_a_channel(tmp_path: Path) -> None:
    bundle = lay_out(tmp_path / "bundle", wheels={"linux-64": [build_wheel(tmp_path, "app", "1.0")]})
    assert subdirs(bundle.manifest) == ()
    assert not {"channel", "explicit", "environment.yml"} & {path.name for path in bundle.folder.iterdir()}


def test_what_conda_needs_is_added_where_a_record_lacks_it() -> None:
    package = BundlePackage(
        path="channel/noarch/a-1-b_3.conda",
        kind="conda",
        name="a",
        version="1",
        build="b_3",
        url="",
        size=7,
        sha256="a" * 64,
    )
    manifest = Manifest(created_by="a test", platforms=(), packages=(package,))

    def written(record: Mapping[str, object]) -> object:
        text = b"".join(write_repodata(manifest, "noarch", {package.path: record}))
        return json.loads(text)["packages.conda"]["a-1-b_3.conda"]

    bare = {"name": "a", "version": "1", "build": "b_3", "build_number": 0, "depends": [], "size": 7}
    assert written({}) == {**bare, "sha256": "a" * 64}
    assert written({"md5": "1" * 32, "depends": ["c"]}) == {**bare, "md5": "1" * 32, "depends": ["c"]}


def test_the_same_values_give_the_same_bytes(tmp_path: Path) -> None:
    """Each time, and in whatever order records and their keys came; every line of repodata is one record."""

    def everything(bundle: LaidOut) -> dict[str, bytes]:
        return {
            path.relative_to(bundle.folder).as_posix(): path.read_bytes()
            for path in bundle.folder.rglob("*")
            if path.is_file()
        }

    turned = {platform: list(reversed(specs)) for platform, specs in reversed(BOTH.items())}
    one, two = lay_out(tmp_path / "one", conda=BOTH), lay_out(tmp_path / "two", conda=turned)
    assert everything(one) == everything(two)
    backwards = {path: dict(reversed(record.items())) for path, record in reversed(one.records.items())}
    text = b"".join(write_repodata(one.manifest, "linux-64", backwards))
    assert text == (one.folder / "channel/linux-64/repodata.json").read_bytes()
    assert [line.partition(b":")[0] for line in text.splitlines()[2:5]] == [
        b'"old-1.0-0.tar.bz2"',
        b'"packages.conda"',
        b'"_lib.x_y-1!2.0-h_0.conda"',
    ]

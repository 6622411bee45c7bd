"""The made channels are real: other programs' decoders read them, and their digests are those of the bytes."""

from __future__ import annotations

import hashlib
import json
import tarfile

import pytest
import zstandard
from rattler.package_streaming import extract

from resume_dl.demo.channel import PackageSpec, build_channel, pytorch_like


@pytest.mark.parametrize("archive_format", ["conda", "tar.bz2"])
def test_archives_extract_to_what_their_paths_say(tmp_path, archive_format):
    """rattler extracts both formats; every file has the digest and size that info/paths.json gives."""
    spec = PackageSpec(
        name="a",
        version="1.0",
        depends=("b >=2",),
        payload_size=2_500_000,
        format=archive_format,
        files={"lib/x.txt": b"x\n"},
    )
    package = build_channel(tmp_path / "channel", [spec]).find("a")
    extract(package.path, tmp_path / "out")
    assert hashlib.sha256(package.path.read_bytes()).hexdigest() == package.sha256
    paths = json.loads((tmp_path / "out/info/paths.json").read_text())["paths"]
    assert {entry["_path"] for entry in paths} == {"bin/a-version", "lib/x.txt", "share/a/payload.bin"}
    for entry in paths:
        data = (tmp_path / "out" / entry["_path"]).read_bytes()
        assert (hashlib.sha256(data).hexdigest(), len(data)) == (entry["sha256"], entry["size_in_bytes"])
    assert (tmp_path / "out/info/files").read_text().split() == [entry["_path"] for entry in paths]
    index = json.loads((tmp_path / "out/info/index.json").read_text())
    assert (index["name"], index["version"], index["depends"]) == ("a", "1.0", ["b >=2"])


def test_the_same_description_gives_the_same_bytes(tmp_path):
    """Archives are deterministic, incompressible, and differ by seed."""
    specs = [PackageSpec(name=name, version="1", payload_size=100_000, format="tar.bz2") for name in "ab"]
    first, second = (build_channel(tmp_path / folder, specs) for folder in ("one", "two"))
    assert [package.sha256 for package in first.packages] == [package.sha256 for package in second.packages]
    assert all(package.size > 100_000 for package in first.packages)
    other = build_channel(tmp_path / "three", [PackageSpec(name="a", version="1", payload_size=100_000, seed=1)])
    assert other.packages[0].sha256 not in {package.sha256 for package in first.packages}


def test_repodata_lists_every_archive_and_can_be_wrong(tmp_path):
    """Records go where the format belongs, md5-only and overridden fields as asked, in each of the four files."""
    specs = [
        PackageSpec(name="new", version="1"),
        PackageSpec(name="old", version="1", format="tar.bz2", md5_only=True),
        PackageSpec(name="wrong", version="1", record={"sha256": "0" * 64}),
        PackageSpec(name="everywhere", version="1", subdir="noarch"),
        PackageSpec(name="windows", version="1", subdir="win-64"),
    ]
    channel = build_channel(tmp_path, specs)
    repodata = json.loads((tmp_path / "linux-64/repodata.json").read_text())
    assert set(repodata["packages.conda"]) == {"new-1-0.conda", "wrong-1-0.conda"}
    old = repodata["packages"]["old-1-0.tar.bz2"]
    data = (tmp_path / "linux-64/old-1-0.tar.bz2").read_bytes()
    assert (old["md5"], old["size"], "sha256" in old) == (hashlib.md5(data).hexdigest(), len(data), False)
    assert repodata["packages.conda"]["wrong-1-0.conda"]["sha256"] == "0" * 64
    assert channel.find("wrong").sha256 != "0" * 64
    noarch = json.loads((tmp_path / "noarch/current_repodata.json").read_text())["packages.conda"]
    assert noarch["everywhere-1-0.conda"]["noarch"] == "generic"
    assert (tmp_path / "win-64/repodata.json").exists()
    packed = (tmp_path / "linux-64/repodata.json.zst").read_bytes()
    assert json.loads(zstandard.ZstdDecompressor().decompress(packed)) == repodata


def test_the_pytorch_channels(tmp_path):
    """Two channels with the real names; both formats, md5-only records, and at least six dependencies."""
    channels = {
        name: build_channel(tmp_path / name, specs) for name, specs in pytorch_like(large=200_000, medium=0).items()
    }
    assert set(channels) == {"pytorch", "pkgs/main"}
    torch = channels["pytorch"].find("pytorch", "1.7.1")
    names = {package.spec.name for package in channels["pkgs/main"].packages}
    assert {depend.split()[0] for depend in torch.spec.depends} <= names
    assert len(torch.spec.depends) >= 6
    assert {"pip", "setuptools", "wheel"} <= names
    everything = [package for channel in channels.values() for package in channel.packages]
    assert {package.spec.format for package in everything} == {"conda", "tar.bz2"}
    assert any("sha256" not in package.record for package in everything)
    with tarfile.open(channels["pkgs/main"].find("python").path) as archive:
        assert "bin/python-version" in archive.getnames()

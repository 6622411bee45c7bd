"""Packages with hostile members in a bundle whose lists fit them: what reaches outside is never written."""

from __future__ import annotations

import bz2
import hashlib
import io
import tarfile
import venv
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard

from resume_dl.demo.channel import BuiltPackage, PackageSpec, build_channel
from resume_dl.offline_tools.verification.check import check
from support.conda_env import TestConda
from support.installable import Target, is_linux, lay_bundle

pytestmark = [pytest.mark.conda, pytest.mark.skipif(not is_linux(), reason="conda is behind a script for sh")]
MEMBERS = ("parents", "absolute", "through a link", "links of links", "hard link", "pipe", "sparse")


def hostile(name: str, kind: bytes, content: bytes | str = b"", *, sparse: int = 0) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.type = kind
    if isinstance(content, str):
        member.linkname, content = content, b""
    member.size = len(content)
    if sparse:  # GNU's way since 2005 (tar's manual, "PAX Format, Version 1.0"): no byte of it is stored
        member.pax_headers = {"GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.size": str(sparse),
                              "GNU.sparse.numblocks": "1", "GNU.sparse.map": f"{sparse},0"}  # fmt: skip
    return member, content


def members(which: str, outside: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    """What is added to an honest package; ``outside`` is a folder with a file ``mine``."""
    evil = b"evil"
    return {
        "parents": [hostile("../" * 20 + str(outside / "evil").lstrip("/"), tarfile.REGTYPE, evil)],
        "absolute": [hostile(str(outside / "evil"), tarfile.REGTYPE, evil)],
        "through a link": [
            hostile("share/out", tarfile.SYMTYPE, str(outside)),
            hostile("share/out/evil", tarfile.REGTYPE, evil),
        ],
        "links of links": [  # each leads into the package as it is written, and both together lead above it
            hostile("share/up", tarfile.SYMTYPE, ".."),
            hostile("share/over", tarfile.SYMTYPE, "up/.."),
            hostile("share/over/evil", tarfile.REGTYPE, evil),
        ],
        "hard link": [
            hostile("share/mine", tarfile.LNKTYPE, str(outside / "mine")),
            hostile("share/mine", tarfile.REGTYPE, evil),
        ],
        "pipe": [hostile("share/pipe", tarfile.FIFOTYPE)],
        "sparse": [hostile("share/huge", tarfile.REGTYPE, sparse=1 << 50)],
    }[which]


def with_members(built: BuiltPackage, added: list[tuple[tarfile.TarInfo, bytes]], folder: Path) -> BuiltPackage:
    """The package with these at the end of its files; its digests are those of what it is now."""
    path = folder / built.filename
    if built.filename.endswith(".tar.bz2"):
        path.write_bytes(bz2.compress(extended(bz2.decompress(built.path.read_bytes()), added)))
    else:
        with zipfile.ZipFile(built.path) as old, zipfile.ZipFile(path, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name.startswith("pkg-"):
                    plain = zstandard.ZstdDecompressor().decompressobj().decompress(data)
                    data = zstandard.ZstdCompressor().compress(extended(plain, added))
                new.writestr(name, data)
    data = path.read_bytes()
    digests = {"md5": hashlib.md5(data).hexdigest(), "sha256": hashlib.sha256(data).hexdigest()}
    return replace(built, path=path, size=len(data), **digests)


def extended(plain: bytes, added: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(plain)) as old, tarfile.open(fileobj=file, mode="w") as new:
        for member in old:
            new.addfile(member, old.extractfile(member))
        for member, content in added:
            new.addfile(member, io.BytesIO(content))
    return file.getvalue()


@pytest.mark.parametrize("form", ["conda", "tar.bz2"])
@pytest.mark.parametrize("which", MEMBERS)
def test_nothing_outside_is_written(test_conda: TestConda, tmp_path: Path, which: str, form: str) -> None:
    target, outside = Target(test_conda), tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_bytes(b"mine")
    spec = PackageSpec(name="letters", version="1.0", format=form, files={"share/letters/a.txt": b"a"})
    (built,) = build_channel(tmp_path / "channel", [spec]).packages
    lay_bundle(tmp_path / "bundle", [with_members(built, members(which, outside), tmp_path)])
    done = target.install(tmp_path / "bundle", "-n", "lab")
    assert sorted(path.name for path in outside.iterdir()) == ["mine"]
    assert (outside / "mine").read_bytes() == b"mine"
    assert done.returncode == 4, done.stderr
    assert f"{built.filename}: its " in done.stderr
    assert target.calls == []
    assert not (target.conda.folder / "envs" / "lab").exists()


def test_condas_python_looks_where_this_one_cannot(test_conda: TestConda, tmp_path: Path) -> None:
    """A Python without zstandard lets that of conda do it, before anything is started."""
    target, outside = Target(test_conda), tmp_path / "outside"
    outside.mkdir()
    (built,) = build_channel(tmp_path / "channel", [PackageSpec(name="letters", version="1.0")]).packages
    lay_bundle(tmp_path / "honest", [built])
    lay_bundle(tmp_path / "hostile", [with_members(built, members("absolute", outside), tmp_path)])
    bare = tmp_path / "bare"
    venv.create(bare, symlinks=True)
    for name, code in (("hostile", 4), ("honest", 0)):
        done = target.run(bare / "bin" / "python", tmp_path / name / "install.py", "-n", "lab")
        assert done.returncode == code, done.stderr
        assert "1 .conda package not inspected" in done.stderr
        assert "inspecting them with " in done.stderr
    assert not [*outside.iterdir()]


def test_trust_in_a_bundle_covers_its_packages(tmp_path: Path) -> None:
    """With the digest that was told by another way nothing is unpacked for a look, but with --deep."""
    (tmp_path / "outside").mkdir()
    spec = PackageSpec(name="letters", version="1.0", format="tar.bz2")
    (built,) = build_channel(tmp_path / "channel", [spec]).packages
    added = members("absolute", tmp_path / "outside")
    digest = lay_bundle(tmp_path / "bundle", [with_members(built, added, tmp_path)])
    assert [each.what for each in check(tmp_path / "bundle").problems] == ["unsafe"]
    assert check(tmp_path / "bundle", manifest_sha256=digest).problems == []
    deep = check(tmp_path / "bundle", manifest_sha256=digest, deep=True)
    assert [each.what for each in deep.problems] == ["unsafe"]

"""What `bundle create` refuses before anything is downloaded, because it would fail or do harm after it."""

from __future__ import annotations

import shutil
import subprocess
import tarfile

import pytest

from resume_dl.bundle_creation.generated import SCRIPTS
from resume_dl.store.part import FOLDER
from support.bundles import BOTH, LINUX, files_of, manifest, sums_hold
from support.offline_scripts import archive

LINUX_64 = ("--platform", "linux-64")


def test_another_python_than_condas(maker):
    """Wheels for one Python beside the packages of another would be installed by nobody; the same one is no matter."""
    asked = ("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--pip", "demo-app")
    done = maker.create(*asked, "--python", "3.9")
    assert done.code == 2, done.err
    assert "conda packages include Python 3.8 for linux-64, but --python requests 3.9" in done.err
    assert not maker.out.exists()
    assert maker.create(*asked, "--python", "3.8").code == 0
    assert manifest(maker.out)["platforms"]["linux-64"]["python"] == "3.8.5"


def test_a_foreign_file(maker):
    """It is not written over; a bundle's tar is, by a newer one."""
    tar = maker.folder / "photos.tar"
    (maker.folder / "manifest.json").write_text('{"kind": "image"}')
    with tarfile.open(maker.folder / "image.tar", "w") as image:
        image.add(maker.folder / "manifest.json", "manifest.json")
    for content in (b"not ours" * 1000, (maker.folder / "image.tar").read_bytes()):
        tar.write_bytes(content)
        done = maker.create("mkl", "--platform", "linux-64", out=tar)
        assert done.code == 2, done.err
        assert "exists and is not a bundle" in done.err
        assert tar.read_bytes() == content
        tar.unlink()
    for spec in ("mkl", "blas"):
        done = maker.create(spec, "--platform", "linux-64", out=tar)
        assert done.code == 0, done.err
    with tarfile.open(tar) as made:
        assert "channel/linux-64/blas-1.0-mkl.tar.bz2" in made.getnames()


def test_a_folder_with_unfinished_files_of_others(maker):
    """A package cache, or a folder of fetch, has a .resume-dl too: that makes no bundle of it."""
    place = maker.folder / "pkgs of somebody"
    (place / FOLDER).mkdir(parents=True)
    (place / FOLDER / "sha256-00.part").write_bytes(b"half")
    (place / "wheels").mkdir()
    (place / "wheels" / "mine.txt").write_text("mine")
    done = maker.create("mkl", "--platform", "linux-64", out=place)
    assert done.code == 2, done.err
    assert "is not empty, and not a bundle" in done.err
    assert sorted(path.name for path in place.rglob("*") if path.is_file()) == ["mine.txt", "sha256-00.part"]


def test_no_room_for_the_tar(maker, world):
    """What is downloaded would fit, and the tar beside it would not: said before the first byte, with the sum."""
    place = maker.folder / "small disk"
    place.mkdir()
    room, texts = world.size(LINUX) * 3 // 2, bytes(sum(len(archive(name)) for name in SCRIPTS))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room + len(texts)}", "tmpfs", place]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a disk can be mounted by root only")
    try:
        asked = ("pytorch", "--platform", "linux-64", "--cuda", "11.0")
        (place / "texts").write_bytes(texts)  # what the scripts take, whose size is in no estimate
        done = maker.create(*asked, out=place / "all.tar")
        assert done.code == 5, done.err
        assert "in the tar), but only" in done.err
        assert not (place / "all.tar").exists()
        (place / "texts").unlink()
        assert maker.create(*asked, out=place / "all").code == 0
    finally:
        subprocess.run(["umount", place], check=True, timeout=120)


def test_a_missing_key(maker):
    """Neither is anything fetched for a signature that nobody can make."""
    done = maker.create("mkl", *BOTH, "--sign", maker.folder / "no key")
    assert done.code == 2, done.err
    assert not maker.out.exists()


def test_links_of_an_older_bundle(maker):
    """A folder that is a link to somewhere else is taken away, and what it leads to is left alone."""
    assert maker.create("mkl", "--platform", "linux-64").code == 0
    elsewhere = maker.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    (maker.out / "channel" / "osx-64").symlink_to(elsewhere)
    assert maker.create("mkl", "--platform", "linux-64").code == 0
    assert not (maker.out / "channel" / "osx-64").is_symlink()
    assert (elsewhere / "mine.txt").read_text() == "mine"


def test_two_files_of_one_name(maker):
    """What can be done names options that bundle create has."""
    base, lists = maker.index.replace("/simple/", ""), []
    for number, channel in enumerate(("pkgs/main", "other/main")):
        lists.append(maker.folder / f"list{number}.txt")
        address = f"{base}/{channel}/linux-64/mkl-2020.2-256.conda"
        lists[-1].write_text(f"# platform: linux-64\n@EXPLICIT\n{address}#{str(number) * 32}\n")
    done = maker.create("--file", lists[0], "--file", lists[1])
    assert done.code == 2, done.err
    assert "one folder cannot hold both" in done.err
    assert "make a bundle of each" in done.err
    assert "--dest" not in done.err


@pytest.mark.parametrize("name", ["t.tar.001", "t.tar.parts.json", "join.py"])
def test_parts_in_the_way(maker, name):
    """Files of somebody else are seen before anything is downloaded; parts of an earlier bundle are replaced."""
    tar = maker.folder / "own" / "t.tar"
    tar.parent.mkdir()
    (tar.parent / name).write_bytes(b"mine")
    done = maker.create("mkl", *LINUX_64, "--split", "1MB", out=tar)
    assert done.code == 5, done.err
    assert f"{name} exists already, and is not from an earlier split" in done.err
    assert files_of(tar.parent) == {name: b"mine"}
    assert maker.nginx.archive_requests() == []
    (tar.parent / name).unlink()
    for spec in ("mkl", "blas"):
        done = maker.create(spec, *LINUX_64, "--split", "1MB", out=tar)
        assert done.code == 0, done.err


def test_foreign_files_in_a_bundles_folders(maker):
    """They cannot stay, as a bundle with other files is refused; they are named, and what was the bundle's is not."""
    asked = ("mkl", "--pip", "tqdm", "--python", "3.8", *LINUX_64)
    assert maker.create(*asked).code == 0
    for number in range(7):
        (maker.out / "wheels" / f"mine{number}.txt").write_text("mine")
    done = maker.create("blas", *LINUX_64)
    assert done.code == 0, done.err
    told = [line for line in done.err.splitlines() if "removed: " in line]
    assert len(told) == 6
    assert all(
        f"wheels/mine{number}.txt, which was not part of the previous bundle" in told[number] for number in range(5)
    )
    assert "removed: 2 more such files" in told[5]
    assert not (maker.out / "wheels").exists()
    assert sums_hold(maker.out)
    done = maker.create(*asked)
    assert done.code == 0, done.err
    assert "removed: " not in done.err
    assert "unpacked" not in done.err


@pytest.mark.parametrize("name", ["inner", "wheels/inner", "inner.tar"])
def test_a_bundle_inside_of_a_bundle(maker, name):
    """Neither would be whole: the outer one has files then that are not its own."""
    assert maker.create("mkl", *LINUX_64).code == 0
    before = files_of(maker.out)
    done = maker.create("blas", *LINUX_64, out=maker.out / name)
    assert done.code == 2, done.err
    assert f"would be inside the bundle {maker.out}" in done.err
    assert files_of(maker.out) == before

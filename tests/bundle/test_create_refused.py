"""What `bundle create` refuses before anything is downloaded, because it would fail or do harm after it."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from resume_dl.store.part import FOLDER
from support.bundles import BOTH, LINUX, manifest


def test_another_python_than_condas(maker):
    """Wheels for one Python beside the packages of another would be installed by nobody; the same one is no matter."""
    asked = ("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--pip", "demo-app")
    done = maker.create(*asked, "--python", "3.9")
    assert done.code == 2, done.err
    assert "conda packages bring Python 3.8 for linux-64, and --python asks for 3.9" in done.err
    assert not maker.out.exists()
    assert maker.create(*asked, "--python", "3.8").code == 0
    assert manifest(maker.out)["platforms"]["linux-64"]["python"] == "3.8.5"


def test_a_file_of_somebody_else(maker):
    """It is not written over; a bundle's tar is, by a newer one."""
    tar = maker.folder / "photos.tar"
    tar.write_bytes(b"not ours" * 1000)
    done = maker.create("mkl", "--platform", "linux-64", out=tar)
    assert done.code == 2, done.err
    assert "is there, and no bundle" in done.err
    assert tar.read_bytes() == b"not ours" * 1000
    tar.unlink()
    for spec in ("mkl", "blas"):
        done = maker.create(spec, "--platform", "linux-64", out=tar)
        assert done.code == 0, done.err
    shown = subprocess.run(["tar", "-tf", tar], check=True, capture_output=True, text=True, timeout=60).stdout
    assert "channel/linux-64/blas-1.0-mkl.tar.bz2" in shown.splitlines()


def test_a_folder_with_unfinished_files_of_others(maker):
    """A package cache, or a folder of fetch, has a .resume-dl too: that makes no bundle of it."""
    place = maker.folder / "pkgs of somebody"
    (place / FOLDER).mkdir(parents=True)
    (place / FOLDER / "sha256-00.part").write_bytes(b"half")
    (place / "wheels").mkdir()
    (place / "wheels" / "mine.txt").write_text("mine")
    done = maker.create("mkl", "--platform", "linux-64", out=place)
    assert done.code == 2, done.err
    assert "is not empty, and no bundle" in done.err
    assert sorted(path.name for path in place.rglob("*") if path.is_file()) == ["mine.txt", "sha256-00.part"]


def test_no_room_for_the_tar(maker, world):
    """What is downloaded would fit, and the tar beside it would not: said before the first byte, with the sum."""
    place = maker.folder / "small disk"
    place.mkdir()
    room = world.size(LINUX) * 3 // 2
    mount = ["mount", "-t", "tmpfs", "-o", f"size={room}", "tmpfs", place]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a disk can be mounted by root only")
    try:
        asked = ("pytorch", "--platform", "linux-64", "--cuda", "11.0")
        done = maker.create(*asked, out=place / "all.tar")
        assert done.code == 5, done.err
        assert "in the tar), but only" in done.err
        assert not (place / "all.tar").exists()
        assert maker.create(*asked, out=place / "all").code == 0
    finally:
        subprocess.run(["umount", place], check=True, timeout=30)


def test_a_key_that_is_not_there(maker):
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

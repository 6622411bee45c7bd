"""``bundle create`` takes what is on this machine already: without a second copy, and never without hashing it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from resume_dl.bundle_creation.generated import SCRIPTS
from support.bundles import FAST, LINUX, Maker, archives_of, files_of, sums_hold, tree
from support.offline_scripts import archive

pytestmark = pytest.mark.nginx
WANTED = ("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--pip", "fast")
MKL = "channel/linux-64/mkl-2020.2-256.conda"


@pytest.fixture(scope="module")
def fetched(servers, tmp_path_factory):
    """Where a maker has fetched everything; nobody may change it."""
    maker = Maker(tmp_path_factory.mktemp("fetched"), servers)
    done = maker.fetch(*WANTED, "--index-url", maker.index, "--python", "3.8")
    assert done.code == 0, done.err
    return maker.folder


@pytest.fixture
def has_all(servers, fetched, tmp_path):
    """A maker with everything in conda's cache and our wheel dir."""
    shutil.copytree(fetched, tmp_path / "maker", symlinks=True)
    servers.reset_log()
    return Maker(tmp_path / "maker", servers)


def source_of(maker, path):
    folder = maker.own["cache"] / "wheels" if path.startswith("wheels/") else maker.pkgs
    return folder / path.rpartition("/")[2]


def test_hard_links(has_all):
    """Nothing is asked for, and nothing takes room twice."""
    done = has_all.create(*WANTED, "--json")
    assert done.code == 0, done.err
    assert archives_of(has_all.out) == {*LINUX, FAST["linux-64"]}
    assert {*done.statuses.values()} == {"cached"}
    assert has_all.nginx.body_bytes() == 0
    for path in archives_of(has_all.out):
        assert (has_all.out / path).stat().st_ino == source_of(has_all, path).stat().st_ino, path
    assert sums_hold(has_all.out)


@pytest.mark.parametrize("path", [MKL, FAST["linux-64"]])
def test_damaged_ones(world, has_all, path):
    """One flipped byte, of the right size: it is fetched, and the cache's file is left alone."""
    source = source_of(has_all, path)
    content = bytearray(source.read_bytes())
    content[len(content) // 2] ^= 1
    source.write_bytes(content)
    done = has_all.create(*WANTED)
    assert done.code == 0, done.err
    assert has_all.nginx.body_bytes() == len(content)
    assert (has_all.out / path).read_bytes() == world.bytes[path]
    assert source.read_bytes() == content
    assert sums_hold(has_all.out)


def test_links_are_followed(has_all):
    """A symbolic link in the cache is no file of a bundle; what it leads to is."""
    if sys.platform == "win32":
        pytest.skip("symbolic links want a privilege")
    source = source_of(has_all, MKL)
    kept = source.rename(has_all.folder / "elsewhere.conda")
    source.symlink_to(kept)
    assert has_all.create(*WANTED).code == 0
    assert not (has_all.out / MKL).is_symlink()
    assert (has_all.out / MKL).stat().st_ino == kept.stat().st_ino
    source.unlink()
    source.symlink_to(has_all.folder / "nowhere")
    assert has_all.create(*WANTED, out=has_all.folder / "again").code == 0


def test_another_file_system(has_all):
    """Copies, and no download."""
    memory = Path("/dev/shm").absolute()  # of the drive of these tests, not of the folder that the command runs in
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == has_all.folder.stat().st_dev:
        pytest.skip("there is no second file system that can be written")
    place = Path(tempfile.mkdtemp(dir=memory))
    try:
        done = has_all.create(*WANTED, out=place / "out")
        assert done.code == 0, done.err
        assert has_all.nginx.body_bytes() == 0
        assert archives_of(place / "out") == {*LINUX, FAST["linux-64"]}
        assert sums_hold(place / "out")
        assert not any(".resume-dl" in path for path in files_of(place / "out"))
    finally:
        shutil.rmtree(place)


def test_a_full_disk(has_all):
    """5 before anything is downloaded, with the option that chooses another one; what fits is made."""
    place = has_all.folder / "small disk"
    place.mkdir()
    texts = bytes(sum(len(archive(name)) for name in SCRIPTS))
    mount = ["mount", "-t", "tmpfs", "-o", f"size={300_000 + len(texts)}", "tmpfs", place]
    if shutil.which("mount") is None or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("a disk can be mounted by root only")
    try:
        for path in has_all.pkgs.glob("pytorch*.conda"):
            path.unlink()
        (place / "texts").write_bytes(texts)  # what the scripts take, whose size is in no estimate
        done = has_all.create(*WANTED, out=place / "out")
        assert done.code == 5, done.err
        assert "are free" in done.err
        assert "with -o" in done.err
        assert has_all.nginx.body_bytes() == 0
        shutil.rmtree(place / "out")
        (place / "texts").unlink()
        assert has_all.create("mkl", "--platform", "linux-64", out=place / "fits").code == 0
        assert sums_hold(place / "fits")
    finally:
        subprocess.run(["umount", place], check=True, timeout=120)


def test_caches_stay_as_they_are(has_all):
    """Neither the making nor the removing of a bundle touches them, a later one for something else neither."""
    before = {folder: tree(folder) for folder in (has_all.pkgs, has_all.own["cache"] / "wheels")}
    assert has_all.create(*WANTED).code == 0
    assert has_all.create("mkl", "--platform", "linux-64").code == 0
    shutil.rmtree(has_all.out)
    assert {folder: tree(folder) for folder in before} == before


def test_as_a_tar(has_all):
    """Put together from links, which leave nothing behind."""
    tar = has_all.folder / "out.tar"
    assert has_all.create(*WANTED, out=tar).code == 0
    assert has_all.nginx.body_bytes() == 0
    assert has_all.run("bundle", "verify", tar).code == 0
    assert source_of(has_all, MKL).stat().st_nlink == 1
    assert [path.name for path in has_all.folder.iterdir() if path.name.startswith("out")] == ["out.tar"]

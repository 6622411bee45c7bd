"""``bundle create -o X.tar``: the same bytes whoever makes it, wherever and however; and in parts."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from support.bundles import BOTH, LINUX, PLATFORMS, WINDOWS, Maker, files_of, manifest
from support.pip_index import build_sdist, build_wheel, write_find_links, write_index

pytestmark = pytest.mark.nginx
WANTED = ("pytorch", *BOTH, "--cuda", "11.0", "--pip", "demo-app")


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def maker(servers, tmp_path):
    """One that asks the servers that the tar was made from: the index is named in a bundle."""
    return Maker(tmp_path / "maker", servers)


@pytest.fixture(scope="module")
def tar(servers, tmp_path_factory):
    """One that was made in the usual way; nobody may change it."""
    maker = Maker(tmp_path_factory.mktemp("usual"), servers)
    done = maker.create(*WANTED, out=maker.folder / "usual.tar", env={"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1"})
    assert done.code == 0, done.err
    return maker.folder / "usual.tar"


@pytest.mark.skipif(sys.platform == "win32", reason="umask and locales")
def test_byte_for_byte(world, maker, tar, tmp_path):
    """Another name, folder, umask, locale, hash seed, machine and order of mirrors; a cold cache and a warm one."""
    other = Maker(tmp_path / "somebody else", maker.nginx)
    other.options = ["--give-up-after", "20s"]
    other.mirrors(last=maker.nginx.base(1), first=maker.nginx.base(0))
    env = {"LC_ALL": "C", "LANG": "C", "PYTHONHASHSEED": "7", "PYTHONUTF8": "", "TZ": "Asia/Tokyo"}
    elsewhere = other.folder / "deep er" / "ünd deeper"
    elsewhere.mkdir(parents=True)
    again = other.create_in(elsewhere, *WANTED, "-o", "another-name.tar", env=env, umask=0o077)
    assert again.returncode == 0, again.stderr
    assert sha256(elsewhere / "another-name.tar") == sha256(tar)

    for platform in PLATFORMS:
        at_hand = ("pytorch", "--cuda", "11.0", "--pip", "demo-app", "--index-url", maker.index, "--python", "3.8")
        fetched = maker.fetch(*at_hand, "--platform", platform)
        assert fetched.code == 0, fetched.err
    maker.nginx.reset_log()
    warm = maker.create(*WANTED, out=maker.folder / "warm.tar")
    assert warm.code == 0, warm.err
    # a cache has one name once: what both platforms have is there for the last one only
    windows = {path.rpartition("/")[2] for path in WINDOWS}
    twice = {path for path in LINUX - WINDOWS if path.rpartition("/")[2] in windows}
    assert maker.nginx.body_bytes() == world.size(twice)
    assert sha256(maker.folder / "warm.tar") == sha256(tar)

    assert maker.create(*WANTED).code == 0  # the folder is of the same files, and its verify.py takes the tar for whole
    with tarfile.open(tar) as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive}
    assert members == files_of(maker.out)
    assert manifest(maker.out)["request"]["files"] == []
    command = [sys.executable, maker.out / "verify.py", tar]
    checked = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stderr


def test_of_what_is_asked(maker, tar):
    """Platforms in another order, and options that change nothing."""
    same = ("pytorch", "--pip", "demo-app", "--platform", "win-64", "--platform", "linux-64", "--cuda", "11.0")
    assert maker.create(*same, "--connections", "1", out=maker.folder / "same.tar").code == 0
    assert sha256(maker.folder / "same.tar") == sha256(tar)


def test_source_date_epoch(maker, tar):
    """The members' time, and nothing else but what the SBOM says of it; a wrong one is refused first."""
    dated = maker.folder / "dated.tar"
    assert maker.create(*WANTED, out=dated, env={"SOURCE_DATE_EPOCH": "1600000000"}).code == 0
    with tarfile.open(dated) as archive:
        assert {member.mtime for member in archive} == {1600000000}
    with tarfile.open(tar) as archive:
        assert {(member.mtime, member.mode, member.uid, member.gid, member.uname) for member in archive} == {
            (315532800, 0o644, 0, 0, "")
        }
    maker.nginx.reset_log()
    wrong = maker.create(*WANTED, out=maker.folder / "wrong.tar", env={"SOURCE_DATE_EPOCH": "yesterday"})
    assert wrong.code == 2, wrong.err
    assert "SOURCE_DATE_EPOCH" in wrong.err
    assert maker.nginx.requests() == []


def test_parts(maker, tar):
    """Joined they are the same tar, by join.py and by ``bundle join``; a smaller bundle's parts replace them."""
    folder = maker.folder / "stick"
    folder.mkdir()
    done = maker.create(*WANTED, "--split", "200KiB", "--json", out=folder / "usual.tar")
    assert done.code == 0, done.err
    parts = done.report["bundle"]["parts"]
    assert len(parts) == -(-tar.stat().st_size // (200 * 1024))
    assert {path.name for path in folder.iterdir()} == {
        *(Path(path).name for path in parts), "join.py", "usual.tar.parts.json"
    }  # fmt: skip
    joined = subprocess.run(
        [sys.executable, folder / "join.py"], cwd=folder, check=False, capture_output=True, text=True, timeout=60
    )
    assert joined.returncode == 0, joined.stderr
    assert sha256(folder / "usual.tar") == sha256(tar)
    (folder / "usual.tar").unlink()
    by_us = maker.run("bundle", "join", folder)
    assert by_us.code == 0, by_us.err
    assert sha256(folder / "usual.tar") == sha256(tar)
    (folder / "usual.tar").unlink()
    fewer = maker.create("mkl", *BOTH, "--split", "200KiB", "--json", out=folder / "usual.tar")
    assert fewer.code == 0, fewer.err
    assert {path.name for path in folder.iterdir()} == {
        *(Path(path).name for path in fewer.report["bundle"]["parts"]), "join.py", "usual.tar.parts.json"
    }  # fmt: skip


def test_of_a_wheel_without_a_hash(world, maker, tmp_path):
    """The first time its RECORD vouches for it, later its pin: it is one and the same bundle."""
    wheel = build_wheel(tmp_path / "built", "bare", "1.0+cu110", filler=50_000)
    write_find_links(tmp_path / "links", [wheel])
    sdist = build_sdist(tmp_path / "built", "source", "1.0")
    write_index(tmp_path / "links", [sdist])
    place = tmp_path / "links" / "whl" / "torch_stable.html"
    wanted = ("--pip", "bare", "--pip", "source", "--allow-sdist", "--python", "3.8", *BOTH)
    wanted += ("--find-links", place.as_uri(), "--extra-index-url", (tmp_path / "links" / "simple").as_uri())
    found = []
    for name in ("first.tar", "second.tar"):
        done = maker.create(*wanted, "--json", out=maker.folder / name)
        assert done.code == 0, done.err
        assert done.artifact("bare")["sha256"] == wheel.sha256
        found.append(sha256(maker.folder / name))
    assert found[0] == found[1]
    assert maker.run("bundle", "verify", maker.folder / "first.tar").code == 0


def test_the_order_of_members(tar):
    """Manifest and sums come first."""
    with tarfile.open(tar) as archive:
        names = archive.getnames()
    assert names[:2] == ["manifest.json", "SHA256SUMS"]
    assert names[2:] == sorted(names[2:])

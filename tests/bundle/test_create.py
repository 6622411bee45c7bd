"""``bundle create`` as a user runs it: what a bundle for two platforms holds, and what is said of it."""

from __future__ import annotations

import hashlib
import json
import sys

import pytest

from resume_dl.store.part import FOLDER
from support.bundles import (
    BOTH,
    COLORAMA,
    COMMON,
    FAST,
    LINUX,
    WINDOWS,
    Maker,
    archives_of,
    build_world,
    by_path,
    files_of,
    manifest,
    sums_hold,
    tree,
)

pytestmark = pytest.mark.nginx
LINUX_64 = ("--platform", "linux-64")
WANTED = ("pytorch", *BOTH, "--cuda", "11.0", "--pip", "demo-app")


def test_two_platforms(world, maker):
    """conda and pip, one noarch, one file name with other bytes; CUDA is the target's, colorama for Windows alone."""
    done = maker.create(*WANTED, "--json")
    assert done.code == 0, done.err
    assert archives_of(maker.out) == LINUX | WINDOWS | COMMON | {*FAST.values(), COLORAMA}
    files, contents = files_of(maker.out), world.bytes
    assert all(files[path] == contents[path] for path in archives_of(maker.out))
    assert files["channel/linux-64/mkl-2020.2-256.conda"] != files["channel/win-64/mkl-2020.2-256.conda"]
    assert not any(FOLDER in path for path in files)
    assert sums_hold(maker.out)

    said = manifest(maker.out)
    linux, windows = said["platforms"]["linux-64"], said["platforms"]["win-64"]
    assert (linux["python"], windows["python"]) == ("3.8.5", "3.8.5")
    assert "__cuda=11.0=0" in linux["virtual_packages"]
    assert ({*linux["conda"]}, {*windows["conda"]}) == (LINUX, WINDOWS)
    assert {*linux["pip"]} == {*COMMON, FAST["linux-64"]}
    assert {*windows["pip"]} == {*COMMON, FAST["win-64"], COLORAMA}
    assert said["request"]["specs"] == ["pytorch"]

    packages = by_path(maker.out)
    blas = packages["channel/linux-64/blas-1.0-mkl.tar.bz2"]  # its record has an md5 only
    built = world.packages[blas["path"]]
    assert (blas["sha256"], blas["md5"], blas["size"]) == (built.sha256, built.md5, built.size)
    assert blas["url"] == "https://repo.anaconda.com/pkgs/main/linux-64/blas-1.0-mkl.tar.bz2"
    assert packages["channel/noarch/typing_extensions-3.7.4.3-py_0.tar.bz2"]["license"] == "PSF-2.0"
    assert packages[COLORAMA]["requested_by"] == ["demo-app"]
    for path in ("channel/linux-64", "channel/win-64", "channel/noarch"):
        record = json.loads(files[f"{path}/repodata.json"])
        for filename, row in {**record["packages"], **record["packages.conda"]}.items():
            assert row == world.packages[f"{path}/{filename}"].record
    assert f"{blas['path']}#{blas['md5']}" in files["explicit/linux-64.txt"].decode()
    assert b"colorama" in files["requirements/win-64.txt"]
    assert b"colorama" not in files["requirements/linux-64.txt"]

    bundle = done.report["bundle"]
    assert bundle["path"] == str(maker.out)
    assert bundle["size"] == sum(map(len, files.values()))
    assert bundle["platforms"] == ["linux-64", "win-64"]
    assert (bundle["left_out"], bundle["parts"], bundle["signed_by"]) == (0, [], None)
    checked = maker.run("bundle", "verify", maker.out, "--manifest-sha256", bundle["manifest_sha256"])
    assert checked.code == 0, checked.err


def test_the_output_of_create(maker):
    """The summary says what is there and what its user needs; --quiet says nothing; lines of JSON are all lines."""
    done = maker.create("mkl", "--platform", "linux-64")
    assert done.code == 0, done.err
    digest = hashlib.sha256((maker.out / "manifest.json").read_bytes()).hexdigest()
    assert f"{maker.out}: 1 package for linux-64, " in done.out
    assert f"manifest sha256: {digest}\n" in done.out
    assert f"python install.py -n NAME --manifest-sha256 {digest}" in done.out
    assert "linux-64 is not this machine" not in done.err  # it may well be of the same platform
    quiet = maker.create("mkl", "--platform", "linux-64", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    events = maker.create("mkl", "--platform", "linux-64", "--progress", "json", "--json")
    assert {"plan", "message"} <= {event["event"] for event in events.events()}
    assert events.report["bundle"]["manifest_sha256"] == digest


def test_dry_run(maker):
    """Nothing is written, neither in a new place nor in a bundle that is there."""
    fresh = maker.create(*WANTED, "--dry-run", "--json")
    assert fresh.code == 0, fresh.err
    assert {path.rpartition("/")[2] for path in LINUX | WINDOWS | COMMON} <= {*fresh.statuses}
    assert {*fresh.statuses.values()} == {"planned"}
    assert fresh.report["bundle"] is None
    assert not maker.out.exists()
    assert not maker.pkgs.exists()
    tar = maker.folder / "out.tar"
    assert maker.create(*WANTED, "--dry-run", out=tar).code == 0
    assert not [path for path in maker.folder.iterdir() if path.name.startswith("out")]

    assert maker.create("mkl", "--platform", "linux-64").code == 0
    before = tree(maker.out)
    again = maker.create("pytorch", "--platform", "linux-64", "--dry-run", "--json")
    assert again.code == 0, again.err
    assert again.statuses["mkl-2020.2-256.conda"] == "cached"
    assert again.statuses["numpy-1.19.2-py38.tar.bz2"] == "planned"
    assert tree(maker.out) == before


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("no-such-package",), 3, "no-such-package"),
        (("mkl", "--pip", "no-such-project"), 3, "no-such-project"),
        (("pytorch=9",), 3, "pytorch"),
        (("mkl", "--split", "1MiB"), 2, "-o NAME.tar"),
        (("mkl", "--split", "lots"), 2, "lots"),
        (("mkl", "--sign", "no-such-key"), 2, "no-such-key"),
        (("mkl", "--target", "no-such-target"), 2, "no-such-target"),
        (("mkl", "--platform", "linux-63"), 2, "linux-63"),
        ((), 2, "nothing to fetch"),
        (("mkl", "--no-deps", "--only-deps"), 2, "--only-deps"),
    ],
)
def test_refused(maker, arguments, code, says):
    """What cannot be is told before anything is written."""
    done = maker.create(*arguments, *BOTH[:2])
    assert done.code == code, done.err
    assert says in done.err
    assert not maker.out.exists()


@pytest.mark.parametrize("name", ["out.tar.gz", "out.zip", "OUT.TGZ"])
def test_nothing_packed(maker, name):
    """A folder of such a name is not what is wanted."""
    done = maker.create("mkl", out=maker.folder / name)
    assert done.code == 2, done.err
    assert "-o NAME.tar" in done.err
    assert not (maker.folder / name).exists()


def test_the_readme_of_a_bundle_for_pip_alone(maker):
    """It tells users who have no conda where -n puts an environment, and -p for any other place; it lists no conda."""
    done = maker.create("--pip", "demo-app", *LINUX_64, "--python", "3.8")
    assert done.code == 0, done.err
    assert manifest(maker.out)["platforms"]["linux-64"]["conda"] == []
    lines = [line.strip() for line in (maker.out / "README.txt").read_text(encoding="utf-8").splitlines()]
    assert {"python install.py -n NAME", "python install.py -p FOLDER"} <= {*lines}
    assert ".virtualenvs" in " ".join(lines)
    assert not [line for line in lines if line.startswith(("conda ", "mamba ", "micromamba "))]


def test_the_output_of_create_for_a_tar(maker):
    """It has to be unpacked into a folder of its own, and parts are to be joined before."""
    done = maker.create("mkl", "--platform", "linux-64", out=maker.folder / "OUT.TAR")
    assert done.code == 0, done.err
    assert (maker.folder / "OUT.TAR").is_file()
    assert "writing" in done.err
    assert "in a new folder, tar -xf OUT.TAR, then python install.py" in done.out
    assert "join.py" not in done.out
    parts = maker.create("mkl", "--platform", "linux-64", "--split", "100KiB", out=maker.folder / "cut.tar")
    assert "cut.tar.parts.json and join.py, and run python join.py; in a new folder, tar -xf cut.tar" in parts.out
    report = maker.create("mkl", "--platform", "linux-64", "--json", out=maker.folder / "OUT.TAR").report
    assert [each["path"] for each in report["artifacts"]] == [None]
    assert report["bundle"]["path"] == str(maker.folder / "OUT.TAR")


def test_an_index_that_is_gone(maker):
    """To be tried again later: 6."""
    for number in range(len(maker.nginx)):
        maker.nginx.change(number, status=503)
    done = maker.create("mkl", "--platform", "linux-64", "--give-up-after", "1s")
    assert done.code == 6, done.err
    assert not maker.out.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="permissions")
def test_no_permission(maker):
    """5, before anything is asked for."""
    closed = maker.folder / "closed"
    closed.mkdir(mode=0o555)
    for out in (closed / "out", closed / "out.tar"):
        done = maker.create("mkl", out=out, as_root=False)
        assert done.code == 5, done.err
        assert str(out) in done.err
        assert "-o" in done.err
    assert maker.nginx.requests() == []


def test_another_users_folder(maker):
    """Refused and untouched, as a folder and as a tar's name."""
    maker.out.mkdir()
    (maker.out / "thesis.txt").write_text("all of it")
    (maker.out / "manifest.json").write_text('{"name": "an app of the web"}')
    before = tree(maker.out)
    for out in (maker.out, maker.out / "thesis.txt"):
        done = maker.create("mkl", "--platform", "linux-64", out=out)
        assert done.code in {2, 5}, done.err
        assert str(out) in done.err
    assert tree(maker.out) == before
    tar = maker.folder / "out.tar"
    tar.mkdir()
    assert maker.create("mkl", out=tar).code == 5
    assert maker.nginx.requests() == []


def test_an_older_bundle(world, maker):
    """What does not belong any more goes, and nothing that is there is fetched again."""
    assert maker.create(*WANTED).code == 0
    older = files_of(maker.out)
    maker.nginx.reset_log()
    done = maker.create("pytorch", "--platform", "linux-64", "--cuda", "none", "--json")
    assert done.code == 0, done.err
    assert maker.nginx.body_bytes() == world.packages["channel/linux-64/pytorch-1.7.1-py3.8_cpu.conda"].size
    fresh = maker.folder / "fresh"
    assert maker.create("pytorch", "--platform", "linux-64", "--cuda", "none", out=fresh).code == 0
    assert files_of(maker.out) == files_of(fresh)
    assert {"pylock.toml", "simple/index.html", "channel/win-64/repodata.json"} <= older.keys() - files_of(fresh).keys()
    assert not [path for path in maker.out.rglob("*") if path.is_dir() and not [*path.iterdir()]]


def test_whole_until_it_begins(maker):
    """A request that comes to nothing leaves the bundle that is there as it is."""
    assert maker.create("mkl", "--platform", "linux-64", "--pip", "tqdm").code == 0
    before = tree(maker.out)
    for arguments in (("no-such-package",), ("mkl", "--pip", "no-such-project"), ("--pip", "no-such-project")):
        none = maker.create(*arguments, "--platform", "linux-64", "--json")
        assert (none.code, none.report["bundle"]) == (3, None)
        assert tree(maker.out) == before
    for number in range(len(maker.nginx)):
        maker.nginx.change(number, status=503)
    assert maker.create("numpy", "--platform", "win-64", "--give-up-after", "1s").code == 6
    assert tree(maker.out) == before
    assert maker.run("bundle", "verify", maker.out).code == 0


def test_an_archive_that_no_source_has(nginx_mirrors, tmp_path):
    """1, no bundle, and what came stays: the same command brings the rest."""
    world = build_world(tmp_path / "world")
    maker = Maker(tmp_path / "maker", nginx_mirrors([world.root]))
    lost = world.packages["channel/linux-64/mkl-2020.2-256.conda"].path
    content = lost.read_bytes()
    lost.unlink()
    done = maker.create("pytorch", "--platform", "linux-64", "--cuda", "11.0", "--give-up-after", "2s", "--json")
    assert done.code == 1, done.err
    assert done.report["bundle"] is None
    assert done.artifact("mkl")["status"] == "failed"
    assert not (maker.out / "manifest.json").exists()
    assert maker.run("bundle", "verify", maker.out).code != 0
    lost.write_bytes(content)
    maker.nginx.reset_log()
    assert maker.create("pytorch", "--platform", "linux-64", "--cuda", "11.0").code == 0
    assert maker.nginx.body_bytes() == len(content)
    assert archives_of(maker.out) == LINUX


def test_the_report_has_every_digest(maker):
    """Of records with an md5 alone the sha256 is known once the file is here."""
    done = maker.create("python", *LINUX_64, "--json")
    assert done.code == 0, done.err
    packages = by_path(maker.out)
    for each in done.report["artifacts"]:
        path = f"channel/{each['subdir']}/{each['filename']}"
        assert each["sha256"] == packages[path]["sha256"]


def test_the_report_of_a_wrong_option(maker):
    """It has the keys of every other report of bundle create."""
    done = maker.create("mkl", "--splitt", "1MB", "--json")
    assert done.code == 2, done.err
    assert (done.report["command"], done.report["bundle"], done.report["ok"]) == ("bundle create", None, False)

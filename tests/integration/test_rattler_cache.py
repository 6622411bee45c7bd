"""``fetch --rattler-cache``: what py-rattler installs from afterwards without asking for an archive, as pixi would.

This environment's py-rattler installs, and that of the Python that ``RESUME_DL_TEST_RATTLER`` names.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from resume_dl.caches.conda.extraction_folders import extraction_folder, sweep
from resume_dl.caches.conda.lookup import is_whole
from resume_dl.caches.conda.record import RECORD
from resume_dl.caches.rattler import find_for_rattler, publish_for_rattler, rattler_folder
from resume_dl.errors import StoreError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.store.part import FOLDER
from support.conda_cache import Offer
from support.fetching import User, finish
from support.killing import kill_at
from support.nginx import NginxMirrors

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks and signals of POSIX")

PYTHONS = [sys.executable, *filter(None, [os.environ.get("RESUME_DL_TEST_RATTLER")])]
INSTALL = """
import asyncio, os, sys
from rattler import Channel, PackageName, SparseRepoData, install

async def main(prefix, *repodata):
    records = []
    for base, subdir, path in zip(repodata[::3], repodata[1::3], repodata[2::3]):
        index = SparseRepoData(Channel(base), subdir, path)
        for name in index.package_names():
            records += index.load_records(PackageName(name))
    wanted = [record for record in records if str(record.version) != "1.7.0"]  # pytorch is there twice
    await install(wanted, target_prefix=prefix, show_progress=False)
    print(len(wanted))

asyncio.run(main(*sys.argv[1:]))
sys.stdout.flush()
os._exit(0)
"""
"""Where the packages are cached is the default that py-rattler finds by itself. Its own threads sometimes crash an
interpreter that shuts down (0.23.2: SIGSEGV after all was installed and printed), so this one ends without that."""


@pytest.fixture
def mirror(offer: Offer, nginx_mirrors) -> NginxMirrors:
    return nginx_mirrors([offer.root])


@pytest.fixture
def at_nginx(tmp_path: Path, mirror: NginxMirrors) -> User:
    user = User(tmp_path / "user")
    user.mirrors(one=mirror.base())
    return user


def install(python: str, user: User, offer: Offer, mirror: NginxMirrors, prefix: Path, **env: str) -> int:
    """Install all that the offer's solve needs, by rattler; how many packages."""
    index: list[str] = []
    for channel in ("pytorch", "pkgs/main"):
        for subdir in ("linux-64", "noarch"):
            index += [f"{mirror.base()}/{channel}", subdir, str(offer.root / channel / subdir / "repodata.json")]
    done = subprocess.run(
        [python, "-c", INSTALL, prefix, *index],
        capture_output=True,
        text=True,
        env=user.environment(env),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def archives(mirror: NginxMirrors) -> Sequence[str]:
    """Names of the archives that were asked for."""
    return [request.uri.rpartition("/")[2] for request in mirror.archive_requests()]


@pytest.mark.parametrize("named", ["default", "variable", "argument"])
@pytest.mark.parametrize("python", PYTHONS)
def test_rattler_installs_without_a_download(at_nginx, offer, mirror, python, named):
    """After fetch rattler asks for no archive; conda's package cache is left alone, and a second fetch does
    nothing."""
    cache = at_nginx.home / ".cache" / "rattler" / "cache" if named == "default" else at_nginx.folder / "cache"
    own = {} if named == "default" else {"RATTLER_CACHE_DIR": str(cache)}
    option = f"--rattler-cache={cache}" if named == "argument" else "--rattler-cache"
    env = own if named == "variable" else {}
    done = at_nginx.fetch("pytorch=1.7", "--json", option, env=env)
    assert done.code == 0, done.err
    paths = {Path(each["path"]) for each in done.report["artifacts"]}
    assert paths == {cache / "pkgs" / package.spec.stem for package in offer.wanted.values()}
    assert not at_nginx.pkgs.exists()
    assert not (cache / "pkgs" / FOLDER).exists()
    mirror.reset_log()
    assert install(python, at_nginx, offer, mirror, at_nginx.folder / "env", **own) == len(offer.wanted)
    assert archives(mirror) == []
    assert (at_nginx.folder / "env" / "share" / "pytorch" / "payload.bin").is_file()
    again = at_nginx.fetch("pytorch=1.7", "--json", option, env=env)
    assert set(again.statuses.values()) == {"cached"}
    assert archives(mirror) == []


def test_without_fetch_rattler_downloads(at_nginx, offer, mirror, tmp_path):
    """What the count is worth: without us each archive is asked for, and a fetch afterwards has little left to do."""
    assert install(sys.executable, at_nginx, offer, mirror, tmp_path / "env") == len(offer.wanted)
    assert sorted(archives(mirror)) == sorted(package.filename for package in offer.wanted.values())
    mirror.reset_log()
    assert at_nginx.fetch("pytorch=1.7", "--json", "--rattler-cache").code == 0
    # rattler notes no md5, so whether these are the right ones cannot be told
    unknown = [package.filename for package in offer.wanted.values() if "sha256" not in package.record]
    assert unknown
    assert sorted(archives(mirror)) == sorted(unknown)


def test_wrong_files_in_the_cache_are_replaced(at_nginx, offer, mirror, tmp_path):
    """A folder that lost a file, one of another build, one without a word of its digest: these, and no others."""
    assert at_nginx.fetch("pytorch=1.7", "--json", "--rattler-cache").code == 0
    cache = at_nginx.home / ".cache" / "rattler" / "cache" / "pkgs"
    lost, other, unsaid = (offer.package(name).spec.stem for name in ("cudatoolkit", "ninja", "numpy"))
    (cache / lost / "share" / "cudatoolkit" / "payload.bin").unlink()
    (cache / f"{other}.lock").write_bytes((7).to_bytes(8, "big") + bytes(32))
    (cache / f"{unsaid}.lock").unlink()
    mirror.reset_log()
    done = at_nginx.fetch("pytorch=1.7", "--json", "--rattler-cache")
    assert done.code == 0, done.err
    assert {name for name, status in done.statuses.items() if status != "cached"} == set(archives(mirror))
    assert {name.rpartition(".tar" if name.endswith("bz2") else ".")[0] for name in archives(mirror)} == {
        lost, other, unsaid,
    }  # fmt: skip
    assert int.from_bytes((cache / f"{other}.lock").read_bytes()[:8], "big") == 8
    mirror.reset_log()
    install(sys.executable, at_nginx, offer, mirror, tmp_path / "env")
    assert archives(mirror) == []


def test_from_a_list_with_md5s(at_nginx, offer, mirror):
    """Lines of an @EXPLICIT list name a package and one digest: the rest is in its archive."""
    wanted = [offer.package(name) for name in ("ninja", "mkl")]
    lines = [f"{mirror.base()}/pkgs/main/{package.url_path}#{package.record['md5']}" for package in wanted]
    (at_nginx.folder / "list.txt").write_text("\n".join(["@EXPLICIT", *lines]))
    arguments = ("--file", "list.txt", "--json", "--rattler-cache", "./own")
    assert set(at_nginx.fetch(*arguments).statuses.values()) == {"downloaded"}
    again = at_nginx.fetch(*arguments)
    assert set(again.statuses.values()) == {"cached"}
    assert {Path(each["path"]) for each in again.report["artifacts"]} == {
        at_nginx.folder / "own" / "pkgs" / package.spec.stem for package in wanted
    }
    for package in wanted:  # rattler knows the sha256 from elsewhere, a lock file perhaps
        lock = at_nginx.folder / "own" / "pkgs" / f"{package.spec.stem}.lock"
        assert lock.read_bytes()[8:].hex() == package.sha256


def test_dry_run_and_no_permission(at_nginx, offer):
    """Asked what would come it makes no folder; where it may not write it says so before anything is downloaded."""
    done = at_nginx.fetch("pytorch=1.7", "--json", "--dry-run", "--rattler-cache", "./own")
    assert set(done.statuses.values()) == {"planned"}
    assert not (at_nginx.folder / "own").exists()
    (at_nginx.folder / "own").mkdir(mode=0o555)
    done = at_nginx.fetch("pytorch=1.7", "--rattler-cache", "./own", as_root=False)
    assert done.code == 5
    assert "choose another folder with --rattler-cache" in done.err


@posix
def test_it_waits_for_rattlers_lock(at_nginx, offer, mirror):
    """While rattler holds its lock nothing is put there; Ctrl-C ends the wait, and what was downloaded is kept."""
    package = offer.package("ninja")
    cache = at_nginx.home / ".cache" / "rattler" / "cache" / "pkgs"
    cache.mkdir(parents=True)
    arguments = ("fetch", *at_nginx.options, "--no-deps", "ninja", "--json", "--rattler-cache")
    with (cache / ".cache.lock").open("w") as held:
        import fcntl  # not on Windows

        fcntl.flock(held, fcntl.LOCK_EX)
        with at_nginx.start(*arguments) as run:
            while not list((cache / FOLDER).glob(f"extract-*/package/{RECORD}")):  # it is unpacked, and waits
                assert run.poll() is None, run.communicate()
                time.sleep(0.05)
            assert not (cache / package.spec.stem).exists()
            run.send_signal(signal.SIGINT)
            done = finish(run)
    assert done.code == 130, done.err
    assert package.filename in at_nginx.run("status").out
    assert not (cache / package.spec.stem).exists()
    mirror.reset_log()
    done = at_nginx.run(*arguments)
    assert (done.code, archives(mirror)) == (0, [])
    assert (cache / package.spec.stem).is_dir()


# --- whole at every moment


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child does nothing but files
@pytest.mark.parametrize("stale", [False, True])
def test_a_kill_at_every_file_operation(offer, tmp_path, stale):
    """Publishing is killed before each of its file operations in turn: rattler never finds half a package, nor another
    one under this one's digest; and publishing again ends well."""
    key = next(key for key, package in offer.wanted.items() if package.spec.name == "ninja")
    artifact = offer.artifact(key, "http://mirror.example")
    survived = False
    number = 0
    while not survived:
        number += 1
        pkgs = tmp_path / f"pkgs-{number}"
        folder, extracted = rattler_folder(pkgs, artifact), lay_out(offer, pkgs, artifact)
        if stale:
            (folder / "stale").mkdir(parents=True)
            folder.with_name(f"{folder.name}.lock").write_bytes(bytes(7) + b"\x05" + bytes(32))
        child = os.fork()
        if child == 0:
            kill_at(number)
            publish_for_rattler(pkgs, artifact, extracted)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        survived = not os.WIFSIGNALED(status)
        assert survived == (status == 0)
        says = lock_of(folder)[8:].hex() == artifact.sha256
        assert not (says and (folder / "stale").exists())
        assert is_whole(folder) or (folder / "stale").exists() or not folder.exists()
        assert not survived or find_for_rattler(pkgs, artifact) == folder
        if not survived:
            publish_for_rattler(pkgs, artifact, lay_out(offer, pkgs, artifact))
            assert find_for_rattler(pkgs, artifact) == folder
        sweep(pkgs)
        assert not list((pkgs / FOLDER).glob("aside-*"))
    assert number > 6


def lay_out(offer: Offer, pkgs: Path, artifact: Artifact) -> Path:
    """The package unpacked, where it waits for its name."""
    folder = extraction_folder(pkgs)
    shutil.copytree(offer.extracted / artifact.filename, folder, dirs_exist_ok=True)
    return folder


def lock_of(folder: Path) -> bytes:
    try:
        return folder.with_name(f"{folder.name}.lock").read_bytes()
    except FileNotFoundError:
        return b""


def test_a_name_that_leads_outside_is_refused(tmp_path):
    """What an index calls its packages makes no path out of the cache."""
    url = RedactedUrl("http://mirror.example/c/noarch/x-1-0.conda")
    artifact = Artifact(kind="conda", filename="x-1-0.conda", url=url, sha256="0" * 64, name="../../x", version="1")
    with pytest.raises(StoreError, match=r"x-1-0\.conda"):
        find_for_rattler(tmp_path, artifact)


# --- usage


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rattler-cache", "numpy"], "is 'numpy' a package or a folder?"),
        (["numpy", "--dest", "x", "--rattler-cache"], "--dest exclude each other"),
        (["numpy", "--pkgs-dir", "x", "--rattler-cache"], "--pkgs-dir exclude each other"),
        (["numpy", "--no-extract", "--rattler-cache"], "unpacked packages only"),
    ],
)
def test_wrong_usage(tmp_path, arguments, said):
    """One place for the packages, and no package is taken for the folder."""
    done = User(tmp_path / "user").fetch(*arguments)
    assert done.code == 2
    assert said in done.err

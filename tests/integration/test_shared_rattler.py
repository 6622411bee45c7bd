"""``--shared-rattler-cache``: packages of a cache that another user may own are verified, copied, never downloaded."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from integration.test_rattler_cache import archives, install
from resume_dl.caches.extracted_copy import copy_package
from resume_dl.errors import IntegrityError
from resume_dl.store.part import FOLDER
from support.fetching import User
from support.users import MALLORY, give, needs_users

posix = pytest.mark.skipif(sys.platform == "win32", reason="modes and links of POSIX")
WANTED = ("--no-deps", "ninja", "numpy", "--json")


def tree(folder: Path) -> dict[Path, tuple[int, ...]]:
    """The folder and all below it, with what any write, new name or change of mode would alter."""
    states = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {path: (at.st_ino, at.st_nlink, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for path, at in states.items()}


@pytest.fixture
def mirror(offer, nginx_mirrors):
    return nginx_mirrors([offer.root])


@pytest.fixture
def user(tmp_path, mirror) -> User:
    found = User(tmp_path / "user")
    found.mirrors(one=mirror.base())
    return found


@pytest.fixture
def shared(tmp_path, user, mirror) -> Path:
    """A cache that has both packages."""
    (root := tmp_path / "shared").mkdir()
    done = user.fetch(*WANTED, f"--rattler-cache={root}")
    assert done.code == 0, done.err
    mirror.reset_log()
    return root


def fetch(user, shared, *arguments, **how):
    done = user.fetch(
        *WANTED, f"--rattler-cache={user.folder / 'own'}", "--shared-rattler-cache", shared, *arguments, **how
    )
    assert done.code == 0, done.err
    return done


def unpacked(offer, root, name) -> Path:
    return root / "pkgs" / offer.package(name).spec.stem


def contents(folder: Path) -> dict[str, bytes]:
    """All files but the record, which has the URL that each user asks for."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "repodata_record.json")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@posix
def test_nothing_is_downloaded(offer, user, shared, mirror):
    """Of a read-only cache; a dry run knows it before, and rattler installs from the copies without a request."""
    for folder, _, names in os.walk(shared, topdown=False):
        for name in names:
            Path(folder, name).chmod(0o444)
        Path(folder).chmod(0o555)
    before = tree(shared)
    assert set(fetch(user, shared, "--dry-run", as_root=False).statuses.values()) == {"cached"}
    assert not (user.folder / "own").exists()
    assert set(fetch(user, shared, as_root=False).statuses.values()) == {"cached"}
    assert archives(mirror) == []
    assert tree(shared) == before
    for name in ("ninja", "numpy"):
        copy, original = unpacked(offer, user.folder / "own", name), unpacked(offer, shared, name)
        assert contents(copy) == contents(original)
        assert contents(copy)
        for path in original.rglob("*"):
            here = copy / path.relative_to(original)
            assert path.is_dir() or not here.samefile(path)
            if path.is_file() and "info" not in path.relative_to(original).parts:
                assert here.stat().st_mtime_ns == path.stat().st_mtime_ns
        lock = copy.with_name(f"{copy.name}.lock").read_bytes()
        assert lock[8:].hex() == offer.package(name).sha256
    assert not (user.folder / "own" / "pkgs" / FOLDER).exists()


@posix
@pytest.mark.parametrize(
    "trouble",
    [
        "byte",
        "missing",
        "no list",
        "no digest",
        "link for a file",
        "link for a folder",
        "pipe",
        "outside",
        "digest",
        "mode",
        "mode of info",
    ],
)
def test_what_cannot_be_verified_is_downloaded(offer, user, shared, mirror, tmp_path, trouble):
    """That package only; nothing of it is left in the user's cache, and the shared cache stays as it is."""
    folder = unpacked(offer, shared, "ninja")
    payload = next(path for path in folder.rglob("payload.bin"))
    name = payload.relative_to(folder).as_posix()
    listing = folder / "info" / "paths.json"
    rows = json.loads(listing.read_text())
    (row,) = (each for each in rows["paths"] if each["_path"] == name)
    data = payload.read_bytes()
    elsewhere = tmp_path / "elsewhere"
    if trouble == "byte":
        payload.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    elif trouble in {"missing", "link for a file", "pipe"}:
        payload.rename(elsewhere)
        if trouble == "pipe":
            os.mkfifo(payload)
        elif trouble == "link for a file":
            payload.symlink_to(elsewhere)
    elif trouble == "link for a folder":
        payload.parent.rename(elsewhere)
        payload.parent.symlink_to(elsewhere)
    elif trouble == "no list":
        listing.unlink()
    elif trouble == "no digest":
        row["sha256"] = "x" * 64
    elif trouble == "outside":
        rows["paths"].append({"_path": "lib/evil", "path_type": "softlink", "sha256": row["sha256"]})
        (folder / "lib").mkdir(exist_ok=True)
        (folder / "lib" / "evil").symlink_to("/etc/passwd")
    elif trouble == "digest":
        lock = folder.with_name(f"{folder.name}.lock")
        lock.write_bytes(lock.read_bytes()[:8] + bytes(32))
    elif trouble == "mode":
        payload.parent.chmod(0o777)
    elif trouble == "mode of info":
        (folder / "info" / "index.json").chmod(0o666)
    if listing.exists():
        listing.write_text(json.dumps(rows))
    before = tree(shared)
    done = fetch(user, shared)
    wanted = {name: offer.package(name).filename for name in ("ninja", "numpy")}
    assert done.statuses == {wanted["ninja"]: "downloaded", wanted["numpy"]: "cached"}
    assert set(archives(mirror)) == {wanted["ninja"]}
    assert tree(shared) == before
    own = unpacked(offer, user.folder / "own", "ninja")
    assert (own / name).read_bytes() == data
    assert not any(path.is_symlink() for path in own.rglob("*"))
    assert not (user.folder / "own" / "pkgs" / FOLDER).exists()


@posix
def test_links_stay_inside(offer, shared, tmp_path):
    """Links of a package are made again; none leads out of the copy, not by way of another one either."""
    folder = unpacked(offer, shared, "numpy")
    listing = folder / "info" / "paths.json"
    rows = json.loads(listing.read_text())
    (folder / "a" / "b").mkdir(parents=True)

    def link(name: str, target: str) -> None:
        (folder / name).symlink_to(target)
        rows["paths"].append({"_path": name, "path_type": "softlink", "sha256": rows["paths"][0]["sha256"]})
        listing.write_text(json.dumps(rows))

    link("a/b/up", "../../share")
    copy_package(folder, tmp_path / "good", lambda: False)
    assert (tmp_path / "good" / "a" / "b" / "up").readlink() == Path("../../share")
    link("a/b/out", "up/../../x")  # reads as a/x, and leads to where the copy itself lies
    with pytest.raises(IntegrityError, match="leads out of it"):
        copy_package(folder, tmp_path / "bad", lambda: False)


@posix
@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "a//b", "", "nul\0"])
def test_a_path_that_leads_outside(offer, shared, tmp_path, name):
    """Refused before anything is copied."""
    folder = unpacked(offer, shared, "numpy")
    listing = folder / "info" / "paths.json"
    rows = json.loads(listing.read_text())
    rows["paths"].append({"_path": name, "path_type": "hardlink", "sha256": "0" * 64, "size_in_bytes": 0})
    listing.write_text(json.dumps(rows))
    with pytest.raises(IntegrityError, match="its list has a path"):
        copy_package(folder, tmp_path / "new", lambda: False)
    assert not (tmp_path / "new").exists()


@needs_users
def test_a_cache_of_another_user(offer, user, shared, mirror, tmp_path):
    """Hers is used as conda uses a read-only cache of hers; a link that she made to a cache is not followed."""
    for path in (shared, *shared.rglob("*")):
        give(path, MALLORY)
    (link := tmp_path / "link").symlink_to(shared)
    give(link, MALLORY)
    give(tmp_path, 54999, mode=0o777)
    done = fetch(user, link, "--dry-run")
    assert set(done.statuses.values()) == {"planned"}
    assert "is not used" in done.err
    assert set(fetch(user, shared).statuses.values()) == {"cached"}
    assert archives(mirror) == []


def test_rattler_installs_from_the_copies(offer, user, mirror, tmp_path):
    """Not one archive is asked for again."""
    (root := tmp_path / "shared").mkdir()
    assert user.fetch("pytorch=1.7", f"--rattler-cache={root}", "--json").code == 0
    mirror.reset_log()
    own = user.folder / "own"
    words = ("pytorch=1.7", f"--rattler-cache={own}", "--json")
    config = user.own["config"]
    config.mkdir()
    (config / "config.toml").write_text(f"shared-rattler-cache = '{root}'\n", encoding="utf-8")
    done = user.fetch(*words)
    assert done.code == 0, done.err
    unknown = {package.filename for package in offer.wanted.values() if "sha256" not in package.record}
    assert {name for name, status in done.statuses.items() if status != "cached"} == unknown
    assert set(archives(mirror)) == unknown
    mirror.reset_log()
    prefix = user.folder / "env"
    assert install(sys.executable, user, offer, mirror, prefix, RATTLER_CACHE_DIR=str(own)) == len(offer.wanted)
    assert archives(mirror) == []

"""``--shared-wheel-dir``: folders of wheels that another user may own are read, verified, and never written to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from resume_dl.store.part import FOLDER
from support.fetching import User
from support.pip_index import build_wheel, write_index
from support.users import MALLORY, give, needs_users

pytestmark = pytest.mark.nginx
MIB = 1 << 20


def tree(folder: Path) -> dict[Path, tuple[int, ...]]:
    """The folder and all below it, with what any write, new name or change of mode would alter."""
    states = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {path: (at.st_ino, at.st_nlink, at.st_size, at.st_mtime_ns, at.st_ctime_ns) for path, at in states.items()}


class Shared:
    """An index of two wheels, a shared folder that has both, and a user."""

    def __init__(self, folder: Path, nginx_mirrors) -> None:
        built = folder / "built"
        self.big = build_wheel(built, "wide", "1.5", requires=["small"], filler=2 * MIB)
        self.small = build_wheel(built, "small", "0.3")
        write_index(folder / "root", [self.big, self.small])
        self.nginx = nginx_mirrors([folder / "root"])
        self.user = User(folder / "user")
        mirrors = self.user.write_mirrors({})
        self.user.options = ["--give-up-after", "20s", "--mirrors", str(mirrors), "--json"]
        self.wanted = ["--pip", "wide", "--index-url", f"{self.nginx.base()}/simple"]
        self.folder = folder / "shared"
        self.folder.mkdir()
        for wheel in (self.big, self.small):
            (self.folder / wheel.filename).write_bytes(wheel.path.read_bytes())
        self.wheels = self.user.own["cache"] / "wheels"

    def fetch(self, *arguments, code=0, **how):
        words = ["--shared-wheel-dir", self.folder, *arguments]
        done = self.user.fetch(*self.wanted, *words, **how)
        assert done.code == code, done.err
        return done

    def asked(self) -> list[str]:
        """The wheels that were downloaded, not those of which METADATA was read."""
        return [request.uri.rpartition("/")[2] for request in self.nginx.archive_requests()]

    def assert_whole(self) -> None:
        names = {path.name for path in self.wheels.iterdir()} - {FOLDER}
        assert names == {self.big.filename, self.small.filename}
        for wheel in (self.big, self.small):
            assert (self.wheels / wheel.filename).read_bytes() == wheel.path.read_bytes()


@pytest.fixture
def shared(tmp_path, nginx_mirrors):
    return Shared(tmp_path, nginx_mirrors)


@pytest.mark.parametrize("named", ["option", "variable", "config.toml"])
def test_nothing_is_downloaded(shared, named, tmp_path):
    """Wherever the folder is named, together with one that is missing: no byte of a wheel, and the folder as it was."""
    before = tree(shared.folder)
    gone = tmp_path / "gone"
    env = {}
    words = ["--shared-wheel-dir", gone, "--shared-wheel-dir", shared.folder]
    if named != "option":
        words = []
        env = {"RESUME_DL_SHARED_WHEEL_DIR": os.pathsep.join(map(str, (gone, shared.folder)))}
    if named == "config.toml":
        config = shared.user.own["config"]
        config.mkdir()
        places = f"shared_wheel_dir = ['{gone}', '{shared.folder}']\n"
        (config / "config.toml").write_text(places, encoding="utf-8")
        env = {}
    done = shared.user.fetch(*shared.wanted, *words, env=env)
    assert done.code == 0, done.err
    assert set(done.statuses.values()) == {"cached"}
    assert done.artifact("wide")["verified_by"] == "digest"
    assert shared.asked() == []
    assert shared.nginx.body_bytes() == 0
    shared.assert_whole()
    assert tree(shared.folder) == before
    for wheel in (shared.big, shared.small):  # what the owner changes later must not reach ours
        assert not (shared.wheels / wheel.filename).samefile(shared.folder / wheel.filename)


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_read_only(shared):
    """A folder that cannot be written to."""
    (shared.folder / shared.big.filename).chmod(0o444)
    shared.folder.chmod(0o555)
    done = shared.fetch(as_root=False)
    assert set(done.statuses.values()) == {"cached"}
    assert shared.nginx.body_bytes() == 0
    shared.assert_whole()


@pytest.mark.parametrize("damage", ["one byte", "short", "long", "empty", "folder"])
def test_a_damaged_wheel_is_downloaded(shared, damage):
    """Only that one, and the shared file stays as damaged as it was."""
    path = shared.folder / shared.big.filename
    data = path.read_bytes()
    if damage == "folder":
        path.unlink()
        path.mkdir()
    else:
        changed = data[: MIB // 2] + bytes([data[MIB // 2] ^ 1]) + data[MIB // 2 + 1 :]
        path.write_bytes({"one byte": changed, "short": data[:-1], "long": data + b"x", "empty": b""}[damage])
    before = tree(shared.folder)
    planned = shared.fetch("--dry-run")
    assert planned.statuses == {shared.big.filename: "planned", shared.small.filename: "cached"}
    done = shared.fetch()
    assert done.statuses == {shared.big.filename: "downloaded", shared.small.filename: "cached"}
    assert set(shared.asked()) == {shared.big.filename}
    shared.assert_whole()
    assert tree(shared.folder) == before


@pytest.mark.skipif(sys.platform == "win32", reason="links of POSIX")
def test_a_link_is_not_followed(shared, tmp_path):
    """Neither one to the right bytes, nor one to a device, nor a named pipe, which would wait for ever."""
    (elsewhere := tmp_path / "elsewhere.whl").write_bytes(shared.big.path.read_bytes())
    (shared.folder / shared.big.filename).unlink()
    (shared.folder / shared.big.filename).symlink_to(elsewhere)
    (shared.folder / shared.small.filename).unlink()
    os.mkfifo(shared.folder / shared.small.filename)
    done = shared.fetch()
    assert set(done.statuses.values()) == {"downloaded"}
    assert (shared.folder / shared.big.filename).is_symlink()
    shared.assert_whole()
    assert not any((shared.wheels / wheel.filename).is_symlink() for wheel in (shared.big, shared.small))


@needs_users
def test_a_link_of_another_user_is_named(shared, tmp_path):
    """The folder that it leads to is not used, and a warning says why."""
    (hers := tmp_path / "hers").mkdir()
    (link := hers / "wheels").symlink_to(shared.folder)
    give(link, MALLORY)
    done = shared.user.fetch(*shared.wanted, "--shared-wheel-dir", link)
    assert done.code == 0, done.err
    assert set(done.statuses.values()) == {"downloaded"}
    assert f"{link} is not used" in done.err
    shared.assert_whole()


@pytest.mark.skipif(sys.platform == "win32", reason="there, a name of any length is just missing")
def test_a_folder_that_cannot_be_reached_is_named(shared):
    """One source fewer, with a warning: the run goes on."""
    named = shared.folder / ("w" * 300)
    done = shared.user.fetch(*shared.wanted, "--shared-wheel-dir", named)
    assert done.code == 0, done.err
    assert set(done.statuses.values()) == {"downloaded"}
    assert f"{named} is not used" in done.err
    shared.assert_whole()


def test_dry_run_and_offline(shared):
    """A dry run says that nothing will be downloaded and writes nothing; without a network the files are copied."""
    done = shared.fetch("--dry-run")
    assert set(done.statuses.values()) == {"cached"}
    assert not shared.wheels.exists()
    shared.nginx.reset_log()
    done = shared.fetch("--offline")
    assert set(done.statuses.values()) == {"cached"}
    assert shared.nginx.requests() == []
    shared.assert_whole()


def test_it_replaces_an_unfinished_download(shared):
    """The shared file is whole: what was begun is removed."""
    from resume_dl.model.artifact import Artifact
    from resume_dl.model.url import RedactedUrl
    from resume_dl.store.part import PartStore

    address = RedactedUrl(f"{shared.nginx.base()}/files/{shared.big.filename}")
    artifact = Artifact(kind="wheel", filename=shared.big.filename, url=address, sha256=shared.big.sha256)
    part = PartStore(shared.wheels / FOLDER).open(artifact, journaled=True)
    part.write(0, b"x" * 1000)
    part.close()
    done = shared.fetch()
    assert set(done.statuses.values()) == {"cached"}
    assert not (shared.wheels / FOLDER).exists()
    shared.assert_whole()


def test_bundle_create(shared):
    """The wheels of a bundle come from there too."""
    out = shared.user.folder / "out"
    arguments = ["bundle", "create", *shared.user.options, *shared.wanted, "--platform", "linux-64"]
    done = shared.user.run(*arguments, "--python", "3.10", "--shared-wheel-dir", shared.folder, "-o", out)
    assert done.code == 0, done.err
    assert shared.nginx.body_bytes() == 0
    for wheel in (shared.big, shared.small):
        (found,) = out.rglob(wheel.filename)
        assert found.read_bytes() == wheel.path.read_bytes()

"""Getting files to the disk: one call for the cache's file system, once for many packages; and without that call."""

from __future__ import annotations

import ast
import errno
import os
import sys
import threading
from pathlib import Path

import pytest

import resume_dl
from resume_dl.caches.conda import lookup
from resume_dl.caches.package_caches import CondaCache
from resume_dl.demo.package import PackageSpec, write_package
from resume_dl.errors import InternalError
from resume_dl.model.artifact import Artifact
from resume_dl.model.url import RedactedUrl
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.store import platform
from resume_dl.store.part import hash_file
from resume_dl.store.platform import make_folder, remove_durably, replace_durably, sync_trees, write_durably
from resume_dl.store.staged import staged_path
from resume_dl.transfer.extraction import Extractor

linux = pytest.mark.skipif(sys.platform != "linux", reason="syncfs is a call of Linux")
PACKAGES = 20
CALLS = {"os.fsync", "os.fdatasync", "os.sync", "fcntl.F_FULLFSYNC"}


@pytest.fixture
def synced(monkeypatch):
    """Which files and folders were synced one by one, by name."""
    names = []
    for call in ("fsync", "fdatasync"):
        if hasattr(os, call):
            monkeypatch.setattr(os, call, lambda fd: names.append(Path(f"/proc/self/fd/{fd}").readlink().name))
    return names


@pytest.fixture
def file_systems(monkeypatch):
    """The folders whose file system was synced; the call is made all the same."""
    folders, real = [], platform.sync_file_system

    def call(fd):
        folders.append(Path(f"/proc/self/fd/{fd}").readlink())
        return real(fd)

    monkeypatch.setattr(platform, "sync_file_system", call)
    return folders


def packages(pkgs, folder):
    """Verified archives that wait in a package cache to be unpacked."""
    for number in range(PACKAGES):
        path = write_package(PackageSpec(name=f"p{number}", version="1.0", files={"share/a.txt": b"text"}), folder)
        sha256 = hash_file(path, "sha256")
        url = RedactedUrl(f"https://example.org/c/linux-64/{path.name}")
        what = Artifact(kind="conda", filename=path.name, url=url, size=path.stat().st_size, sha256=sha256)
        staged = staged_path(pkgs, what)
        staged.parent.mkdir(parents=True, exist_ok=True)
        path.rename(staged)
        yield what


@linux
def test_many_packages_share_one_sync(tmp_path, monkeypatch, file_systems):
    """Packages that wait to be unpacked cost a few calls, not one each, all for the cache's own file system.

    Once nothing is left to be taken, each of the two threads has one package in hand: so it is at most two calls.
    """
    submitted, real = threading.Event(), RattlerWorker.extract

    def extract(*arguments):
        submitted.wait(60)
        return real(*arguments)

    monkeypatch.setattr(RattlerWorker, "extract", extract)
    monkeypatch.setattr(os, "sync", lambda: pytest.fail("every file system of the machine was waited for"))
    pkgs = tmp_path / "pkgs"
    wanted = list(packages(pkgs, tmp_path))
    extractor = Extractor(CondaCache(pkgs))
    for what in wanted:
        extractor.submit(what)
    submitted.set()
    assert [each.error for each in extractor.finish()] == [None] * PACKAGES
    assert all(CondaCache(pkgs).has(what) for what in wanted)
    assert 1 <= len(file_systems) <= 2
    assert {each.relative_to(pkgs).parts[0] for each in file_systems} == {".resume-dl"}
    assert list((pkgs / ".resume-dl").iterdir()) == []


def test_an_internal_error_fails_only_its_own_package(tmp_path, monkeypatch):
    """A defect that one package of a batch meets is its result; the others are in the cache, nothing waits for ever."""
    pkgs = tmp_path / "pkgs"
    wanted = list(packages(pkgs, tmp_path))
    real = lookup.client_url

    def broken(what):
        return 1 / 0 if what.filename == wanted[3].filename else real(what)

    monkeypatch.setattr(lookup, "client_url", broken)
    extractor = Extractor(CondaCache(pkgs))
    for what in wanted:
        extractor.submit(what)
    errors = {each.artifact.filename: each.error for each in extractor.finish() if each.error is not None}
    assert {name: type(error) for name, error in errors.items()} == {wanted[3].filename: InternalError}
    assert "ZeroDivisionError" in errors[wanted[3].filename].message
    monkeypatch.undo()
    assert all(CondaCache(pkgs).has(what) for what in wanted if what is not wanted[3])


@linux
def test_syncfs_is_called(tmp_path):
    """The C library has it, and the system carries it out, also where a folder cannot be written."""
    (tmp_path / "a").write_bytes(b"a")
    tmp_path.chmod(0o500)
    fd = os.open(tmp_path, os.O_RDONLY)
    assert platform.sync_file_system(fd)
    os.close(fd)
    tmp_path.chmod(0o700)
    with pytest.raises(OSError, match="Bad file descriptor"):
        platform.sync_file_system(fd)


@linux
def test_without_syncfs_each_file_is_synced(tmp_path, monkeypatch, synced):
    """Where the system has no such call: every file and folder below, and nothing that a link leads to."""
    monkeypatch.setattr(platform, "sync_file_system", lambda _: False)
    outside = tmp_path / "outside"
    outside.write_bytes(b"")
    for name in ("one", "two"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / f"{name}.txt").write_bytes(b"a")
        (tmp_path / name / "link").symlink_to(outside)
        (tmp_path / name / "away").symlink_to(tmp_path)
    os.mkfifo(tmp_path / "two" / "pipe")
    sync_trees([tmp_path / "one", tmp_path / "two"])
    assert sorted(synced) == ["lib", "lib", "one", "one.txt", "pipe", "two", "two.txt"]


def test_nothing_to_sync(monkeypatch):
    """An empty batch asks nothing of the system."""
    monkeypatch.setattr(platform, "sync_file_system", lambda _: pytest.fail("asked"))
    sync_trees([])


@linux
def test_a_file_is_replaced_on_the_disk(tmp_path, synced):
    """Its bytes first, then the name's folder; what a killed process left under the temporary name is no obstacle."""
    (tmp_path / "new").write_bytes(b"left")
    write_durably(tmp_path / "a", b"one", temporary=tmp_path / "new")
    write_durably(tmp_path / "a", b"two")
    assert (tmp_path / "a").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert synced[:2] == ["new", tmp_path.name]
    assert synced[2].startswith("a.")
    assert synced[3:] == [tmp_path.name]


def test_nothing_is_left_of_a_file_that_cannot_be_replaced(tmp_path):
    """The temporary file goes, what was there stays."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    with pytest.raises(OSError, match=r".") as caught:
        write_durably(tmp_path / "a", b"one")
    assert caught.value.errno == (errno.EACCES if os.name == "nt" else errno.EISDIR)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@linux
def test_no_link_is_written_or_synced_through(tmp_path):
    """A link that waits under the temporary name is replaced, and one that is to be published refused."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "new").symlink_to(victim)
    write_durably(tmp_path / "a", b"one", temporary=tmp_path / "new")
    assert (victim.read_bytes(), (tmp_path / "a").is_symlink()) == (b"mine", False)
    (tmp_path / "new").symlink_to(victim)
    with pytest.raises(OSError, match="symbolic links"):
        replace_durably(tmp_path / "new", tmp_path / "a")


@linux
def test_the_parents_of_new_folders_are_synced(tmp_path, synced):
    """Each folder that was made is on the disk in the one above it; one that was there costs nothing."""
    make_folder(tmp_path / "one" / "two")
    assert synced == ["one", tmp_path.name]
    make_folder(tmp_path / "one" / "two")
    remove_durably(tmp_path / "one" / "absent")
    assert len(synced) == 2
    (tmp_path / "one" / "a").touch()
    remove_durably(tmp_path / "one" / "a")
    assert synced[2:] == ["one"]


def test_one_module_syncs():
    """Nothing calls fsync by itself, and nothing waits for all file systems.

    Below the store there are only the bundles' files, which go to sticks (``offline_tools/parts`` run without us).
    """
    package = Path(resume_dl.__file__).parent
    allowed = {"store/platform.py", "offline_tools/parts/join_parts.py", "fs/regular.py", "bundle/unfinished.py"}
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in CALLS:
                found.add((path.relative_to(package).as_posix(), node.attr))
    assert "sync" not in {call for _, call in found}
    assert {name for name, _ in found} <= allowed

"""rattler's package cache: what is found there is what rattler takes, and what is put there it takes."""

from __future__ import annotations

import errno

import pytest

from resume_dl.caches import rattler
from resume_dl.caches.conda.lookup import is_whole
from resume_dl.caches.rattler import find_for_rattler, publish_for_rattler, rattler_folder
from resume_dl.errors import NotWritableError, StoreError
from resume_dl.store.lock import FileLock
from store.packages import FOLDER, package, unpack


def publish(pkgs, what=None, **more):
    work = pkgs / FOLDER
    work.mkdir(mode=0o700, parents=True, exist_ok=True)
    return publish_for_rattler(pkgs, what or package(), unpack(work / "extracted"), **more)


def lock_of(pkgs):
    return pkgs / "a-1-0.lock"


def test_the_name_of_the_folder(tmp_path):
    """Name in lower case, version, build; one that would lead elsewhere is refused."""
    assert rattler_folder(tmp_path, package(name="PyYAML", version="1!2", build="B_0")) == tmp_path / "pyyaml-1!2-B_0"
    with pytest.raises(StoreError, match=r"cannot be put into rattler's cache.*unsafe"):
        rattler_folder(tmp_path, package(version="../../x"))


def test_a_published_package_is_found(tmp_path):
    """The whole folder, and its .lock with revision 1 and the sha256; nothing is left below."""
    assert find_for_rattler(tmp_path, package()) is None
    folder = publish(tmp_path)
    assert folder == tmp_path / "a-1-0"
    assert is_whole(folder)
    assert lock_of(tmp_path).read_bytes() == (1).to_bytes(8, "big") + bytes.fromhex(package().sha256)
    assert find_for_rattler(tmp_path, package()) == folder
    assert list((tmp_path / FOLDER).iterdir()) == []


@pytest.mark.parametrize("damage", ["lost", "sha256", "short", "no lock", "long"])
def test_another_package_is_replaced_with_a_higher_revision(tmp_path, damage):
    """A folder that lost files or whose .lock speaks of another package: not found, and replaced."""
    folder = publish(tmp_path)
    old = folder.stat().st_ino
    revision = 1
    if damage == "lost":
        (folder / "lib/a.py").unlink()
    elif damage == "sha256":
        revision = 300
        lock_of(tmp_path).write_bytes(revision.to_bytes(8, "big") + bytes(32))
    elif damage == "short":
        lock_of(tmp_path).write_bytes((1).to_bytes(8, "big"))
    elif damage == "long":
        revision = 0
        lock_of(tmp_path).write_bytes(bytes(5000))
    else:
        revision = 0
        lock_of(tmp_path).unlink()
    assert find_for_rattler(tmp_path, package()) is None
    assert publish(tmp_path) == folder
    assert folder.stat().st_ino != old
    assert is_whole(folder)
    assert lock_of(tmp_path).read_bytes()[:8] == (revision + 1).to_bytes(8, "big")
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_matching_package_is_kept(tmp_path):
    """Neither folder nor .lock is touched where rattler would take it as it is."""
    folder = publish(tmp_path)
    old, said = folder.stat().st_ino, lock_of(tmp_path).stat().st_ino
    assert publish(tmp_path) == folder
    assert (folder.stat().st_ino, lock_of(tmp_path).stat().st_ino) == (old, said)


def test_an_md5_alone_needs_a_record(tmp_path):
    """rattler notes no md5: what we put there has a record, what others put there is not taken."""
    by_md5 = package(sha256=None)
    folder = publish(tmp_path)
    assert find_for_rattler(tmp_path, by_md5) == folder
    assert find_for_rattler(tmp_path, package(sha256=None, md5="0" * 32)) is None
    (folder / "info/repodata_record.json").unlink()
    assert find_for_rattler(tmp_path, by_md5) is None
    (tmp_path / "other").mkdir()
    with pytest.raises(StoreError, match="no sha256"):
        publish(tmp_path / "other", by_md5)


def test_publishing_waits_for_rattlers_lock(tmp_path, monkeypatch):
    """Between looks the caller may stop it, which is said with what to do; released, it goes on."""
    (tmp_path / ".cache.lock").touch()
    lock = FileLock(tmp_path / ".cache.lock")
    lock.acquire()
    paused = []
    monkeypatch.setattr(rattler.time, "sleep", paused.append)
    looks = iter([False, False, True])
    with pytest.raises(StoreError, match="in use by pixi") as caught:
        publish(tmp_path, cancelled=lambda: next(looks))
    assert "again" in caught.value.hint
    assert len(paused) == 2
    assert not (tmp_path / "a-1-0").exists()
    (tmp_path / FOLDER / "extracted").rename(tmp_path / "old")
    monkeypatch.setattr(rattler.time, "sleep", lambda seconds: lock.release())
    assert find_for_rattler(tmp_path, package()) is None
    assert publish(tmp_path).is_dir()
    lock.acquire()  # it is free again
    lock.release()


@pytest.mark.parametrize(
    ("number", "kind", "hint"),
    [(errno.EACCES, NotWritableError, "--rattler-cache"), (errno.ENOSPC, StoreError, "full")],
)
def test_os_errors_become_store_errors(tmp_path, monkeypatch, number, kind, hint):
    """With the cache's path, the reason and what to do."""

    def refuse(source, destination):
        raise OSError(number, "for this reason")

    monkeypatch.setattr(rattler, "replace", refuse)
    with pytest.raises(kind, match="for this reason") as caught:
        publish(tmp_path)
    assert type(caught.value) is kind
    assert str(tmp_path) in str(caught.value)
    assert hint in caught.value.hint


def test_publishing_keeps_its_order(tmp_path, monkeypatch):
    """What stood there is gone from the disk before the .lock speaks for the new folder, which comes last."""
    publish(tmp_path)
    (tmp_path / "a-1-0/lib/a.py").unlink()
    done = []

    def watched(name, of):
        real = getattr(rattler, name)

        def call(*arguments, **more):
            done.append(f"{name} {of(*arguments)}")
            return real(*arguments, **more)

        monkeypatch.setattr(rattler, name, call)

    watched("sync_extracted", lambda pkgs, folders: len(folders))
    watched("replace", lambda source, destination: destination.name[:5])
    watched("move_folder", lambda source, destination: destination.name)
    watched("sync_directory", lambda folder: folder.name == tmp_path.name)
    watched("write_durably", lambda path, data: path.name)
    publish(tmp_path)
    assert done == [
        "sync_extracted 1", "replace aside", "sync_directory True", "write_durably a-1-0.lock", "move_folder a-1-0",
        "sync_directory True",
    ]  # fmt: skip


def test_the_folder_of_unfinished_files_is_made(tmp_path):
    """An unpacked folder may come from elsewhere on the same file system."""
    folder = publish_for_rattler(tmp_path, package(), unpack(tmp_path / "elsewhere"))
    assert is_whole(folder)
    assert (tmp_path / FOLDER).stat().st_mode & 0o777 == 0o700

"""A verified file from elsewhere on this machine: taken as a second name or a copy, if it is the file that is meant."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from resume_dl.caches.link_or_copy import link_or_copy
from store.packages import ARCHIVE, FOLDER, package


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "theirs" / "a.conda"
    path.parent.mkdir()
    path.write_bytes(ARCHIVE)
    return path


def taken(tmp_path, source, what=None):
    """What ``take`` says, and the target; nothing may be left under the waiting name."""
    target, waiting = tmp_path / "new" / "folder" / "a-1-0.conda", tmp_path / FOLDER / "waiting"
    result = link_or_copy(source, target, waiting, what or package())
    assert not os.path.lexists(waiting)
    assert target.exists() is result
    return result, target


def test_a_file_is_hard_linked(tmp_path, source):
    """It takes no room; what lay under the waiting name is no obstacle, and a second time is as good."""
    (tmp_path / FOLDER).mkdir(mode=0o700)
    (tmp_path / FOLDER / "waiting").write_bytes(b"left by a kill")
    for _ in range(2):
        result, target = taken(tmp_path, source)
        assert result
        assert target.samefile(source)


def test_the_target_of_a_symbolic_link_is_linked(tmp_path, source):
    """Not a second name of the link, which would break with it."""
    link = tmp_path / "link"
    link.symlink_to(source)
    result, target = taken(tmp_path, link)
    assert result
    assert not target.is_symlink()
    assert target.samefile(source)


def test_a_size_is_not_needed(tmp_path, source):
    assert taken(tmp_path, source, package(size=None))[0]


@pytest.mark.parametrize("case", ["absent", "absent, size unknown", "size", "no digest", "content", "dangling"])
def test_a_file_with_another_digest_is_not_taken(tmp_path, source, case):
    """False, and the folder is as it was."""
    what = {
        "size": package(size=1),
        "absent, size unknown": package(size=None),
        "no digest": package(sha256=None, md5=None),
    }.get(case)
    if case == "content":
        source.write_bytes(ARCHIVE[::-1])
    elif case.startswith("absent"):
        source.unlink()
    elif case == "dangling":
        source.unlink()
        source.symlink_to("gone")
    assert taken(tmp_path, source, what)[0] is False


def no_link(*names):
    raise OSError(18, "Invalid cross-device link")


def test_a_copy_where_the_file_system_cannot_link(tmp_path, source, monkeypatch):
    """Another file with the same bytes, hashed where it lies."""
    monkeypatch.setattr(os, "link", no_link)
    result, target = taken(tmp_path, source)
    assert result
    assert not target.samefile(source)
    assert target.read_bytes() == ARCHIVE
    source.write_bytes(ARCHIVE[::-1])
    target.unlink()
    assert taken(tmp_path, source)[0] is False


@pytest.mark.parametrize(("free", "result"), [(-1, False), (0, True), (1, True)])
def test_a_copy_needs_room(tmp_path, source, monkeypatch, free, result):
    """As much as the file has."""
    from resume_dl.caches import link_or_copy

    monkeypatch.setattr(os, "link", no_link)
    usage = type(link_or_copy.shutil.disk_usage(tmp_path))
    room = len(ARCHIVE) + free
    monkeypatch.setattr(link_or_copy.shutil, "disk_usage", lambda path: usage(10**9, 0, room))
    assert taken(tmp_path, source)[0] is result


@pytest.mark.parametrize("readable", [True, False])
def test_a_file_that_may_not_be_read_is_not_copied(tmp_path, source, monkeypatch, readable):
    """The check is the system's: another user's file with mode 0600."""
    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK and readable)
    assert taken(tmp_path, source)[0] is readable


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/mem is a regular file that cannot be linked or read")
def test_a_copy_that_fails_is_an_error(tmp_path):
    """The caller is told, as of a target that cannot be written."""
    with pytest.raises(OSError):
        link_or_copy(Path("/proc/self/mem"), tmp_path / "a", tmp_path / FOLDER / "waiting", package(size=None))
    assert not (tmp_path / "a").exists()

"""What hostile archives say they are: nothing that is no name, and never with an error that ends the run."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile

import pytest

from resume_dl.caches.archive_identity import Identity, identity
from resume_dl.model.download_name import normalized_project, read_name


def tar_of(index: bytes, pax: dict[str, str] | None = None) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:bz2", format=tarfile.PAX_FORMAT) as archive:
        member = tarfile.TarInfo("info/index.json")
        member.size, member.pax_headers = len(index), pax or {}
        archive.addfile(member, io.BytesIO(index))
    return made.getvalue()


def named(name: object) -> bytes:
    return tar_of(json.dumps({"name": name, "version": "1.0", "build": "0"}).encode())


def zip_of(*names: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"x")  # of one date: each worker makes the same
    return made.getvalue()


def said(tmp_path, data: bytes) -> Identity | None:
    path = tmp_path / "archive"
    path.write_bytes(data)
    with path.open("rb") as file:
        return identity(file.fileno())


def test_what_good_archives_say(tmp_path):
    assert said(tmp_path, named("big")) == Identity(filename="big-1.0-0.tar.bz2")
    assert said(tmp_path, zip_of("metadata.json", "info-big-1.0-0.tar.zst")) == Identity(filename="big-1.0-0.conda")
    assert said(tmp_path, zip_of("w/a.py", "w-1.dist-info/METADATA")) == Identity(project="w")


@pytest.mark.parametrize(
    "data",
    [
        tar_of(b"{}", {"size": "1" + "0" * 40}),  # a length that fits no integer of the machine
        tar_of(b"{}", {"GNU.sparse.size": "9" * 30, "GNU.sparse.map": "1,x"}),
        tar_of(b"[" * 500_000),  # deeper than the interpreter's stack
        tar_of(b'{"name": 1' + b"0" * 6000 + b"}"),
        tar_of(b"[1]"),
        tar_of(b"null"),
        tar_of(b"\xff\xfe{}"),
        named(1),
        named([]),
        named(""),
        named("../../up"),
        named("\x1b[31mred"),
        named("\ud800"),
        named("a" * 300),
        named("big")[:40],
        zip_of("info-\x1b[2Jbig-1.0-0.tar.zst"),
        zip_of("info-" + "a" * 300 + "-1.0-0.tar.zst"),
        zip_of("info-../up-1.0-0.tar.zst"),
        zip_of("nothing"),
        zip_of("info-big-1.0-0.tar.zst")[:20],
        b"PK\3\4" + bytes(5),
        b"BZh9" + bytes(100),
        b"BZ",
        b"",
    ],
    ids=lambda data: "archive",
)
def test_hostile_archives_say_nothing(tmp_path, data):
    assert said(tmp_path, data) is None


def test_what_an_archive_unpacks_to_is_bounded(tmp_path):
    """16 MiB of zeros before the index: it is not reached, however small the archive is."""
    import bz2

    late = bz2.compress(bytes(20 << 20) + bz2.decompress(named("late")))
    assert len(late) < 1 << 20
    assert said(tmp_path, late) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes")
def test_a_pipe_in_its_place_is_not_waited_for(tmp_path):
    from resume_dl.caches.archive_identity import looks_like_package

    os.mkfifo(tmp_path / "pipe")
    assert not looks_like_package(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["%2e%2e", "..", "a b", "a/b", "é", "-", "_", "", "?x", "a\n", "a" * 256])
def test_what_is_no_project_is_never_put_into_an_address(name):
    """A page's address is made of it, so that ``%2e%2e`` would lead out of the index."""
    assert normalized_project(name) is None
    assert normalized_project(read_name(f"{name}-1.0-py3-none-any.whl").project) is None


def test_projects_are_normalized():
    assert normalized_project("Big__Thing.x") == "big-thing-x"

"""Copies of unpacked packages that another user may change at any time: what is written, and how much."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from resume_dl.caches import extracted_copy
from resume_dl.caches.extracted_copy import copy_package
from resume_dl.errors import IntegrityError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="links and sparse files of POSIX")

DATA = b"data"


def row(name: str, kind: str = "hardlink", **more: Any) -> dict[str, Any]:
    listed = {"_path": name, "path_type": kind, "sha256": hashlib.sha256(DATA).hexdigest(), "size_in_bytes": len(DATA)}
    return {key: value for key, value in {**listed, **more}.items() if value is not None}


def package(root: Path, *rows: dict[str, Any]) -> Path:
    """An unpacked package in a cache, with a file of DATA for each row that is one."""
    folder = root / "cache" / "a-1-0"
    (folder / "info").mkdir(parents=True)
    folder.with_name("a-1-0.lock").write_bytes(bytes(40))
    (folder / "info" / "index.json").write_text('{"name": "a"}', encoding="utf-8")
    (folder / "info" / "paths.json").write_text(json.dumps({"paths": rows}), encoding="utf-8")
    for each in rows:
        if each["path_type"] == "hardlink" and each["_path"].isascii():
            (folder / each["_path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / each["_path"]).write_bytes(DATA)
    return folder


def copy(source: Path, cancelled=lambda: False) -> Path:
    copy_package(source, source.parents[1] / "copy", cancelled)
    return source.parents[1] / "copy"


def test_a_folder_that_becomes_a_link_during_the_copy(tmp_path: Path) -> None:
    """The list calls ``in`` a link and has a link below it: both made, one lay in a folder of the user."""
    home = tmp_path / "home"
    home.mkdir()
    source = package(tmp_path, row("first"), row("in", "softlink"), row("in/.profile", "softlink"))
    (source / "in").mkdir()
    (source / "in" / ".profile").symlink_to("/etc/hostname")

    def swap() -> bool:
        if (source / "in").is_dir() and not (source / "in").is_symlink():
            (source / "in").rename(tmp_path / "was")
            (source / "in").symlink_to(home)
            (home / ".profile").symlink_to("/etc/hostname")  # which the copy reads as the link to make
        return False

    with pytest.raises((IntegrityError, OSError)):
        copy(source, swap)
    assert (source / "in").is_dir()
    assert not (source / "in").is_symlink()  # refused before anything was copied
    assert not any(home.iterdir())


@pytest.mark.parametrize("size", [None, len(DATA), 1 << 45, True, "4"])
def test_a_sparse_file_that_no_disk_holds(tmp_path: Path, size: Any) -> None:
    """Not a byte of it is copied, whatever size the list states."""
    source = package(tmp_path, row("a", size_in_bytes=size))
    os.truncate(source / "a", 1 << 40)
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 8  # else the test would fill the disk

    with pytest.raises(IntegrityError, match="size"):
        copy(source, cancelled)
    assert sum(path.stat().st_size for path in (tmp_path / "copy").rglob("a")) == 0


@pytest.mark.parametrize("name", ["\ud800", "a/\udfff/b"])
def test_half_a_character_in_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(IntegrityError, match="its list has a path"):
        copy(package(tmp_path, row(name)))


def test_info_of_a_thousand_folders(tmp_path: Path) -> None:
    source = package(tmp_path, row("a"))
    copied = copy(source)
    assert (copied / "a").read_bytes() == DATA
    copied.rename(tmp_path / "first")
    folders = [f"{source}/info{'/d' * depth}" for depth in range(1, 1500)]
    for folder in folders:
        Path(folder).mkdir()
    try:
        with pytest.raises(IntegrityError, match="too deep"):
            copy(source)
    finally:
        for folder in reversed(folders):  # pytest's own removal is recursive
            Path(folder).rmdir()


def test_much_info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one of all files together."""
    monkeypatch.setattr(extracted_copy, "_MOST_INFO", 1 << 20)
    source = package(tmp_path, row("a"))
    for number in range(4):
        (source / "info" / f"n{number}").touch()
        os.truncate(source / "info" / f"n{number}", 400 << 10)
    with pytest.raises(OSError, match="is longer than"):
        copy(source)

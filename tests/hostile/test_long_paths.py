"""Paths that Windows takes in their extended form alone: of any length, and with names that its calls change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from resume_dl import fs
from resume_dl.fs.removal import remove
from resume_dl.fs.system import AnyLength, extended
from resume_dl.settings.paths import find_paths
from resume_dl.store.platform import make_folder, replace_durably, write_durably

LONG = "x" * 120
PREFIX = "\\\\?\\"
only_windows = pytest.mark.skipif(sys.platform != "win32", reason="what Windows' own calls do")


@pytest.mark.parametrize(
    ("path", "form"),
    [
        (f"C:\\{LONG}\\{LONG}", f"{PREFIX}C:\\{LONG}\\{LONG}"),
        (f"C:/{LONG}/./{LONG}/../b c/ü.{LONG}", f"{PREFIX}C:\\{LONG}\\b c\\ü.{LONG}"),
        (f"\\\\host\\share\\{LONG}\\{LONG}", f"{PREFIX}UNC\\host\\share\\{LONG}\\{LONG}"),
        (f"{PREFIX}C:\\{LONG}\\{LONG}", f"{PREFIX}C:\\{LONG}\\{LONG}"),
        (f"{LONG}\\{LONG}", f"{LONG}\\{LONG}"),
        ("C:\\short", "C:\\short"),
        ("C:\\" + "x" * 237, PREFIX + "C:\\" + "x" * 237),
    ],
)
def test_the_extended_form(path: str, form: str) -> None:
    assert extended(path) == form
    assert extended(form) == form


def test_a_removal_reaches_any_name() -> None:
    """A name that ends in a dot, or is a device's, is another one without the prefix."""
    assert extended("C:\\a\\aux", always=True) == PREFIX + "C:\\a\\aux"
    assert extended("C:\\a\\b.", always=True) == PREFIX + "C:\\a\\b."
    assert extended("C:\\a\\b ", always=True) == PREFIX + "C:\\a\\b "


def test_people_see_the_path_and_the_system_its_extended_form() -> None:
    class Roomy(AnyLength, PureWindowsPath):
        pass

    root = Roomy("C:/Users/Jürgen Ü")
    assert os.fspath(root) == "C:\\Users\\Jürgen Ü"
    deep = root / LONG / LONG
    assert (str(deep), os.fspath(deep)) == (f"C:\\Users\\Jürgen Ü\\{LONG}\\{LONG}", f"{PREFIX}{deep}")
    assert os.fspath(deep.with_name("y" * 200)).startswith(PREFIX)
    assert (deep, deep.as_uri()) == (PureWindowsPath(deep), PureWindowsPath(str(deep)).as_uri())


def test_a_deep_tree_is_written_replaced_and_removed(tmp_path: Path) -> None:
    """Under our own folders, wherever they are; on POSIX nothing changes."""
    state = find_paths({f"RESUME_DL_{kind}_DIR": str(tmp_path / kind) for kind in ("CONFIG", "CACHE", "STATE")}).state
    folder = state / LONG / LONG / "ü b"
    make_folder(folder)
    assert len(str(folder)) > 260
    write_durably(folder / "a.txt", b"1")
    write_durably(folder / "b.txt", b"2")
    replace_durably(folder / "b.txt", folder / "a.txt")
    assert fs.read_regular(folder / "a.txt", 10) == b"2"
    assert fs.is_regular(folder / "a.txt", 1)
    fs.replace_below(folder, "a.txt", data=b"3", sync=True)
    assert [path.name for path in folder.iterdir()] == ["a.txt"]
    remove(state / LONG)
    assert [*state.iterdir()] == []


@only_windows
def test_names_that_windows_changes_are_removed(tmp_path: Path) -> None:
    """As an archive's member, written by a program that uses the extended form."""
    folder = tmp_path / "tree"
    folder.mkdir()
    for name in ("aux", "dot.", "blank ", "x" * 200):
        place = Path(f"{PREFIX}{folder}\\{name}")
        place.mkdir()
        place.joinpath("y" * 100).write_bytes(b"1")
    remove(folder)
    assert not folder.exists()


@only_windows
@pytest.mark.parametrize("is_top", [True, False])
def test_a_junction_is_removed_and_not_followed(tmp_path: Path, *, is_top: bool) -> None:
    """Anyone may make one, unlike a symbolic link."""
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_bytes(b"1")
    folder = tmp_path / "tree"
    folder.mkdir()
    link = folder / "junction"
    subprocess.run(["cmd", "/c", "mklink", "/J", str(link), str(kept)], check=True, capture_output=True)
    remove(link if is_top else folder)
    assert not os.path.lexists(link)
    assert (kept / "file").read_bytes() == b"1"

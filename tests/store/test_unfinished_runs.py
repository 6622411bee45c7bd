"""Notes of unfinished runs: durable, removed when nothing is left, and checked when they are read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from resume_dl.store import platform
from resume_dl.store import unfinished_runs as module
from resume_dl.store.part import FOLDER
from resume_dl.store.unfinished_runs import UnfinishedFile, UnfinishedNotes, UnfinishedRun

KEY = "sha256-" + "0" * 64


@pytest.fixture
def notes(tmp_path: Path) -> UnfinishedNotes:
    return UnfinishedNotes(tmp_path / "state" / "unfinished")


def run_in(folder: Path, *command: str, left: bool = True) -> UnfinishedRun:
    """A note of a download in ``folder``, of which a part file is there."""
    parts = folder / FOLDER
    parts.mkdir(parents=True, exist_ok=True)
    if left:
        (parts / f"{KEY}.part").write_bytes(b"x")
    return UnfinishedRun(
        parts, command or ("resume-dl", "get", "x"), folder, {KEY: UnfinishedFile("x.bin", "https://h/x.bin", 7)}
    )


def only(notes: UnfinishedNotes, tmp_path: Path) -> Path:
    (path,) = (tmp_path / "state" / "unfinished").iterdir()
    return path


def test_notes_are_read_back(notes: UnfinishedNotes, tmp_path: Path) -> None:
    """All of it, for each folder and command once; a second note of the same replaces the first."""
    one, two = run_in(tmp_path / "one"), run_in(tmp_path / "two", "resume-dl", "fetch", "a b", "ü")
    for each in (one, two, one):
        notes.add(each)
    assert sorted(notes.read(), key=lambda each: each.folder) == [one, two]


def test_a_note_is_synced_before_it_counts(
    notes: UnfinishedNotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced before it gets its name, and its folder afterwards."""
    happened: list[str] = []
    real, real_replace, real_folder = platform.sync_file, platform.replace, platform.sync_directory
    monkeypatch.setattr(platform, "sync_file", lambda path: (happened.append("sync"), real(path))[1])
    monkeypatch.setattr(platform, "replace", lambda a, b: (happened.append("name"), real_replace(a, b))[1])
    monkeypatch.setattr(platform, "sync_directory", lambda path: (happened.append("folder"), real_folder(path))[1])
    notes.add(run_in(tmp_path / "one"))
    assert happened[:3] == ["sync", "name", "folder"]


def test_the_note_of_a_finished_run_is_removed(notes: UnfinishedNotes, tmp_path: Path) -> None:
    """At the end of the run that finished it, or by a sweep; reading leaves alone that of a run without a file yet."""
    one, two = run_in(tmp_path / "one"), run_in(tmp_path / "two")
    for each in (one, two):
        notes.add(each)
    notes.remove_if_done(one)
    assert len(notes.read()) == 2, "it is left"
    for each in (one, two):
        (each.folder / f"{KEY}.part").unlink()
    notes.remove_if_done(one)
    assert len(list((tmp_path / "state" / "unfinished").iterdir())) == 1
    assert notes.read() == []
    assert len(list((tmp_path / "state" / "unfinished").iterdir())) == 1
    notes.sweep()
    assert list((tmp_path / "state" / "unfinished").iterdir()) == []


def test_the_run_that_finishes_the_files_removes_the_notes_of_earlier_ones(
    notes: UnfinishedNotes, tmp_path: Path
) -> None:
    """Those of its folder with no other file; a run that has just begun with another file keeps its note."""
    first, last = run_in(tmp_path / "one", "get", "a"), run_in(tmp_path / "one", "get", "b")
    elsewhere = run_in(tmp_path / "two")
    more = UnfinishedRun(last.folder, ("get", "c"), last.cwd, {**last.files, "sha256-ab": UnfinishedFile("c", "u")})
    for each in (first, last, elsewhere, more):
        notes.add(each)
    (last.folder / f"{KEY}.part").unlink()
    notes.remove_if_done(last)
    (elsewhere.folder / "sha256-ab.part").touch()
    (last.folder / "sha256-ab.part").touch()
    assert sorted(notes.read(), key=lambda each: each.folder) == [more, elsewhere]
    assert len(list((tmp_path / "state" / "unfinished").iterdir())) == 2


def test_a_staged_archive_keeps_its_note(notes: UnfinishedNotes, tmp_path: Path) -> None:
    """A run killed between the last byte and unpacking has no part file any more, and is not finished."""
    run = run_in(tmp_path / "one", left=False)
    (run.folder / f"{'0' * 16}-x-1-0.conda").write_bytes(b"x")
    notes.add(run)
    notes.remove_if_done(run)
    assert notes.read() == [run]


def test_the_number_of_notes_is_bounded(
    notes: UnfinishedNotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest make room for new ones, and a long list of files is cut."""
    monkeypatch.setattr(module, "MOST_NOTES", 3)
    monkeypatch.setattr(module, "MOST_FILES", 1)
    first = run_in(tmp_path / "0")
    notes.add(first)
    os.utime(only(notes, tmp_path), (0, 0))
    for number in range(1, 4):
        notes.add(run_in(tmp_path / str(number)))
    assert sorted(each.cwd.name for each in notes.read()) == ["1", "2", "3"]
    many = UnfinishedRun(first.folder, ("x",), first.cwd, {**first.files, "md5-1": UnfinishedFile("y", "https://h/y")})
    notes.add(many)
    assert [len(each.files) for each in notes.read() if each.command == ("x",)] == [1]


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{", "{}", "[" * 100_000, '{"schema": 2}', '{"schema": 1}', "\udcff",
        *(
            json.dumps({"schema": 1, "folder": "/x/.resume-dl", "command": [], "cwd": "/x", "files": {}, **wrong})
            for wrong in (
                {"folder": "/etc"}, {"folder": "relative/.resume-dl"}, {"folder": 5}, {"folder": "/x\0/.resume-dl"},
                {"command": "get"}, {"command": [1]}, {"cwd": "x"}, {"files": []}, {"files": {"../../etc": {}}},
                {"files": {"k": {"filename": "f", "url": "u", "size": -1}}},
                {"files": {"k": {"filename": "f", "url": "u", "size": True}}},
                {"files": {"k": {"filename": "f" * 9000, "url": "u", "size": 1}}},
                {"files": {"a/b": {"filename": "f", "url": "u", "size": 1}}},
                {"files": {"..": {"filename": "f", "url": "u", "size": 1}}},
                {"command": ["\ud800"]},
            )
        ),
    ],
)  # fmt: skip
def test_notes_of_another_form_are_ignored(text: str, notes: UnfinishedNotes, tmp_path: Path) -> None:
    """Whatever stands in a note, reading it raises nothing, and it names no folder that is not one of part files."""
    good = run_in(tmp_path / "one")
    notes.add(good)
    (tmp_path / "state" / "unfinished" / "other.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert notes.read() == [good]


def test_links_pipes_and_large_files_are_not_read(
    notes: UnfinishedNotes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note is a regular, small file: a link to one elsewhere is none, a pipe holds nobody up."""
    good = run_in(tmp_path / "one")
    notes.add(good)
    folder = tmp_path / "state" / "unfinished"
    only(notes, tmp_path).rename(tmp_path / "elsewhere.json")
    (folder / "link.json").symlink_to(tmp_path / "elsewhere.json")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    assert notes.read() == []
    assert (tmp_path / "elsewhere.json").exists()
    notes.add(good)
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    assert notes.read() == []


def test_a_state_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    """Notes only inform."""
    (tmp_path / "file").write_text("")
    notes = UnfinishedNotes(tmp_path / "file" / "unfinished")
    notes.add(run_in(tmp_path / "one"))
    assert notes.read() == []

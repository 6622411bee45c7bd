"""Small files that only inform: pins, packages fetched ahead, staged archives, notes of unfinished runs."""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone

import pytest

from resume_dl.caches.conda.prefetched import Prefetched, forget_prefetched, note_prefetched, read_prefetched
from resume_dl.errors import NotWritableError, UntrustedFolderError
from resume_dl.model.url import RedactedUrl
from resume_dl.store import unfinished_runs as module
from resume_dl.store.pins import Pin, Pins
from resume_dl.store.staged import staged_archives, staged_name, staged_path, staged_prefix
from resume_dl.store.unfinished_runs import UnfinishedFile, UnfinishedNotes, UnfinishedRun
from resume_dl.store.work_folder import check_work_folder, is_trusted, make_work_folder
from store.packages import FOLDER, package

# --- pins

NAMELESS = package(sha256=None, md5=None)


def test_a_pin_is_found_again(tmp_path):
    """Its sha256, today's date and the file; another address has none."""
    pins = Pins(tmp_path / "state" / "pins")
    assert pins.find(NAMELESS) is None
    pins.add(NAMELESS, "ab" * 32)
    found = pins.find(NAMELESS)
    assert isinstance(found, Pin)
    assert found.sha256 == "ab" * 32
    assert found.first_seen == datetime.now(timezone.utc).date().isoformat()
    assert found.path.parent == tmp_path / "state" / "pins"
    assert json.loads(found.path.read_text())["url"] == str(NAMELESS.url)
    assert pins.find(package(sha256=None, md5=None, url=RedactedUrl("https://h/other"))) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"sha256": "x", "first_seen": ""}', '{"sha256": 5}', "\udcff"])
def test_an_unreadable_pin_is_ignored(tmp_path, text):
    pins = Pins(tmp_path)
    pins.add(NAMELESS, "0" * 64)
    pins.find(NAMELESS).path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert pins.find(NAMELESS) is None


def test_an_artifact_with_a_digest_cannot_be_pinned(tmp_path):
    for use in (Pins(tmp_path).find, lambda what: Pins(tmp_path).add(what, "0" * 64)):
        with pytest.raises(AssertionError):
            use(package())


def test_pins_that_cannot_be_kept_are_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotWritableError, match="cannot be written") as caught:
        Pins(tmp_path / "file" / "pins").add(NAMELESS, "0" * 64)
    assert "permissions" in caught.value.hint


# --- the folder of unfinished files


def test_the_work_folder_is_created_or_checked(tmp_path):
    """Made private with what is above it; trusted while it is, refused with what to do where others may write."""
    folder = tmp_path / "pkgs" / FOLDER
    assert not is_trusted(folder)
    check_work_folder(folder)  # there is none: nothing is wrong
    make_work_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    assert is_trusted(folder) is True
    check_work_folder(folder)
    make_work_folder(folder)
    folder.chmod(0o777)
    assert is_trusted(folder) is False
    for use in (check_work_folder, make_work_folder):
        with pytest.raises(UntrustedFolderError, match="it is not used") as caught:
            use(folder)
        assert "remove it" in caught.value.hint
    folder.rmdir()
    folder.symlink_to("absent")
    with pytest.raises(UntrustedFolderError, match="is a link"):
        check_work_folder(folder)


# --- archives that wait for their name


def test_staged_archives_are_listed(tmp_path):
    """Named by the first digits of the key; only regular files of such names in a folder of ours are listed."""
    folder = tmp_path / FOLDER
    assert staged_prefix("sha256-0123456789abcdefXYZ") == "0123456789abcdef"
    assert staged_name(package()) == f"{package().sha256[:16]}-a-1-0.conda"
    assert staged_path(tmp_path, package()) == folder / staged_name(package())
    assert staged_archives(folder) == []
    folder.mkdir(mode=0o700)
    names = [f"{'0' * 16}-b.tar.bz2", f"{'1' * 16}-a.whl", f"{'2' * 16}-c.tar.gz", staged_name(package())]
    for name in [*names, f"{'3' * 15}-a.whl", f"{'4' * 16}-a.zip", f"{'5' * 16}.whl", "copy-1"]:
        (folder / name).write_bytes(b"")
    (folder / f"{'6' * 16}-a.whl").mkdir()
    (folder / f"{'7' * 16}-a.whl").symlink_to("copy-1")
    assert staged_archives(folder) == sorted(folder / name for name in names)
    folder.chmod(0o777)
    assert staged_archives(folder) == []


# --- packages fetched ahead


def ahead(pkgs, prefix, name="a-1-0", extension=".conda", *, unpacked=True):
    (pkgs / FOLDER).mkdir(mode=0o700, exist_ok=True)
    if unpacked:
        (pkgs / name).mkdir()
    return Prefetched(pkgs, name + extension, 7, prefix)


def test_prefetched_packages_are_listed(tmp_path):
    """Noted and read again; what the environment has by now, or the cache no more, is forgotten."""
    pkgs, prefix = tmp_path / "pkgs", tmp_path / "env"
    pkgs.mkdir()
    kinds = {"waits": ".conda", "old": ".tar.bz2", "installed": ".conda", "gone": ".conda"}
    each = {name: ahead(pkgs, prefix, name, kind, unpacked=name != "gone") for name, kind in kinds.items()}
    assert read_prefetched(pkgs) == []
    note_prefetched(each.values())
    (prefix / "conda-meta").mkdir(parents=True)
    (prefix / "conda-meta/installed.json").write_text("{}")
    assert read_prefetched(pkgs) == [each["old"], each["waits"]]
    assert each["old"].note.name == "ahead-old.json"
    assert [one.note.exists() for one in each.values()] == [True, True, False, False]
    forget_prefetched(pkgs)
    assert read_prefetched(pkgs) == []
    assert list((pkgs / FOLDER).iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", '{"size": 1}', '{"filename": "a", "size": "x", "prefix": "/"}'])
def test_malformed_notes_are_removed(tmp_path, text):
    """Those that are stay, whichever comes first."""
    good = ahead(tmp_path, tmp_path / "env", "m-1-0")
    note_prefetched([good])
    for name in ("ahead-a.json", "ahead-z.json"):
        (tmp_path / FOLDER / name).write_text(text)
    assert read_prefetched(tmp_path) == [good]
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["ahead-m-1-0.json"]


def test_notes_in_a_folder_that_others_write_to_are_neither_read_nor_written(tmp_path):
    good, other = ahead(tmp_path, tmp_path / "env"), ahead(tmp_path, tmp_path / "env", "b-1-0")
    note_prefetched([good])
    (tmp_path / FOLDER).chmod(0o777)
    note_prefetched([other])
    assert read_prefetched(tmp_path) == []
    forget_prefetched(tmp_path)
    assert [path.name for path in (tmp_path / FOLDER).iterdir()] == ["ahead-a-1-0.json"]


# --- unfinished runs

KEY = "sha256-" + "0" * 64


def a_note(tmp_path):
    """The one note of a run of which a part file is left: where it lies, what it says, what is read of it."""
    parts = tmp_path / FOLDER
    parts.mkdir()
    (parts / f"{KEY}.part").write_bytes(b"x")
    run = UnfinishedRun(
        parts, ("resume-dl", "get", "x"), tmp_path, {KEY: UnfinishedFile("x.bin", "https://h/x.bin", 7)}
    )
    notes = UnfinishedNotes(tmp_path / "state" / "unfinished")
    notes.add(run)
    (path,) = (tmp_path / "state" / "unfinished").iterdir()
    return notes, path, run


def test_notes_are_private(tmp_path):
    _, path, _ = a_note(tmp_path)
    assert path.parent.stat().st_mode & 0o777 == 0o700


def in_file(**change):
    return lambda value: value["files"][KEY].update(change)


def renamed(key):
    return lambda value: value["files"].update({key: value["files"][KEY]})


@pytest.mark.parametrize(
    ("change", "readable"),
    [
        (lambda value: None, True),
        (lambda value: value.update(schema=2), False),
        (lambda value: value.update(cwd="x"), False),
        (lambda value: value.update(cwd="/x\0"), False),
        (lambda value: value.update(command="get"), False),
        (lambda value: value.update(command=[1]), False),
        (lambda value: value.update(command=["\ud800"]), False),
        (lambda value: value.update(command=["x" * 8192]), True),
        (lambda value: value.update(command=["x" * 8193]), False),
        (in_file(size=None), True),
        (in_file(size=0), True),
        (in_file(size=-1), False),
        (in_file(size=True), False),
        (in_file(size="7"), False),
        (in_file(filename=7), False),
        (in_file(url="\0"), False),
        (renamed("a/b"), False),
        (renamed("a\\b"), False),
        (renamed(".."), False),
        (renamed("."), False),
        (renamed(""), False),
        (renamed("another"), True),
    ],
)
def test_a_note_is_read_only_in_the_form_that_we_write(tmp_path, change, readable):
    """One thing wrong in it, and a sweep forgets it though something of it is left."""
    notes, path, _ = a_note(tmp_path)
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))
    assert [each.folder for each in notes.read()] == ([tmp_path / FOLDER] if readable else [])
    assert path.exists()
    notes.sweep()
    assert path.exists() is readable


@pytest.mark.parametrize(("name", "readable"), [("parts", True), (FOLDER, True), ("other", False)])
def test_only_folders_of_part_files_are_named(tmp_path, monkeypatch, name, readable):
    """And only by their whole path: ``clean`` removes there."""
    notes, path, _ = a_note(tmp_path)
    (tmp_path / FOLDER).rename(tmp_path / name)
    value = json.loads(path.read_text())
    monkeypatch.chdir(tmp_path)
    for folder, is_read in ((str(tmp_path / name), readable), (name, False)):
        path.write_text(json.dumps({**value, "folder": folder}))
        assert bool(notes.read()) is is_read


def test_a_note_of_the_longest_length_is_read_and_a_longer_one_not_written(tmp_path, monkeypatch):
    notes, path, run = a_note(tmp_path)
    length = path.stat().st_size
    monkeypatch.setattr(module, "MOST_BYTES", length)
    assert notes.read() == [run]
    path.unlink()
    notes.add(run)
    assert notes.read() == [run]
    path.unlink()
    monkeypatch.setattr(module, "MOST_BYTES", length - 1)
    notes.add(run)
    assert not path.exists()


def test_the_oldest_note_is_removed_for_a_new_one(tmp_path, monkeypatch):
    """The oldest goes and no other; a note that is replaced needs no room, and other files do not count."""
    notes, path, run = a_note(tmp_path)
    monkeypatch.setattr(module, "MOST_NOTES", 3)
    (path.parent / "readme.txt").write_text("")
    commands = [("one",), ("two",), ("three",)]
    for number, command in enumerate(commands[:2]):
        notes.add(UnfinishedRun(run.folder, command, run.cwd, run.files))
        for other in path.parent.glob("*.json"):
            os.utime(other, (other.stat().st_mtime - 100, other.stat().st_mtime - 100 + number))
    assert len(notes.read()) == 3
    notes.add(run)  # the oldest, once more
    assert len(notes.read()) == 3
    notes.add(UnfinishedRun(run.folder, commands[2], run.cwd, run.files))
    assert {each.command for each in notes.read()} == {run.command, ("two",), ("three",)}
    assert (path.parent / "readme.txt").exists()

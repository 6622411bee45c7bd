"""``adopt``: what browsers and download managers leave becomes packages; nginx counts what is fetched afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from resume_dl.store.part import FOLDER
from support.adopting import MIB, SIZE, Place


def holes(data: bytes, *ranges: tuple[int, int]) -> bytes:
    """The file as a program leaves it that reserved all of it first: zeros where it has nothing."""
    left = bytearray(data)
    for start, end in ranges:
        left[start:end] = bytes(end - start)
    return bytes(left)


def wrong_at(data: bytes, at: int) -> bytes:
    return data[:at] + bytes(256 - (byte or 1) for byte in data[at : at + 8]) + data[at + 8 :]


@dataclass(frozen=True)
class Case:
    """``make`` puts the files and returns what is named on the command line."""

    make: Callable[[Place], list[Path]]
    statuses: list[str]
    code: int = 0
    package: str = "big"
    missing: int | None = None
    """Bytes that a fetch afterwards must get, 1 MiB more at most; None: no fetch afterwards."""
    says: str = ""


def _one(name: str, package: str = "big", change: Callable[[bytes], bytes] = bytes, notes: tuple[str, ...] = ()):
    """One file, ``{}`` in its name and in those of the notes beside it is the package's."""

    def make(place: Place) -> list[Path]:
        for note in notes:
            place.put(note.format(place.name(package)), b"\0\1notes of the program")
        return [place.put(name.format(place.name(package)), change(place.whole(package)))]

    return make


def _folder(place: Place) -> list[Path]:
    place.put("photo.jpg", b"\xff\xd8\xff" + bytes(100))
    place.put("thesis.tar.bz2", b"BZh9" + bytes(100))
    place.put("old (2).bin", place.whole("little"))
    place.put(place.name("tiny"), place.whole("tiny"))
    place.put(place.name("wide"), place.whole("wide"))
    (place.folder / "inner").mkdir()
    shutil.copyfile(place.offer.files["big"], place.folder / "inner" / place.name("big"))
    return [place.folder]


def _link(place: Place) -> list[Path]:
    link = place.folder / place.name("big")
    link.symlink_to(place.offer.files["big"])
    return [link]


def _fifo(place: Place) -> list[Path]:
    os.mkfifo(place.folder / place.name("big"))
    return [place.folder / place.name("big")]


def _safari(place: Place) -> list[Path]:
    bundle = place.folder / f"{place.name('big')}.download"
    bundle.mkdir()
    (bundle / place.name("big")).write_bytes(place.whole("big")[: 8 * MIB])
    return [place.folder]


def _cut(count: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:count]


NINE_TENTHS = SIZE * 9 // 10
CASES = {
    "complete .conda": Case(_one("{}"), ["adopted"], missing=0),
    "complete .tar.bz2": Case(_one("{}", "old"), ["adopted"], package="old", missing=0),
    "a second copy": Case(_one("big-1.0-h1_0(1).conda"), ["adopted"], missing=0),
    "a copy with a blank": Case(_one("big-1.0-h1_0 (1).conda"), ["adopted"], missing=0),
    "renamed .conda": Case(_one("from a friend"), ["adopted"], missing=0),
    "renamed .tar.bz2": Case(_one("x.zip", "little"), ["adopted"], package="little", missing=0),
    "90 % by Chrome": Case(_one("{}.crdownload", change=_cut(NINE_TENTHS)), ["started"], missing=SIZE - NINE_TENTHS),
    "90 % without its name": Case(
        _one("Unconfirmed 4711.crdownload", change=_cut(NINE_TENTHS)), ["started"], missing=SIZE - NINE_TENTHS
    ),
    "90 % of a .tar.bz2": Case(
        _one("{}.crdownload", "old", _cut(NINE_TENTHS)), ["started"], package="old", missing=SIZE - NINE_TENTHS
    ),
    "half by Firefox": Case(_one("{}.part", change=_cut(6 * MIB)), ["started"], missing=6 * MIB),
    "cut off": Case(_one("{}", change=_cut(6 * MIB + 77)), ["started"], missing=6 * MIB),
    "Safari": Case(_safari, ["started"], missing=4 * MIB),
    "Xunlei, .td": Case(
        _one("{}.td", change=lambda data: holes(data, (5 * MIB, len(data))), notes=("{}.td.cfg",)),
        ["started"],
        missing=7 * MIB,
    ),
    "Xunlei, .xltd with holes": Case(
        _one("{}.xltd", change=lambda data: holes(data, (MIB, 2 * MIB), (7 * MIB, 9 * MIB)), notes=("{}.xltd.cfg",)),
        ["started"],
        missing=3 * MIB,
    ),
    "aria2 with holes": Case(
        _one("{}", change=lambda data: holes(data, (0, MIB), (4 * MIB + 5000, 6 * MIB)), notes=("{}.aria2",)),
        ["started"],
        missing=3 * MIB,
    ),
    "unfinished wheel": Case(_one("{}.crdownload", "wide", _cut(3 * MIB)), ["started"], package="wide", missing=MIB),
    "wheel": Case(_one("{}", "wide"), ["adopted"], package="wide", missing=0),
    "renamed wheel": Case(_one("download", "wide"), ["adopted"], package="wide", missing=0),
    "wrong bytes, .conda": Case(_one("{}", change=lambda data: wrong_at(data, 3 * MIB)), ["started"], missing=SIZE),
    "wrong bytes, cut off": Case(
        _one("{}", "old", lambda data: wrong_at(data, 3 * MIB)[:NINE_TENTHS]),
        ["started"],
        package="old",
        missing=SIZE + SIZE - NINE_TENTHS,
    ),
    "wrong bytes, .tar.bz2": Case(
        _one("{}", "old", lambda data: wrong_at(data, 3 * MIB)),
        ["failed"],
        package="old",
        code=4,
        missing=SIZE,
        says="nothing in it proves",
    ),
    "a web page": Case(
        _one("{}", change=lambda _: b"<!DOCTYPE html><html>sign in</html>"), ["failed"], code=4, says="is no conda"
    ),
    "too long": Case(_one("{}", change=lambda data: data + bytes(10)), ["failed"], code=4, says="more than"),
    "empty": Case(_one("{}", change=_cut(0)), ["failed"], code=4, says="no byte"),
    "not in an index": Case(_one("other-1.0-0.conda"), ["adopted"], missing=0),  # its content says what it is
    "of another channel": Case(
        _one("foreign-1.0-0.conda", change=lambda _: b"PK\3\4" + bytes(9999)), ["failed"], code=3, says="no index lists"
    ),
    "nothing known": Case(_one("song.mp3", change=lambda _: b"ID3" + bytes(99)), ["failed"], code=3, says="neither"),
    "missing": Case(lambda place: [place.folder / "no.conda"], ["failed"], code=5, says="cannot be read"),
    "link": Case(_link, ["failed"], code=2, says="is a link"),
    "pipe": Case(_fifo, ["failed"], code=2, says="not a regular file"),
    "folder": Case(_folder, ["adopted", "adopted", "adopted"], package="little", missing=0),
}


def content(folder: Path) -> dict[str, tuple[int, int]]:
    """What is in the folder of downloads: sizes and times of change, of links and pipes too."""
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in folder.rglob("*")}


@pytest.mark.nginx
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_what_other_programs_have_fetched(place, case):
    """The files stay as they are, the JSON object says what became of each, and fetch gets only what is missing."""
    named = case.make(place)
    before = content(place.folder)
    done = place.adopt(*named)
    assert done.code == case.code, done.err
    files = done.report["files"]
    assert [each["status"] for each in files] == case.statuses, done.err
    assert content(place.folder) == before
    assert case.says in done.err
    assert all(str(place.folder) in each["path"] for each in files)
    assert place.nginx.archive_requests() == []
    if case.missing is None:
        assert place.user.archives() == set()
        return
    place.nginx.reset_log()
    request = ["--pip", "wide==1.5", *place.options] if case.package == "wide" else [case.package]
    # one connection: of answers that are left to a faster one, nginx counts what only the kernel had buffered
    fetched = place.user.fetch(*request, "--no-deps", "--json", "--connections", "1")
    assert fetched.code == 0, fetched.err
    (artifact,) = fetched.report["artifacts"]
    assert Path(artifact["path"]).read_bytes() == place.whole(case.package)
    totals = fetched.report["totals"]
    assert totals["downloaded"] + totals["wasted"] <= case.missing + MIB * bool(case.missing)
    assert place.nginx.body_bytes() <= case.missing + MIB * bool(case.missing)


@pytest.mark.nginx
def test_a_dry_run_changes_nothing(place):
    """It says what would be adopted; the places of packages and wheels do not come into being."""
    for name, change in {"{}": bytes, "{}.crdownload": _cut(6 * MIB)}.items():
        _one(name, change=change)(place)
    _one("{}", "wide")(place)
    before = content(place.folder)
    done = place.adopt("--dry-run", place.folder)
    assert done.code == 0, done.err
    found = {Path(each["path"]).name: each for each in done.report["files"]}
    assert [each["status"] for each in found.values()] == ["planned"] * 3
    assert [each["whole"] for each in found.values()] == [True, False, True]
    assert found[f"{place.name('big')}.crdownload"]["bytes"] == 6 * MIB
    assert (content(place.folder), place.user.archives()) == (before, set())
    assert not (place.user.pkgs / FOLDER).exists()
    assert not (place.user.folder.parent / "wheels").exists()


@pytest.mark.nginx
def test_the_object_and_the_command_that_continues(place):
    """``--json`` has each file; ``status`` knows the unfinished one, and ``resume`` finishes it."""
    unfinished = place.put(f"{place.name('big')}.part", place.whole("big")[: 6 * MIB])
    done = place.adopt(unfinished, place.put(place.name("tiny"), place.whole("tiny")))
    assert done.code == 0, done.err
    started, adopted = done.report["files"]
    assert started == {
        "path": str(unfinished),
        "status": "started",
        "filename": place.name("big"),
        "size": len(place.whole("big")),
        "bytes": 6 * MIB,
        "whole": False,
        "error": None,
    }
    assert (adopted["status"], adopted["whole"], adopted["bytes"]) == ("adopted", True, len(place.whole("tiny")))
    (artifact,) = done.report["artifacts"]
    assert (artifact["status"], artifact["verified_by"]) == ("adopted", "digest")
    assert (place.user.pkgs / "tiny-0.3-0" / "info" / "repodata_record.json").is_file()
    assert "big=1.0=h1_0" in done.report["next_command"]
    again = place.adopt(unfinished, place.folder / place.name("tiny"))
    assert [each["status"] for each in again.report["files"]] == ["here", "here"]
    (left,) = place.user.run("status", "--json").report["unfinished"]
    assert left["filename"] == place.name("big")
    assert left["done"] == 6 * MIB
    resumed = place.user.run("resume", "--json")
    assert resumed.code == 0, resumed.err
    assert (place.user.pkgs / place.name("big")).read_bytes() == place.whole("big")

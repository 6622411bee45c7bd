"""Parts: of at most so many bytes, listed with digests, nobody else's files in danger, a killed split repeated."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from bundle.files import MIB, NAMES, make, names_in, run_command, some_file
from resume_dl.bundle.parts import most_of, script, split_file, split_members
from resume_dl.bundle.tar import bundle_members, in_order, tar_blocks, write_tar
from resume_dl.errors import (
    ConfigurationError,
    IntegrityError,
    Interrupted,
    OutOfSpaceError,
    ResumeDLError,
    SizeMismatchError,
    StoreError,
)
from resume_dl.offline_tools.parts.join_parts import join
from resume_dl.offline_tools.parts.parts_list import read_list
from resume_dl.offline_tools.tarred.unpack_tar import unpack
from support.hand_bundle import hand_bundle
from support.killing import exit_code_of, kill_at
from support.processes import WAS_KILLED


def check_set(folder: Path, name: str, data: bytes, most: int) -> None:
    """The folder holds exactly the parts of ``data``, and the list says so."""
    whole = read_list(folder / f"{name}.parts.json")
    assert (whole.name, whole.size, whole.sha256) == (name, len(data), hashlib.sha256(data).hexdigest())
    pieces = [data[offset : offset + most] for offset in range(0, len(data), most)]
    expected = [(f"{name}.{n:03d}", len(piece), hashlib.sha256(piece).hexdigest()) for n, piece in enumerate(pieces, 1)]
    assert [(part.name, part.size, part.sha256) for part in whole.parts] == expected
    assert [(folder / part.name).read_bytes() for part in whole.parts] == pieces
    others = {"join.py", f"{name}.parts.json"}
    assert {each for each in names_in(folder) if each.startswith(name) or each == "join.py"} - {name} == others | {
        part.name for part in whole.parts
    }
    assert (folder / "join.py").read_bytes() == script()


@pytest.mark.parametrize(
    ("size", "most"), [(20 * MIB + 5, 8 * MIB), (16 * MIB, 8 * MIB), (1, 8), (100, 1), (8 * MIB - 1, 8 * MIB)]
)
def test_a_file_is_cut_and_stays(size: int, most: int, tmp_path: Path) -> None:
    file = some_file(tmp_path / "X ü.tar", size)
    data, told = file.read_bytes(), []
    split_file(file, tmp_path, size=most, progress=told.append)
    check_set(tmp_path, "X ü.tar", data, most)
    assert file.read_bytes() == data
    assert sum(told) == size


def test_more_than_999_parts_have_four_digits(tmp_path: Path) -> None:
    whole = split_file(some_file(tmp_path / "X.tar", 1000), tmp_path, size=1)
    assert (whole.parts[0].name, whole.parts[-1].name) == ("X.tar.0001", "X.tar.1000")
    assert join(tmp_path / "X.tar.0001", tmp_path / "Y.tar").joined


def test_a_tar_goes_into_parts_without_a_whole_one(tmp_path: Path) -> None:
    members = in_order(make(tmp_path / "files", NAMES))
    (tmp_path / "out").mkdir()
    split_members(members, tmp_path / "out", "X.tar", size=5000)
    write_tar(members, tmp_path / "X.tar")
    check_set(tmp_path / "out", "X.tar", (tmp_path / "X.tar").read_bytes(), 5000)
    assert b"".join(bytes(block) for block in tar_blocks(members)) == (tmp_path / "X.tar").read_bytes()


@pytest.mark.parametrize("number", [0, len(NAMES) - 1])
def test_a_file_that_changed_leaves_no_parts(number: int, tmp_path: Path) -> None:
    members = make(tmp_path / "files", [*NAMES[:-1], "zuletzt"])
    path = members[number].source
    path.write_bytes(b"!" + path.read_bytes()[1:])
    (tmp_path / "out").mkdir()
    with pytest.raises(IntegrityError):
        split_members(members, tmp_path / "out", "X.tar", size=5000)
    assert not list((tmp_path / "out").iterdir())


def test_four_gib_is_one_byte_less_for_fat32() -> None:
    assert most_of(4 * 1024**3) == 2**32 - 1
    assert most_of(8 * MIB) == 8 * MIB
    assert most_of(5 * 1024**3) == 5 * 1024**3


@pytest.mark.parametrize("name", ["X.tar.001", "X.tar.003", "X.tar.parts.json", "join.py"])
def test_a_foreign_file_is_not_touched(name: str, tmp_path: Path) -> None:
    file = some_file(tmp_path / "X.tar", 300)
    (tmp_path / name).write_text("print('mine')")
    before = names_in(tmp_path)
    with pytest.raises(StoreError, match=name):
        split_file(file, tmp_path, size=100)
    assert names_in(tmp_path) == before
    assert (tmp_path / name).read_text() == "print('mine')"


def test_a_list_of_another_name_gives_no_right_to_its_files(tmp_path: Path) -> None:
    other = some_file(tmp_path / "Y.tar", 300)
    split_file(other, tmp_path, size=100)
    for suffix in ("", ".unfinished"):
        (tmp_path / f"X.tar.parts.json{suffix}").write_bytes((tmp_path / "Y.tar.parts.json").read_bytes())
    with pytest.raises(StoreError, match=r"X.tar.parts.json"):
        split_file(some_file(tmp_path / "X.tar", 300), tmp_path, size=100)
    check_set(tmp_path, "Y.tar", other.read_bytes(), 100)


def test_an_earlier_split_is_replaced_whole(tmp_path: Path) -> None:
    split_file(some_file(tmp_path / "X.tar", 1000), tmp_path, size=100)
    file = some_file(tmp_path / "X.tar", 900, seed=2)
    split_file(file, tmp_path, size=300)
    check_set(tmp_path, "X.tar", file.read_bytes(), 300)


def test_an_earlier_split_stays_where_the_next_one_fails(tmp_path: Path) -> None:
    file = some_file(tmp_path / "X.tar", 1000)
    data = file.read_bytes()
    split_file(file, tmp_path, size=100)
    with pytest.raises(Interrupted):
        split_file(file, tmp_path, size=300, cancelled=lambda: True)
    check_set(tmp_path, "X.tar", data, 100)


@pytest.mark.parametrize("grown", [-1, 1])
def test_a_file_that_changes_meanwhile_is_refused(grown: int, tmp_path: Path) -> None:
    file = some_file(tmp_path / "X.tar", 3 * MIB)

    def change(_: int) -> None:
        os.truncate(file, 3 * MIB + grown)

    with pytest.raises(SizeMismatchError):
        split_file(file, tmp_path, size=MIB, progress=change)
    assert names_in(tmp_path) == ["X.tar"]


@pytest.mark.parametrize(
    ("name", "size", "most"),
    [("X.tar", 0, 100), ("X.tar", 10000, 1), ("X.tar", 10, 0), ("CON.tar", 10, 5), ("a\nb", 10, 5), ("a:b", 10, 5)],
)
def test_parts_that_join_could_not_read_are_not_made(name: str, size: int, most: int, tmp_path: Path) -> None:
    if sys.platform == "win32" and size:
        pytest.skip("no such file can be made here")
    file = some_file(tmp_path / name, size)
    with pytest.raises(ConfigurationError):
        split_file(file, tmp_path, size=most)
    assert names_in(tmp_path) == [name]


def test_room_is_looked_at_before(tmp_path: Path) -> None:
    def told(_: int) -> None:
        raise AssertionError("a byte was written")

    with (tmp_path / "X.tar").open("wb") as file:
        file.truncate(2**42)  # sparse
    with pytest.raises(OutOfSpaceError):
        split_file(tmp_path / "X.tar", tmp_path, size=2**40, progress=told)
    assert names_in(tmp_path) == ["X.tar"]


def split_until(number: int, file: Path, size: int) -> None:
    """Split the file, killed at this file operation."""
    script()
    kill_at(number)
    split_file(file, file.parent, size=size)


@pytest.mark.parametrize("earlier", [False, True])
def test_killed_at_any_moment_and_repeated(earlier: bool, tmp_path: Path) -> None:
    """At each file operation in turn: with the list there all parts are whole, and the next run succeeds."""
    number, killed = 0, True
    while killed:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        file = some_file(folder / "X.tar", 1000)
        if earlier:
            split_file(file, folder, size=200)
            some_file(file, 1000, seed=2)
        code = exit_code_of(split_until, number, file, 300)
        assert code in {0, WAS_KILLED}
        killed = code == WAS_KILLED
        if (folder / "X.tar.parts.json").exists():
            whole = read_list(folder / "X.tar.parts.json")
            there = [part for part in whole.parts if (folder / part.name).exists()]
            assert earlier or len(there) == len(whole.parts)
            for part in there:
                assert hashlib.sha256((folder / part.name).read_bytes()).hexdigest() == part.sha256
        split_file(file, folder, size=400)
        check_set(folder, "X.tar", file.read_bytes(), 400)
    assert number > (20 if earlier else 12)


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("needs getrusage")
    code = """
import resource, sys
from pathlib import Path
from resume_dl.bundle.parts import split_file
from resume_dl.offline_tools.parts.join_parts import join
split_file(Path("X.tar"), Path("."), size=int(sys.argv[1]) // 3)
join(Path("X.tar.parts.json"), Path("Y.tar"))
try:
    print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])  # of this program alone: Linux
except OSError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)  # counts what forked it too
"""
    peaks = []
    for size in (2 * MIB, 66 * MIB):
        folder = tmp_path / str(size)
        folder.mkdir()
        with (folder / "X.tar").open("wb") as file:
            file.truncate(size)
        arguments = [sys.executable, "-c", code, str(size)]
        ran = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=True, timeout=120)
        peaks.append(int(ran.stdout) * (1 if sys.platform == "darwin" else 1024))
    assert peaks[1] - peaks[0] < 8 * MIB


@pytest.mark.parametrize(
    ("size", "expected"), [("8MiB", 8 * MIB), ("700kB", 700_000), ("4GiB", 9 * MIB)], ids=["8MiB", "700kB", "4GiB"]
)
def test_the_command(size: str, expected: int, tmp_path: Path) -> None:
    file = some_file(tmp_path / "X.tar", 9 * MIB)
    out = tmp_path / "new" / "folder"
    ran = run_command("split", file, "--size", size, "-o", out, "--json")
    assert ran.returncode == 0, ran
    check_set(out, "X.tar", file.read_bytes(), expected)
    said = json.loads(ran.stdout)
    whole = read_list(Path(said["path"]))
    assert said["parts"] == [{"name": each.name, "size": each.size, "sha256": each.sha256} for each in whole.parts]
    assert (said["ok"], said["size"], said["sha256"]) == (True, whole.size, whole.sha256)


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["X.tar", "--size", "small"], 2, "small"),
        (["X.tar", "--size", "0"], 2, "0"),
        (["nothing.tar"], 2, "nothing.tar"),
        (["X.tar", "--size", "1"], 2, "larger parts"),
        (["X.tar", "--size", "1MB", "-o", "X.tar"], 5, "X.tar"),
    ],
)
def test_wrong_usage_of_the_command(arguments: list[str], code: int, word: str, tmp_path: Path) -> None:
    some_file(tmp_path / "X.tar", 20000)
    ran = run_command("split", *arguments, cwd=tmp_path)
    assert ran.returncode == code, ran
    assert word in ran.stderr
    assert "Traceback" not in ran.stderr
    assert names_in(tmp_path) == ["X.tar"]


def test_every_error_is_a_resume_dl_error(tmp_path: Path) -> None:
    with pytest.raises(ResumeDLError, match="not there"):
        split_file(tmp_path / "not there", tmp_path, size=5)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    hand_bundle(tmp_path / "lab ü")
    return tmp_path / "lab ü"


def test_a_bundles_folder_becomes_parts_that_are_a_bundle_again(bundle: Path, tmp_path: Path) -> None:
    (bundle / ".DS_Store").write_bytes(b"only warned of, and left out")
    write_tar(bundle_members(bundle), tmp_path / "expected.tar")
    ran = run_command("split", ".", "--size", "4kB", cwd=bundle)
    assert ran.returncode == 0, ran
    check_set(tmp_path, "lab ü.tar", (tmp_path / "expected.tar").read_bytes(), 4000)
    ran = run_command("join", tmp_path)
    assert ran.returncode == 0, ran
    report = unpack(tmp_path / "lab ü.tar", tmp_path / "arrived")
    assert (report.problems, report.warnings) == ([], [])
    there = {path.relative_to(tmp_path / "arrived") for path in (tmp_path / "arrived").rglob("*")}
    assert there == {path.relative_to(bundle) for path in bundle.rglob("*")} - {Path(".DS_Store")}


@pytest.mark.parametrize("where", ["a wheel", "SHA256SUMS"])
def test_a_damaged_bundle_is_not_split(where: str, bundle: Path, tmp_path: Path) -> None:
    path = bundle / "SHA256SUMS" if where == "SHA256SUMS" else next(bundle.glob("wheels/*.whl"))
    lines = path.read_bytes().split(b"\n", 1)
    path.write_bytes(lines[1] if where == "SHA256SUMS" else b"!")  # a file that no sum names would just be left out
    ran = run_command("split", bundle, "--json")
    assert ran.returncode == 4, ran
    assert path.name in json.loads(ran.stdout)["error"]["message"]
    assert names_in(tmp_path) == [bundle.name]


def test_parts_do_not_go_into_the_bundle(bundle: Path) -> None:
    for folder in (bundle, bundle / "wheels", bundle / "new"):
        ran = run_command("split", bundle, "-o", folder)
        assert ran.returncode == 2, ran
    assert not list(bundle.rglob("*.parts.json"))
    assert not (bundle / "new").exists()


def test_the_epoch_of_the_environment_is_the_files_time(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert run_command("split", bundle).returncode == 0
    assert run_command("join", tmp_path).returncode == 0
    with tarfile.open(tmp_path / "lab ü.tar") as opened:
        assert {each.mtime for each in opened.getmembers()} == {1700000000}

"""join.py: names each part to copy again, keeps the good ones, believes digests alone; run as people run it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bundle.files import MIB, NAMES, make, names_in, run_command, some_file
from resume_dl.bundle.parts import split_file
from resume_dl.bundle.tar import in_order, write_tar
from resume_dl.offline_tools.parts.join_parts import join
from resume_dl.offline_tools.parts.parts_list import JoinError, read_list, self_digest
from support.killing import exit_code_of, kill_at
from support.processes import KILL, WAS_KILLED

SIZE = 20 * MIB + 12345
PYTHON = os.environ.get("RESUME_DL_TEST_STANDALONE", sys.executable)
"""Which Python runs the script; one of 3.8 does too."""
PARTS = ["X.tar.001", "X.tar.002", "X.tar.003"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("original")
    split_file(some_file(folder / "X.tar", SIZE), folder, size=8 * MIB)
    return folder


@pytest.fixture
def stick(original: Path, tmp_path: Path) -> Path:
    """The parts as they arrived, without the whole."""
    folder = tmp_path / "stick ü"
    shutil.copytree(original, folder)
    (folder / "X.tar").unlink()
    return folder


def run(folder: Path, *arguments: str | Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """The script that lies beside the parts, by a Python without our package."""
    command = [PYTHON, "-S", "-X", "utf8", folder / "join.py", *arguments]
    env = {**os.environ, **settings}
    return subprocess.run(
        command, cwd=folder.parent, env=env, capture_output=True, text=True, timeout=120, check=False, encoding="utf-8"
    )


def check_joined(ran: subprocess.CompletedProcess[str], folder: Path, original: Path, name: str = "X.tar") -> None:
    assert (ran.returncode, ran.stderr) == (0, "")
    assert (folder / name).read_bytes() == (original / "X.tar").read_bytes()
    assert not (folder / f"{name}.joining").exists()


@pytest.mark.parametrize("what", [None, "", "X.tar.parts.json", "X.tar.002", "X.tar"])
def test_it_is_found_by_whatever_is_named(what: str | None, stick: Path, original: Path) -> None:
    check_joined(run(stick, *([] if what is None else [stick / what])), stick, original)
    assert names_in(stick) == ["X.tar", *PARTS, "X.tar.parts.json", "join.py"]


def test_in_the_current_folder_by_a_bare_name(stick: Path, original: Path) -> None:
    command = [PYTHON, "join.py", "X.tar.001", "-o", "Y.tar"]
    ran = subprocess.run(command, cwd=stick, capture_output=True, text=True, timeout=60, check=False)
    check_joined(ran, stick, original, "Y.tar")


def flip(folder: Path) -> None:
    data = bytearray((folder / "X.tar.002").read_bytes())
    data[4 * MIB] ^= 1
    (folder / "X.tar.002").write_bytes(data)


def swap(folder: Path) -> None:
    (folder / "X.tar.002").rename(folder / "kept")
    (folder / "X.tar.001").rename(folder / "X.tar.002")
    (folder / "kept").rename(folder / "X.tar.001")


def of_another(folder: Path) -> None:
    some_file(folder / "X.tar.002", 8 * MIB, seed=7)


def shorten(folder: Path) -> None:
    os.truncate(folder / "X.tar.003", 1000)


def lengthen(folder: Path) -> None:
    with (folder / "X.tar.003").open("ab") as file:
        file.write(b"!")


def a_folder(folder: Path) -> None:
    (folder / "X.tar.001").unlink()
    (folder / "X.tar.001").mkdir()


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (flip, {"X.tar.002": "its digest is wrong"}),
        (of_another, {"X.tar.002": "its digest is wrong"}),
        (swap, {"X.tar.001": "it has the content of X.tar.002", "X.tar.002": "it has the content of X.tar.001"}),
        (shorten, {"X.tar.003": "1,000 bytes instead of 4,206,649"}),
        (lengthen, {"X.tar.003": "4,206,650 bytes instead of 4,206,649"}),
        (a_folder, {"X.tar.001": "it is not a file"}),
    ],
)
def test_a_damaged_part_is_named_and_only_it_is_needed(
    damage: Callable[[Path], None], named: dict[str, str], stick: Path, original: Path
) -> None:
    damage(stick)
    ran = run(stick)
    assert ran.returncode == 4, ran
    assert "Traceback" not in ran.stderr
    for part, why in named.items():
        assert f"damaged: {part} (" in ran.stderr
        assert why in ran.stderr
        assert f"{part}  DAMAGED" in ran.stdout
    for part in set(PARTS) - set(named):
        assert part not in ran.stderr
    assert "copy" in ran.stderr
    assert not (stick / "X.tar").exists()
    for part in PARTS:  # whatever lay there is not needed any more
        if (stick / part).is_dir():
            (stick / part).rmdir()
        else:
            (stick / part).unlink()
    for part in named:
        shutil.copy(original / part, stick)
    check_joined(run(stick), stick, original)


def test_missing_parts_are_named_each_and_may_come_one_by_one(stick: Path, original: Path) -> None:
    for part in PARTS:
        (stick / part).unlink()
    left = set(PARTS)
    for part in reversed(PARTS):
        ran = run(stick)
        assert ran.returncode == 1, ran
        assert {name for name in PARTS if f"missing: {name}\n" in ran.stderr} == left
        shutil.copy(original / part, stick)
        left.discard(part)
        if left:
            assert run(stick).returncode == 1
            (stick / part).unlink()  # a stick that holds one part at a time
    check_joined(run(stick), stick, original)


def test_one_missing_and_one_damaged(stick: Path) -> None:
    flip(stick)
    (stick / "X.tar.001").unlink()
    ran = run(stick)
    assert ran.returncode == 4
    assert "of 3 parts 1 missing and 1 damaged" in ran.stderr
    assert "missing: X.tar.001\n" in ran.stderr
    assert "damaged: X.tar.002" in ran.stderr
    assert "X.tar.joining" in ran.stderr


def test_joined_bytes_are_hashed_again(stick: Path, original: Path) -> None:
    (stick / "X.tar.003").unlink()
    assert run(stick).returncode == 1
    with (stick / "X.tar.joining").open("r+b") as file:
        file.seek(9 * MIB)
        file.write(b"bits that fell over")
    (stick / "X.tar.001").unlink()
    (stick / "X.tar.002").unlink()
    shutil.copy(original / "X.tar.003", stick)
    ran = run(stick)
    assert ran.returncode == 1
    assert "missing: X.tar.002\n" in ran.stderr
    assert "missing: X.tar.001" not in ran.stderr
    shutil.copy(original / "X.tar.002", stick)
    check_joined(run(stick), stick, original)


def test_a_longer_beginning_of_another_bundle_is_written_over(stick: Path, original: Path) -> None:
    some_file(stick / "X.tar.joining", SIZE + 5 * MIB, seed=9)
    check_joined(run(stick), stick, original)


def test_a_complete_file_is_not_joined_again(stick: Path, original: Path) -> None:
    check_joined(run(stick, "--remove-parts"), stick, original)
    assert names_in(stick) == ["X.tar", "X.tar.parts.json", "join.py"]
    before = (stick / "X.tar").stat().st_mtime_ns
    check_joined(run(stick), stick, original)
    assert (stick / "X.tar").stat().st_mtime_ns == before


def test_parts_stay_where_the_whole_is_not_there(stick: Path) -> None:
    flip(stick)
    assert run(stick, "--remove-parts").returncode == 4
    assert names_in(stick) == ["X.tar.001", "X.tar.002", "X.tar.003", "X.tar.joining", "X.tar.parts.json", "join.py"]


def test_another_file_of_the_name_stays(stick: Path, original: Path, tmp_path: Path) -> None:
    (stick / "X.tar").write_bytes(b"mine")
    ran = run(stick)
    assert ran.returncode == 5
    assert "another file" in ran.stderr
    assert (stick / "X.tar").read_bytes() == b"mine"
    (tmp_path / "out").mkdir()
    check_joined(run(stick, "-o", tmp_path / "out"), tmp_path / "out", original)


@pytest.mark.skipif(sys.platform == "win32", reason="needs links")
def test_nothing_is_written_through_a_link(stick: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (stick / "X.tar.joining").symlink_to(tmp_path / "precious")
    assert run(stick).returncode == 5
    assert (tmp_path / "precious").read_bytes() == b"precious"
    (stick / "X.tar.joining").unlink()
    (stick / "X.tar").symlink_to(tmp_path / "nothing")
    assert run(stick).returncode == 5
    assert not (tmp_path / "nothing").exists()


def test_a_list_that_is_missing_is_named(stick: Path) -> None:
    (stick / "X.tar.parts.json").unlink()
    for what in (stick, stick / "X.tar.001", stick / "X.tar.parts.json", stick / "X.tar"):
        ran = run(stick, what)
        assert (ran.returncode, "X.tar.parts.json is missing" in ran.stderr) == (1, True), ran


@pytest.mark.parametrize("what", ["nothing", "empty", "two"])
def test_files_that_are_not_parts_are_wrong_usage(what: str, stick: Path) -> None:
    (stick / "empty").mkdir()
    (stick / "two").mkdir()
    for name in ("a.parts.json", "b.parts.json"):
        (stick / "two" / name).write_bytes(b"{}")
    ran = run(stick, stick / what)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert what in ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")
def test_a_list_that_is_a_pipe_is_not_waited_for(stick: Path) -> None:
    (stick / "X.tar.parts.json").unlink()
    os.mkfifo(stick / "X.tar.parts.json")
    assert run(stick).returncode == 4


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")
def test_a_part_that_is_a_pipe_is_not_waited_for(stick: Path) -> None:
    (stick / "X.tar.001").unlink()
    os.mkfifo(stick / "X.tar.001")
    ran = run(stick)
    assert (ran.returncode, "X.tar.001" in ran.stderr) == (4, True)


@pytest.mark.skipif(sys.platform == "win32", reason="no such names")
def test_names_on_the_disk_do_not_move_the_cursor(stick: Path) -> None:
    for name in ("a\x1b[2J.parts.json", "b.parts.json"):
        (stick / name).write_bytes(b"")
    ran = run(stick)
    assert (ran.returncode, "\x1b" in ran.stderr) == (2, False)
    assert "a?[2J.parts.json" in ran.stderr


def test_every_byte_of_the_list_counts(stick: Path) -> None:
    path = stick / "X.tar.parts.json"
    text, found = path.read_bytes(), read_list(path)
    blank = set()
    for place in range(len(text)):
        path.write_bytes(text[:place] + bytes([text[place] ^ 1]) + text[place + 1 :])
        if (refused := refusal(path)) is None:
            assert read_list(path) == found
            blank.add(text[place])
        else:
            assert (refused.exit_code, path.name in refused.message) == (4, True)
    assert blank <= set(b"\n ")  # one between values may be another one: what is stated is the same
    for length in range(0, len(text) - 2, 50):
        path.write_bytes(text[:length])
        with pytest.raises(JoinError, match="damaged"):
            read_list(path)
    path.write_bytes(text.replace(b"\n", b"\r\n"))  # a copy in text mode
    assert read_list(path) == found
    path.write_bytes(text[:300])
    ran = run(stick)
    assert ran.returncode == 4
    assert "X.tar.parts.json is damaged" in ran.stderr
    assert "copy X.tar.parts.json again" in ran.stderr


def refusal(path: Path) -> JoinError | None:
    try:
        read_list(path)
    except JoinError as error:
        return error
    return None


def test_a_list_of_another_bundle_is_named_too(stick: Path, tmp_path: Path) -> None:
    split_file(some_file(tmp_path / "X.tar", SIZE, seed=5), tmp_path, size=8 * MIB)
    shutil.copy(tmp_path / "X.tar.parts.json", stick)
    ran = run(stick)
    assert ran.returncode == 4
    assert "the list may belong to another bundle" in ran.stderr


def hostile(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A list that somebody wrote with care: its digest is right."""
    path = folder / "X.tar.parts.json"
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps({**document, "digest": self_digest(document)}), "utf-8")
    return path


def rename(name: str) -> Callable[[dict[str, Any]], None]:
    def change(document: dict[str, Any]) -> None:
        document["name"] = name
        for number, part in enumerate(document["parts"], 1):
            part["name"] = f"{name}.{number:03d}"

    return change


NAMES_OUTSIDE = [
    *("../X.tar", "/etc/X.tar", "a/../../X", "..", ".", "", "C:X.tar", "C:\\X.tar", "..\\X", "a\0b", "NUL", "com1.tar"),
    *("X.tar ", "X.tar.", "a\nb", "a\x1b[2J", "X\u202etar", "x" * 241),
]


@pytest.mark.parametrize("name", NAMES_OUTSIDE)
def test_names_that_lead_elsewhere_are_refused(name: str, stick: Path) -> None:
    check_refused(stick, rename(name))


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "a part elsewhere": lambda d: d["parts"][1].update(name="../X.tar.002"),
    "a part twice": lambda d: d["parts"][1].update(d["parts"][0]),
    "parts in another order": lambda d: d["parts"].reverse(),
    "a part left out": lambda d: d["parts"].pop(),
    "no parts": lambda d: d.update(parts=[]),
    "parts of another kind": lambda d: d.update(parts={"X.tar.001": 1}),
    "a part of another kind": lambda d: d["parts"].append("X.tar.004"),
    "too many parts": lambda d: d.update(parts=d["parts"] * 4000),
    "sizes that do not add up": lambda d: d.update(size=d["size"] + 1),
    "a negative size": lambda d: (d["parts"][0].update(size=-5), d.update(size=d["size"] - 8 * MIB - 5)),
    "an empty part": lambda d: (d["parts"][0].update(size=0), d.update(size=d["size"] - 8 * MIB)),
    "a fraction": lambda d: d["parts"][0].update(size=8.0 * MIB),
    "a truth": lambda d: d["parts"][2].update(size=True),
    "a text as size": lambda d: d.update(size=str(d["size"])),
    "a digest that is none": lambda d: d["parts"][0].update(sha256="0" * 63),
    "a digest of another kind": lambda d: d.update(sha256=None),
    "a name of another kind": lambda d: d.update(name=["X.tar"]),
    "another kind": lambda d: d.update(kind="resume-dl bundle"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_lists_that_cannot_be_right_are_refused(change: Callable[[dict[str, Any]], object], stick: Path) -> None:
    check_refused(stick, change)


def check_refused(stick: Path, change: Callable[[dict[str, Any]], object]) -> None:
    hostile(stick, change)
    before = names_in(stick), names_in(stick.parent)
    ran = run(stick)
    assert ran.returncode == 4, ran
    assert "X.tar.parts.json" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "\x1b" not in ran.stderr + ran.stdout
    assert (names_in(stick), names_in(stick.parent)) == before


def test_a_huge_sparse_part_is_refused_before_a_byte_is_written(stick: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["parts"][1]["size"] = 10**18
        document["size"] += 10**18 - 8 * MIB

    hostile(stick, change)
    with (stick / "X.tar.002").open("wb") as file:
        file.truncate(2**43)  # the most that ext4 takes is 2**44
    before = names_in(stick)
    ran = run(stick)
    assert ran.returncode == 5
    assert "bytes free" in ran.stderr
    assert names_in(stick) == before


def test_a_whole_that_is_not_what_its_parts_make_is_refused(stick: Path) -> None:
    hostile(stick, lambda document: document.update(sha256="0" * 64))
    ran = run(stick)
    assert ran.returncode == 4
    assert "X.tar.parts.json is wrong" in ran.stderr
    assert not (stick / "X.tar").exists()


def test_a_list_of_a_newer_kind_asks_for_its_own_script(stick: Path) -> None:
    hostile(stick, lambda document: document.update(schema=2))
    ran = run(stick)
    assert ran.returncode == 2
    assert "join.py" in ran.stderr


def test_a_module_that_somebody_added_is_not_run(stick: Path, original: Path) -> None:
    for name in ("json", "hashlib", "argparse", "errno", "typing", "__future__", "encodings"):
        (stick / f"{name}.py").write_text("raise SystemExit('taken over')")
    check_joined(run(stick), stick, original)
    (stick / "X.tar").unlink()
    command = [PYTHON, "join.py"]
    ran = subprocess.run(command, cwd=stick, capture_output=True, text=True, timeout=60, check=False)
    check_joined(ran, stick, original)


def test_a_console_with_a_small_character_set(original: Path, tmp_path: Path) -> None:
    file = some_file(tmp_path / "雪.tar", 100)
    split_file(file, tmp_path, size=60)
    (tmp_path / "雪.tar.002").unlink()
    file.unlink()
    ran = run(tmp_path, PYTHONIOENCODING="cp1252", LC_ALL="C")
    assert ran.returncode == 1, ran
    assert "missing: \\u96ea.tar.002" in ran.stderr


def join_until(folder: Path, operation: int, line: int) -> None:
    """Join the parts, killed at this file operation or when this line is logged."""
    logged: list[str] = []

    def count(text: str) -> None:
        logged.append(text)
        if len(logged) == line:
            os.kill(os.getpid(), KILL)

    os.chdir(folder)
    kill_at(operation)
    join(Path("X.tar.parts.json"), log=count)


def kill_join(folder: Path, *, operation: int = 10**9, line: int = 10**9) -> int:
    return exit_code_of(join_until, folder, operation, line)


def test_killed_between_two_parts_it_needs_only_the_rest(stick: Path, original: Path) -> None:
    assert kill_join(stick, line=2) == WAS_KILLED
    assert not (stick / "X.tar").exists()
    (stick / "X.tar.001").unlink()
    ran = run(stick)
    check_joined(ran, stick, original)
    assert "X.tar.001  joined by an earlier run" in ran.stdout


def test_killed_at_any_moment_and_repeated(tmp_path: Path) -> None:
    number, killed = 0, True
    while killed:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        file = some_file(folder / "X.tar", 1000)
        split_file(file, folder, size=300)
        data = file.read_bytes()
        file.unlink()
        returned = kill_join(folder, operation=number)
        assert returned in {0, WAS_KILLED}
        killed = returned == WAS_KILLED
        if file.exists():
            assert file.read_bytes() == data
        assert join(folder).joined
        assert file.read_bytes() == data
        assert "X.tar.joining" not in names_in(folder)
    assert number > 6


@pytest.mark.skipif(sys.platform == "win32", reason="the signal is another one there")
def test_ctrl_c_keeps_what_is_joined(stick: Path, original: Path) -> None:
    code = """
import os, signal, sys
from pathlib import Path
from resume_dl.offline_tools.commands import join
def stop(line):
    if line.startswith("X.tar.002"):
        os.kill(os.getpid(), signal.SIGINT)
join._say = stop
sys.exit(join.main(["X.tar"], Path("join.py")))
"""
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=stick, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 130
    assert "run the same command again" in ran.stderr
    assert "Traceback" not in ran.stderr
    (stick / "X.tar.002").unlink()
    check_joined(run(stick), stick, original)


def test_two_at_once_do_not_disturb_each_other(stick: Path, original: Path) -> None:
    said: list[subprocess.CompletedProcess[str]] = []

    def other(_: str) -> None:
        if not said:
            said.append(run(stick))

    assert join(stick, log=other).joined
    assert said[0].returncode == 5
    assert "another process" in said[0].stderr
    assert (stick / "X.tar").read_bytes() == (original / "X.tar").read_bytes()


def test_a_joined_bundle_is_unpacked_by_the_printed_command(tmp_path: Path) -> None:
    members = in_order(make(tmp_path / "files", NAMES))
    folder = tmp_path / "with a blank"
    folder.mkdir()
    write_tar(members, tmp_path / "X.tar")
    split_file(tmp_path / "X.tar", folder, size=9000)
    ran = run(folder)
    assert ran.returncode == 0, ran
    advice = ran.stdout.partition("next, ")[2].splitlines()[1:]
    python = "python" if os.name == "nt" else "python3"
    assert [line.split()[0] for line in advice] == ["mkdir", "tar", python, python]
    for line in advice[:2]:
        subprocess.run(line, shell=True, check=True, timeout=60, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert (folder / "X" / NAMES[-2]).read_bytes() == (tmp_path / "files" / NAMES[-2]).read_bytes()


def test_the_command_joins_and_says_it_in_json(stick: Path, original: Path, tmp_path: Path) -> None:
    ran = run_command("join", stick, "-o", tmp_path / "Y.tar", "--json", "--remove-parts")
    assert ran.returncode == 0, ran
    said = json.loads(ran.stdout)
    assert (said["ok"], said["path"], said["missing"], said["damaged"]) == (True, str(tmp_path / "Y.tar"), [], {})
    assert hashlib.sha256((tmp_path / "Y.tar").read_bytes()).hexdigest() == said["sha256"]
    assert names_in(stick) == ["X.tar.parts.json", "join.py"]


def test_the_command_names_what_to_copy_again(stick: Path) -> None:
    flip(stick)
    (stick / "X.tar.001").unlink()
    ran = run_command("join", stick, "--json")
    assert ran.returncode == 4, ran
    said = json.loads(ran.stdout)
    assert (said["ok"], said["exit_code"], said["missing"], list(said["damaged"])) == (
        False,
        4,
        ["X.tar.001"],
        ["X.tar.002"],
    )
    assert said["error"]["type"] == "IntegrityError"
    plain = run_command("join", stick)
    assert plain.returncode == 4
    assert "damaged: X.tar.002" in plain.stderr
    (stick / "X.tar.002").unlink()
    assert run_command("join", stick).returncode == 1
    (stick / "X.tar.parts.json").write_bytes(b"{}")
    assert run_command("join", stick, "--json").returncode == 4
    assert run_command("join", stick / "nothing").returncode == 2

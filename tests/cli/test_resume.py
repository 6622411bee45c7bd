"""``resume-dl resume``: every noted command goes on, in its folder, and one summary says what became of each."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
from pathlib import Path

import pytest

from faults.behaviours import Drop, Ok, SilentUntil, Status
from resume_dl.cli.main import main
from resume_dl.store.lock import FileLock
from resume_dl.store.part import FOLDER
from resume_dl.store.unfinished_runs import UnfinishedFile, UnfinishedNotes, UnfinishedRun

MIB = 1 << 20
DATA = random.Random(11).randbytes(3 * MIB)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture(autouse=True)
def home(monkeypatch, tmp_path):
    """A user without conda, in an empty folder."""
    for kind in ("CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"RESUME_DL_{kind}_DIR", str(tmp_path / kind.lower()))
    monkeypatch.setenv("RESUME_DL_CONDA", "none")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "RESUME_DL_PIP_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def interrupted(server, name, folder):
    """A ``get`` that its server ended after 1 MiB, in ``folder``."""
    folder.mkdir(exist_ok=True)
    server.put(name, DATA)
    server.script(None, [Drop(MIB), Status(404)], path=name)
    here = Path.cwd()
    os.chdir(folder)
    try:
        assert main(["get", f"{server.base()}{name}", "--sha256", SHA256, "--quiet"]) == 1
    finally:
        os.chdir(here)
    server.always(None, Ok(), path=name)


def resumed(capsys, *options):
    """The exit code and the JSON object."""
    capsys.readouterr()
    code = main(["resume", "--json", *options])
    report = json.loads(capsys.readouterr().out)
    assert (report["schema"], report["command"], report["exit_code"]) == (1, "resume", code)
    return code, report


def noted(folder, *command, cwd=None, **fields):
    """A note of a part file in ``folder`` that was begun by ``command``."""
    key = "sha256-" + f"{len(command):064x}"
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    (folder / FOLDER / f"{key}.part").write_bytes(b"x" * 100)
    files = {key: UnfinishedFile("a.bin", "https://h.example/a.bin", 1000)}
    notes = UnfinishedNotes(Path(os.environ["RESUME_DL_STATE_DIR"]) / "unfinished")
    notes.add(UnfinishedRun(folder / FOLDER, ("resume-dl", *command), cwd or folder, files, **fields))


def test_every_command_goes_on_in_its_folder(home, fault_server, capsys):
    """Two of three are fetched by what was missing; one that fails stops no other; then nothing is left but it."""
    server = fault_server(ports=1)
    for name in ("one", "two", "three"):
        interrupted(server, f"/{name}.bin", home / name)
    server.always(None, Status(404), path="/two.bin")
    assert main(["resume", "--dry-run"]) == 0
    lines = capsys.readouterr().out
    assert lines.count("planned  resume-dl get") == 3
    assert "three.bin" in lines
    code, report = resumed(capsys)
    assert code == 1
    outcome = {Path(row["folder"]).name: (row["status"], row["exit_code"]) for row in report["runs"]}
    assert outcome == {"one": ("done", 0), "two": ("failed", 1), "three": ("done", 0)}
    assert (home / "one" / "one.bin").read_bytes() == DATA
    assert (home / "three" / "three.bin").read_bytes() == DATA
    assert report["totals"]["downloaded"] <= 2 * (len(DATA) - MIB) + MIB // 4  # what was missing of both
    assert Path.cwd() == home / "work"
    _, again = resumed(capsys, "--dry-run")
    (left,) = again["runs"]
    assert (Path(left["folder"]).name, left["status"]) == ("two", "planned")
    assert "--json" not in left["command"]  # the note names the user's command, not how it was resumed


def test_nothing_to_resume(capsys):
    """Said, and 0."""
    assert main(["resume"]) == 0
    assert "nothing to resume" in capsys.readouterr().out


def test_the_summary_counts_one_command_in_the_singular(home, capsys):
    """And two in the plural."""
    noted(home / "one", "get", "https://h.example/a.bin")
    assert main(["resume", "--dry-run"]) == 0
    assert "1 command: 1 planned" in capsys.readouterr().out
    noted(home / "two", "get", "https://h.example/a.bin", "--quiet")
    assert main(["resume", "--dry-run"]) == 0
    assert "2 commands: 2 planned" in capsys.readouterr().out


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to this process")
def test_ctrl_c_stops_all(home, fault_server, capsys):
    """The one at work ends cleanly, the others are not begun: 130."""
    server = fault_server(ports=1)
    for name in ("one", "two"):
        interrupted(server, f"/{name}.bin", home / name)
    server.always(None, SilentUntil(lambda: bool(os.kill(os.getpid(), signal.SIGINT))))
    code, report = resumed(capsys)
    assert code == 130
    assert [row["status"] for row in report["runs"]] == ["stopped", "stopped"]
    assert [bool(row["report"]) for row in report["runs"]] == [True, False]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("get", "https://***@h.example/a.bin"), "login or token"),
        (("pip", "install", "a"), "pip would install elsewhere"),
        (("clean",), "no command that continues"),
        (("resume",), "no command that continues"),
        (("bundle", "verify", "x"), "no command that continues"),
    ],
)
def test_what_cannot_be_run_is_said(home, capsys, command, message):
    """With the reason and the next step, as 2; its files stay."""
    noted(home / "place", *command, environment="/envs/torch")
    code, report = resumed(capsys)
    assert code == 2
    (row,) = report["runs"]
    assert row["status"] == "skipped"
    assert message in row["message"]
    assert row["hint"]
    assert list((home / "place" / FOLDER).iterdir())
    assert main(["resume"]) == 2
    assert message in capsys.readouterr().out


def test_a_folder_that_is_gone(home, capsys):
    """The command would write elsewhere: it is not run."""
    noted(home / "place", "get", "https://h.example/a.bin", cwd=home / "gone")
    code, report = resumed(capsys)
    assert (code, report["runs"][0]["status"]) == (2, "skipped")
    assert "no longer exists" in report["runs"][0]["message"]


def test_a_missing_login_is_named_as_the_likely_reason(home, fault_server, capsys):
    """The server refuses: the notes hold no secret, so the same variables are needed."""
    server = fault_server(ports=1)
    interrupted(server, "/one.bin", home / "one")
    server.always(None, Status(401), path="/one.bin")
    code, report = resumed(capsys)
    assert code == 1
    assert "notes hold no login" in report["runs"][0]["hint"]


def test_a_file_of_another_process_is_left_to_it(home, capsys):
    """It has the lock: the command is not run, and that is no failure."""
    noted(home / "place", "get", "https://h.example/a.bin")
    (part,) = (home / "place" / FOLDER).glob("*.part")
    lock = FileLock(part.with_suffix(".lock"))
    lock.acquire()
    try:
        code, report = resumed(capsys)
    finally:
        lock.release()
    assert (code, report["runs"][0]["status"]) == (0, "busy")

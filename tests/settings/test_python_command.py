"""No Python that we start runs a module from the folder that the user happens to stand in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.python_command import isolated_command, module_arguments, tolerant_output
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.conda_answer import CondaAnswerError
from resume_dl.settings.conda_ask import ask_conda
from resume_dl.settings.conda_find import find_conda_commands
from resume_dl.settings.pip_find import find_python

_TRAP = "import pathlib; pathlib.Path({!r}).touch()\n"


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """The current folder has modules of these names; the file exists once one of them was run."""
    marker = tmp_path / "ran"
    here = tmp_path / "here"
    for name in ("pip", "conda"):
        (here / name).mkdir(parents=True)
        for file in ("__init__.py", "__main__.py"):
            (here / name / file).write_text(_TRAP.format(str(marker)))
    for name in ("runpy.py", "json.py"):
        (here / name).write_text(_TRAP.format(str(marker)))
    monkeypatch.chdir(here)
    return marker


def test_a_module_is_run_as_by_m(tmp_path, monkeypatch):
    """Its arguments, name and exit code are those of ``-m``; PYTHONPATH counts."""
    (tmp_path / "told.py").write_text(
        "import sys\nprint(__name__, sys.argv[1:], sys.argv[0].endswith('told.py'))\nsys.exit(7)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, *module_arguments("told"), "a b", "-c"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (7, "__main__ ['a b', '-c'] True\n")


def test_a_python_named_as_conda(trap):
    """``conda resume-dl`` names its own Python so, in whatever folder the user stands."""
    (command,) = find_conda_commands({"RESUME_DL_CONDA": sys.executable})
    with contextlib.suppress(CondaAnswerError):  # this Python has no conda
        ask_conda(command, {**os.environ}, timeout=60)
    assert not trap.exists()


def test_pip(trap):
    found = find_python({**os.environ, "RESUME_DL_PIP_PYTHON": sys.executable})
    done = subprocess.run([*found.pip, "--version"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "pip" in done.stdout
    assert not trap.exists()


def test_the_worker(trap):
    """Neither its own modules nor those of the standard library are taken from there."""
    with RattlerWorker() as worker:
        worker.request("parse_specs", {"specs": ["a"]})
    assert not trap.exists()
    assert Path("json.py").exists()


def test_our_own_tasks_run_isolated_and_in_utf8(tmp_path, monkeypatch):
    """No PYTHONPATH, no current folder and no PYTHONIOENCODING; a letter that the code page lacks is printed."""
    (tmp_path / "json.py").write_text("raise SystemExit('taken over')")
    monkeypatch.chdir(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    program = "import json, sys; print(sys.flags.isolated, sys.flags.utf8_mode, chr(0x73af))"
    command = isolated_command(sys.executable, "-c", program)
    done = subprocess.run(command, env=env, capture_output=True, timeout=60, check=True)
    assert (done.stdout.decode("utf-8").split(), done.stderr) == (["1", "1", "环"], b"")


@pytest.mark.parametrize(
    ("given", "said"), [("utf-8", "环"), ("cp437", r"\u73af"), ("gbk:strict", "环"), ("ascii", r"\u73af")]
)
def test_pip_and_conda_print_in_the_users_encoding_and_never_fail(given, said):
    """They read pip.ini and condarc in that encoding too, so theirs is not changed; only the error handler is."""
    env = tolerant_output({**os.environ, "PYTHONIOENCODING": given, "PYTHONUTF8": "0"})
    done = subprocess.run(
        [sys.executable, "-c", "print(chr(0x73af))"], env=env, capture_output=True, check=True, timeout=60
    )
    assert done.stdout.decode(given.partition(":")[0]).strip() == said


@pytest.mark.skipif(sys.platform == "win32", reason="its environment is a symbolic link")
def test_what_a_python_says_of_its_paths_is_read_whatever_the_encoding(tmp_path, monkeypatch):
    """Its prefix was lost where PYTHONIOENCODING or the code page lacked a letter of it."""
    monkeypatch.setenv("PYTHONIOENCODING", "gbk")
    prefix = tmp_path / "环境 ü"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(sys.executable)
    (prefix / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n", encoding="utf-8")
    assert find_python({**os.environ, "RESUME_DL_PIP_PYTHON": str(prefix / "bin" / "python")}).prefix == prefix

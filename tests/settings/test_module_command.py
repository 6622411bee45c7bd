"""No Python that we start runs a module from the folder that the user happens to stand in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.model.module_command import module_arguments
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.settings.conda_ask import CondaAnswerError, ask_conda
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

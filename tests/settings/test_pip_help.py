"""The help of a pip is asked once for the same pip, and again for any other."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.settings import pip_find, pip_help
from resume_dl.settings.pip_find import TargetPython, find_python, own_python
from resume_dl.settings.pip_help import kept_install_help

FILES = ("__init__.py", "_internal/cli/cmdoptions.py", "_internal/commands/install.py")


class Pip:
    """A pip on disk, and what its help says now; ``asked`` counts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.kept = folder / "pip", folder / "kept"
        for name in FILES:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_bytes(name.encode())
        self.python = TargetPython(folder / "python", folder, "3.12.1", has_pip=True, pip_folder=self.folder)
        self.says, self.asked = "\nUsage:\n  pip install --first", 0
        monkeypatch.setattr(pip_help, "install_help", self._answer)

    def _answer(self, python: TargetPython, env: object) -> str:
        del python, env
        self.asked += 1
        return self.says

    def help(self) -> str:
        return kept_install_help(self.python, {}, self.kept)


@pytest.fixture
def pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pip:
    return Pip(tmp_path, monkeypatch)


def test_the_same_pip_is_asked_once(pip: Pip, tmp_path: Path) -> None:
    """Wherever it lies."""
    first = pip.help()
    (tmp_path / "moved").mkdir()
    pip.folder = pip.folder.rename(tmp_path / "moved" / "pip")
    pip.python = replace(pip.python, pip_folder=pip.folder)
    pip.says = "not asked"
    assert (pip.help(), pip.asked) == (first, 1)


@pytest.mark.parametrize("changed", [*FILES, "python"])
def test_another_pip_is_asked(pip: Pip, changed: str) -> None:
    pip.help()
    if changed == "python":
        pip.python = replace(pip.python, full_version="3.13.0")
    else:
        (pip.folder / changed).write_bytes(b"other")
    pip.says = "Usage: pip install --second"
    assert (pip.help(), pip.asked) == ("Usage: pip install --second", 2)


@pytest.mark.parametrize("name", FILES[1:])
def test_a_pip_of_bytecode_alone(pip: Pip, name: str) -> None:
    (pip.folder / name).rename(pip.folder / f"{name}c")
    assert pip.help() == pip.help()
    assert pip.asked == 1


@pytest.mark.parametrize("missing", FILES)
def test_a_pip_that_cannot_be_told_from_others_is_asked_each_time(pip: Pip, missing: str) -> None:
    (pip.folder / missing).unlink()
    pip.help()
    pip.help()
    assert pip.asked == 2
    assert not pip.kept.exists()


@pytest.mark.parametrize("says", ["", "Traceback (most recent call last):"])
def test_a_pip_that_does_not_answer_is_named(pip: Pip, says: str) -> None:
    """Not 'no such option' for each option of the command; and nothing is kept."""
    pip.says = says
    said = f"the pip of {pip.python.executable} did not list its options"
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        pip.help()
    assert not pip.kept.exists()


@pytest.mark.parametrize("harm", ["empty", "cut", "no text", "link", "folder"])
def test_a_kept_file_that_is_damaged_is_asked_for_anew(pip: Pip, tmp_path: Path, harm: str) -> None:
    good = pip.help()
    (file,) = pip.kept.iterdir()
    file.unlink()
    if harm == "link":
        (tmp_path / "elsewhere").write_text("Usage: --evil")
        file.symlink_to(tmp_path / "elsewhere")
    elif harm == "folder":
        file.mkdir()
    else:
        file.write_bytes({"empty": b"", "cut": b"ge:", "no text": b"\xff"}[harm])
    assert (pip.help(), pip.asked) == (good, 2)
    if harm == "link":
        assert (tmp_path / "elsewhere").read_text() == "Usage: --evil"


def test_a_folder_that_cannot_be_written(pip: Pip) -> None:
    pip.kept.write_bytes(b"a file")
    assert pip.help() == pip.says


def test_a_python_is_asked_once_for_the_same_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run needs it several times; another environment variable may be another pip."""
    started: list[list[str]] = []
    real = pip_find._output

    def output(command: list[str], env: dict[str, str], *, folder: Path) -> str:
        started.append(command)
        return real(command, env, folder=folder)

    monkeypatch.setattr(pip_find, "_output", output)
    monkeypatch.setattr(pip_find, "_ANSWERS", {})
    env = {**os.environ, "RESUME_DL_PIP_PYTHON": sys.executable}
    assert find_python(env) == find_python(env) == own_python()
    assert len(started) == 1
    find_python({**env, "PYTHONPATH": ""})
    assert len(started) == 2

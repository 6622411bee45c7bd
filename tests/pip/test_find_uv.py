"""Where uv is found: its Python package says it, or it lies beside the Python that runs us, or on PATH."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from resume_dl.errors import ConfigurationError
from resume_dl.resolve.uv_program import find_uv


@pytest.mark.parametrize("packaged", [True, False])
def test_uv_is_found(monkeypatch, packaged):
    """With the package from a Python index, and without it, as conda-forge has it: the program alone."""
    if not packaged:
        monkeypatch.setitem(sys.modules, "uv", None)
    said = subprocess.run([find_uv(), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("uv ")


def without_own(monkeypatch, tmp_path):
    """A resume-dl that was installed without uv."""
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path / "scripts"))


def test_a_uv_on_path_is_used(monkeypatch, tmp_path):
    """It is an extra of ours: a user who has it need not load 18 MB again."""
    there = find_uv()
    without_own(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(["", ".", str(tmp_path), str(there.parent)]))
    assert find_uv() == there


def test_without_uv_the_message_says_how_to_install_it(monkeypatch, tmp_path):
    without_own(monkeypatch, tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="uv, which resolves pip requirements, is not installed") as caught:
        find_uv()
    assert caught.value.hint == 'install it: python -m pip install "resume-dl[pip]"'


@pytest.mark.skipif(os.name == "nt", reason="the program is a shell script")
@pytest.mark.parametrize("text", ["uv 0.9.30 (x 2026-01-01)", "uv 0.4", "something else", ""])
def test_an_old_uv_on_path_is_refused(monkeypatch, tmp_path, text):
    """It would lock several files a package, or none: its version is named, with the way to another one."""
    without_own(monkeypatch, tmp_path)
    program = tmp_path / "uv"
    program.write_text(f"#!/bin/sh\necho '{text}'\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"is uv (0\.[49]|of an unknown version); 0\.10 or newer is needed"):
        find_uv()


@pytest.mark.skipif(os.name == "nt", reason="symbolic links")
def test_a_relative_place_on_path_does_not_count(monkeypatch, tmp_path):
    """What lies in the current folder may come from anywhere."""
    there = find_uv()
    without_own(monkeypatch, tmp_path)
    (tmp_path / "uv").symlink_to(there)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join(["", "."]))
    with pytest.raises(ConfigurationError, match="is not installed"):
        find_uv()

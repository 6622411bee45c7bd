"""``resume-dl probe`` and ``resume-dl bundle inventory``, which are the script's own code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.offline_scripts import archive


def ours(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """Our command line, for a user with an empty home and no conda."""
    places = {f"RESUME_DL_{kind}_DIR": str(folder / kind.lower()) for kind in ("CONFIG", "CACHE", "STATE")}
    env = {**os.environ, **places, "HOME": str(folder), "USERPROFILE": str(folder), "RESUME_DL_CONDA": "none"}
    command = [sys.executable, "-m", "resume_dl", *map(str, arguments)]
    return subprocess.run(command, env=env, cwd=folder, capture_output=True, timeout=120, check=False)


def test_the_script_is_printed_as_it_is(tmp_path):
    """Byte for byte, on stdout and into a file; the copy runs."""
    known = archive("probe.py")
    done = ours(tmp_path, "probe", "--script")
    assert (done.returncode, done.stdout, done.stderr) == (0, known, b"")
    done = ours(tmp_path, "probe", "--script", "-o", "probe.py")
    assert (done.returncode, done.stdout) == (0, b"")
    assert (tmp_path / "probe.py").read_bytes() == known
    done = subprocess.run([sys.executable, tmp_path / "probe.py", "--help"], capture_output=True, check=True)
    assert b"--no-inventory" in done.stdout


def test_with_json_nothing_differs(tmp_path):
    """It is JSON anyway; an error is the object that every command gives."""
    plain, asked = ours(tmp_path, "probe"), ours(tmp_path, "probe", "--json")
    assert (plain.returncode, asked.returncode) == (0, 0)
    assert plain.stdout == asked.stdout
    assert json.loads(plain.stdout)["kind"] == "resume-dl target"
    done = ours(tmp_path, "probe", "--json", "--wheels", "nowhere")
    said = json.loads(done.stdout)
    assert (done.returncode, said["exit_code"], said["error"]["type"]) == (2, 2, "ConfigurationError")


@pytest.mark.parametrize("command", [("probe",), ("bundle", "inventory")], ids=" ".join)
def test_folders_are_looked_into_besides_the_usual_ones(tmp_path, command):
    """``--pkgs-dir`` and ``--wheels``, relative ones too; the fetch's own pkgs-dir in config.toml is no list."""
    for name in ("pkgs", "more", "wheels", "cache/wheels", "config"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "config" / "config.toml").write_text('pkgs-dir = "/of/fetch"\n', encoding="utf-8")
    for name in ("pkgs/a-1-0.conda", "more/b-1-0.tar.bz2", "wheels/c-1-py3-none-any.whl"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "cache" / "wheels" / "d-1-py3-none-any.whl").write_bytes(b"our own")
    done = ours(tmp_path, *command, "--pkgs-dir", "pkgs", "--pkgs-dir", tmp_path / "more", "--wheels", "wheels")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)["inventory"]
    assert {each["filename"] for each in said["packages"]} == {"a-1-0.conda", "b-1-0.tar.bz2"}
    assert {each["filename"] for each in said["wheels"]} == {"c-1-py3-none-any.whl", "d-1-py3-none-any.whl"}
    assert b"hashing 4 files" in done.stderr


def test_an_inventory_is_not_a_profile(tmp_path):
    """It asks for no driver and no pip."""
    done = ours(tmp_path, "bundle", "inventory")
    assert set(json.loads(done.stdout)) == {"schema", "kind", "inventory"}

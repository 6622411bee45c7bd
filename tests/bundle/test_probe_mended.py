"""probe.py: nobody reads it, a conda that takes its time, and the commands that say nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.test_probe import POSIX, a_machine, a_program
from resume_dl.standalone import probe

SCRIPT = Path(probe.__file__)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_gone_away_is_no_error(tmp_path: Path, stream: str) -> None:
    read, write = os.pipe()
    os.close(read)
    folder = tmp_path / "caches"
    folder.mkdir()
    (folder / "a-1-0.conda").write_bytes(b"some")  # it is told on stderr that it is hashed
    command = [sys.executable, str(SCRIPT), "--pkgs-dir", str(folder)]
    env = {name: value for name, value in a_machine(tmp_path).items() if name != "PYTHONUNBUFFERED"}
    other = "stderr" if stream == "stdout" else "stdout"
    try:
        done = subprocess.run(
            command,
            **{stream: write, other: subprocess.PIPE},
            env=env,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(write)
    assert done.returncode == 0
    if stream == "stderr":
        assert json.loads(done.stdout)["inventory"]["packages"][0]["filename"] == "a-1-0.conda"
    else:
        assert done.stderr.startswith("hashing 1 files")


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
@pytest.mark.parametrize("slow", [True, False])
def test_it_is_told_which_conda_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    monkeypatch.setattr(probe, "_EVERY", 0.2 if slow else 30.0)
    conda = a_program(tmp_path / "conda", 'sleep 1\necho \'{"conda_version": "24.1"}\'')
    lines: list[str] = []
    client = probe.Client("conda", (str(conda),))
    answered = probe.first_answer([client], dict(os.environ), told=lines.append)
    assert answered is not None
    assert answered[1].version == "24.1"
    assert lines == ([f"waiting for {conda} info --json, for 60 s more at most"] if slow else [])


@pytest.mark.skipif(not POSIX, reason="a program is a script with a mode here")
def test_a_conda_that_hangs_is_told_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_EVERY", 0.2)
    conda = a_program(tmp_path / "conda", "exec sleep 600")
    lines: list[str] = []
    client = probe.Client("conda", (str(conda),))
    assert probe.first_answer([client], dict(os.environ), timeout=1.2, told=lines.append) is None
    assert lines == [f"waiting for {conda} info --json, for 1 s more at most"]

"""A bundle that was made on Linux, in parts: joined, unpacked, verified and installed by its own scripts.

Below a folder with a blank and letters that one code page or the other lacks, by a Python without resume-dl.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from windows.linux_bundle import NAME, VARIABLE

pytestmark = pytest.mark.skipif(VARIABLE not in os.environ, reason="no bundle from Linux here (make test-windows)")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the parts were copied to."""
    return Path(shutil.copytree(os.environ[VARIABLE], tmp_path / "环境 ü"))


def run(place: Path, script: Path, *words: str | Path) -> str:
    """Run a script of the bundle; what it printed, in the encoding of the system."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP", "TMP") if name in os.environ}
    user = {"HOME": str(place / "家"), "USERPROFILE": str(place / "家"), "RESUME_DL_CONDA": "none"}
    done = subprocess.run(
        [sys.executable, "-I", str(script), *map(str, words)],
        env={**kept, **user, "PIP_INDEX_URL": "http://127.0.0.1:9/simple"},
        cwd=place,
        capture_output=True,
        timeout=600,
        check=False,
    )
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, said
    assert "Traceback" not in said
    return said


def test_it_is_joined_unpacked_verified_and_installed(place: Path) -> None:
    run(place, place / "join.py")
    with tarfile.open(place / NAME) as archive:  # as any program that unpacks
        archive.extractall(place / "one", filter="data")
    run(place, place / "one" / "unpack.py", place / NAME, place / "两")
    assert "verified: " in run(place, place / "两" / "verify.py")
    environment = place / "环境"
    run(place, place / "两" / "install.py", "-p", environment)
    python = environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    shown = subprocess.run(
        [python, "-c", "import demo_app; print(demo_app.VERSION)"], capture_output=True, timeout=120, check=True
    )
    assert shown.stdout.split() == [b"1.0"]

"""Bundles of resume-dl 0.1, whose scripts were files of their own and an fs.py: they verify and install as before."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from resume_dl.offline_tools.tarred.tar_check import check_tar
from resume_dl.offline_tools.tarred.unpack_tar import unpack
from resume_dl.offline_tools.verification.check import check
from support.hand_bundle import bundle_tar, paths_in
from support.installable import PYTHON, is_linux, lay_bundle, venv_with_pip
from support.offline_scripts import scripts
from support.pip_index import build_wheel

SCRIPTS_OF_0_1 = ("fs.py", "install.py", "probe.py", "unpack.py", "verify.py")
COMMANDS = ("script", "resume-dl")

pytestmark = pytest.mark.skipif(not is_linux(), reason="the bundle is for linux-64")


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """One wheel, and the five scripts, each with other bytes; what is in them is of no account here."""
    texts = {name: f'"""{name} of 0.1."""\nraise SystemExit("it ran")\n'.encode() for name in SCRIPTS_OF_0_1}
    wheel = build_wheel(tmp_path / "wheels", "demo-app", "1.0")
    lay_bundle(tmp_path / "bundle", (), [wheel], python=PYTHON, platform="linux-64", texts=texts)
    return tmp_path / "bundle"


def run(tmp_path: Path, by: str, command: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """A script that was brought once and lies elsewhere, or our command."""
    start = [scripts() / f"{command}.py"] if by == "script" else ["-m", "resume_dl", "bundle", command]
    env = {"HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin", "RESUME_DL_CONDA": "none"}
    return subprocess.run(
        [sys.executable, *map(str, [*start, *words])], env=env, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("by", COMMANDS)
def test_they_verify(bundle: Path, tmp_path: Path, by: str) -> None:
    tar = bundle_tar(bundle, tmp_path / "x.tar")
    for what in (bundle, tar):
        done = run(tmp_path, by, "verify", what)
        assert (done.returncode, done.stderr) == (0, "")
        assert "verified: 6 files" in done.stdout
    assert check_tar(tar).problems == []
    assert unpack(tar, tmp_path / "unpacked").problems == []
    assert paths_in(tmp_path / "unpacked") == paths_in(bundle)


def test_each_of_their_scripts_is_still_verified(bundle: Path) -> None:
    for name in SCRIPTS_OF_0_1:
        data = (bundle / name).read_bytes()
        (bundle / name).write_bytes(data.replace(b"it ran", b"it RAN"))
        assert [(each.path, each.what) for each in check(bundle).problems] == [(name, "damaged")]
        (bundle / name).write_bytes(data)
    assert check(bundle).problems == []


@pytest.mark.parametrize("by", COMMANDS)
def test_they_install(bundle: Path, tmp_path: Path, by: str) -> None:
    python = venv_with_pip(tmp_path / "env")
    done = run(tmp_path, by, "install", bundle, "-p", tmp_path / "env")
    assert done.returncode == 0, done.stderr
    said = subprocess.run([python, "-c", "import demo_app; print(demo_app.VERSION)"], capture_output=True, check=True)
    assert said.stdout == b"1.0\n"


def test_a_newer_script_laid_over_an_older_one_says_so(bundle: Path, tmp_path: Path) -> None:
    """It is no file of that bundle; beside it, it does its work."""
    shutil.copyfile(scripts() / "verify.py", bundle / "verify.py")
    done = run(tmp_path, "script", "verify", bundle)
    assert (done.returncode, "error: verify.py: has" in done.stderr) == (4, True)
    laid_over = subprocess.run(
        [sys.executable, str(bundle / "verify.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (laid_over.returncode, laid_over.stdout) == (4, "")
    assert "error: verify.py is not the file that SHA256SUMS lists" in laid_over.stderr

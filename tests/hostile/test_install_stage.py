"""install.py in a folder that others may write to: what they lay in its stage's place is neither used nor removed."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec
from support.conda_env import TestConda
from support.installable import Target, is_linux, lay_bundle
from support.pip_index import build_wheel
from support.users import MALLORY, common_folder, give, needs_users

pytestmark = pytest.mark.skipif(not is_linux(), reason="links, owners and modes are POSIX")
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def common() -> Iterator[Path]:
    """A folder as ``/tmp`` is, with a bundle of one wheel in it."""
    with common_folder() as folder:
        lay_bundle(folder / "bundle", (), [build_wheel(folder / "built", "demo-app", "1.0")])
        yield folder


def command(common: Path) -> list[str]:
    return [sys.executable, str(common / "bundle" / "install.py"), "-p", str(common / "venv")]


def install(common: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": str(common), "RESUME_DL_CONDA": "none"}
    return subprocess.run(command(common), env=env, capture_output=True, text=True, timeout=120, check=False)


def stage_name(prefix: Path) -> str:
    return "bundle-" + hashlib.sha256(str(prefix).encode()).hexdigest()[:8]


def precious(place: Path) -> Path:
    (place / "sub").mkdir(parents=True)
    (place / "sub" / "thesis.txt").write_text("years")
    return place


@pytest.mark.parametrize("name", ["{}", "{}-0123456789abcdef"])
def test_a_link_in_the_stages_place(common: Path, name: str) -> None:
    """The folder that it leads to was emptied; its name could be computed from the prefix."""
    elsewhere = precious(common / "elsewhere")
    planted = common / name.format("." + stage_name(common / "venv"))
    planted.symlink_to(elsewhere)
    done = install(common)
    assert done.returncode == 0, done.stderr
    assert (elsewhere / "sub" / "thesis.txt").read_text() == "years"
    assert planted.is_symlink()
    assert (common / "venv" / "bin" / "python").exists()


@needs_users
@pytest.mark.parametrize("ending", ["", "-0123456789abcdef"])
def test_another_users_folder_in_the_stages_place(common: Path, ending: str) -> None:
    """With a mark in it that agrees with a token in the prefix, as if a killed run had made what lies there."""
    planted = common / f".{stage_name(common / 'venv')}{ending}"
    planted.mkdir()
    give(planted, MALLORY, mode=0o777)
    (planted / "making").write_text(TOKEN)
    work = common / "venv"
    work.mkdir()
    for name, text in {".resume-dl-making": TOKEN, "pyvenv.cfg": "home = /nowhere\n"}.items():
        (work / name).write_text(text)
    done = install(common)
    assert done.returncode == 5, done.stderr  # an environment that does not run, and no rest of a run of ours
    assert (planted / "making").read_text() == TOKEN
    assert (work / "pyvenv.cfg").read_text() == "home = /nowhere\n"


def test_the_lock_of_the_stage_is_no_link(common: Path) -> None:
    """Who lays one there can keep us from installing; they get nothing written."""
    elsewhere = precious(common / "elsewhere") / "sub" / "thesis.txt"
    (common / f".{stage_name(common / 'venv')}.lock").symlink_to(elsewhere)
    assert install(common).returncode == 5
    assert elsewhere.read_text() == "years"


@pytest.fixture
def target(test_conda: TestConda) -> Target:
    return Target(test_conda)


@pytest.fixture
def letters(tmp_path: Path) -> Path:
    """A bundle with one conda package."""
    spec = PackageSpec(name="letters", version="1.0", format="tar.bz2", files={"share/letters/a.txt": b"a"})
    lay_bundle(tmp_path / "bundle", build_channel(tmp_path / "channel", [spec]).packages)
    return tmp_path / "bundle"


@pytest.mark.conda
def test_the_stage_is_private_has_a_name_of_its_own_and_is_found_after_a_kill(
    target: Target, letters: Path, tmp_path: Path
) -> None:
    """kill -9 as conda is started: the next run takes the marked stage over, and removes what else is left of it."""
    script, place = target.program.read_text(), target.conda.pkgs / ".resume-dl"
    killing = 'test "$1" = info || { kill -9 $PPID; exit 1; }\nexec '
    target.program.write_text(script.replace("exec ", killing))
    names = []
    for _ in range(2):
        assert target.install(letters, "-p", tmp_path / "env").returncode == -9
        (stage,) = (path for path in place.iterdir() if path.is_dir())
        assert re.fullmatch(stage_name(tmp_path / "env") + "-[0-9a-f]{16}", stage.name)
        assert stat.S_IMODE(stage.lstat().st_mode) == 0o700
        names.append(stage.name)
    assert names[0] == names[1]
    for name in (stage.name[:-4] + "0000", stage_name(tmp_path / "env")):  # unmarked; and as an earlier version's
        (place / name).mkdir(mode=0o700)
    target.program.write_text(script)
    done = target.install(letters, "-p", tmp_path / "env")
    assert done.returncode == 0, done.stderr
    assert "starting again" in done.stderr
    assert (tmp_path / "env" / "share" / "letters" / "a.txt").read_bytes() == b"a"
    assert not place.exists()


@needs_users
@pytest.mark.conda
def test_another_users_folder_in_condas_cache(target: Target, letters: Path, tmp_path: Path) -> None:
    """It is told of and not used; the stage lies beside the environment then."""
    elsewhere = precious(tmp_path / "elsewhere")
    planted = target.conda.pkgs / ".resume-dl"
    planted.mkdir(parents=True)
    give(planted, MALLORY, mode=0o777)
    (planted / stage_name(tmp_path / "env")).symlink_to(elsewhere)
    done = target.install(letters, "-p", tmp_path / "env")
    assert done.returncode == 0, done.stderr
    assert f"warning: {planted} belongs to another user, {MALLORY}" in done.stderr
    assert (tmp_path / "env" / "share" / "letters" / "a.txt").read_bytes() == b"a"
    assert (elsewhere / "sub" / "thesis.txt").read_text() == "years"
    assert [path.name for path in tmp_path.glob(".bundle-*")] == []

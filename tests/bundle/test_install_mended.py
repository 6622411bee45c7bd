"""install.py: what is never removed, what is replaced, and what of the user's settings reaches nobody."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from resume_dl.demo.channel import ChannelInfo, PackageSpec, build_channel
from support.conda_env import TestConda, test_conda
from support.installable import Target, content, is_linux, lay_bundle
from support.pip_index import build_wheel

__all__ = ["test_conda"]
pytestmark = [pytest.mark.conda, pytest.mark.skipif(not is_linux(), reason="conda is behind a script for sh")]
KILLS_ITS_PARENT = "kill -9 $PPID"


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> ChannelInfo:
    specs = [
        PackageSpec(name="letters", version="1.0", format="tar.bz2", files={"share/letters/a.txt": b"a"}),
        PackageSpec(name="signs", version="1.0", subdir="noarch", files={"share/signs/plus.txt": b"+"}),
    ]
    return build_channel(tmp_path_factory.mktemp("channel"), specs)


@pytest.fixture
def target(test_conda: TestConda) -> Target:
    return Target(test_conda)


@pytest.fixture
def bundle(channel: ChannelInfo, tmp_path: Path) -> Path:
    lay_bundle(tmp_path / "bundle", channel.packages)
    return tmp_path / "bundle"


def first_do(target: Target, command: str) -> str:
    """Whenever conda is to change something, the shell does this first; returns the script as it was."""
    script = target.program.read_text()
    target.program.write_text(script.replace("exec ", f'test "$1" = info || {{ {command}; }}\nexec '))
    return script


def killed(target: Target, bundle: Path, prefix: Path) -> None:
    """install.py is killed as soon as conda runs; conda runs to its end."""
    script = first_do(target, KILLS_ITS_PARENT)
    assert target.install(bundle, "-p", prefix).returncode == -9
    target.program.write_text(script)
    assert (prefix / "conda-meta" / "history").is_file()


def digest(prefix: Path) -> str:
    return hashlib.sha256(str(prefix).encode()).hexdigest()[:8]


def test_a_folder_made_after_a_kill_is_the_users(target: Target, bundle: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "work"
    killed(target, bundle, prefix)
    assert (target.conda.pkgs / ".resume-dl" / f"bundle-{digest(prefix)}" / "making").is_file()
    prefix.rename(tmp_path / "away")
    prefix.mkdir()
    (prefix / "thesis.txt").write_bytes(b"years")
    for options in ([], ["--dry-run"]):
        done = target.install(bundle, "-p", prefix, *options)
        assert (done.returncode, "is there, and is no environment" in done.stderr) == (2, True), done.stderr
        assert [(path.name, path.read_bytes()) for path in prefix.iterdir()] == [("thesis.txt", b"years")]
    # a token of somebody else's is none
    (prefix / ".resume-dl-making").write_text("0" * 32)
    assert target.install(bundle, "-p", prefix).returncode == 2
    assert (prefix / "thesis.txt").read_bytes() == b"years"


def test_a_finished_environment_is_taken_over_after_a_kill(target: Target, bundle: Path, tmp_path: Path) -> None:
    killed(target, bundle, tmp_path / "work")
    (tmp_path / "work" / "mine.txt").write_bytes(b"mine")
    done = target.install(bundle, "-p", tmp_path / "work")
    assert done.returncode == 0, done.stderr
    assert "installing into the environment that is there" in done.stderr
    assert (tmp_path / "work" / "mine.txt").read_bytes() == b"mine"
    assert not (tmp_path / "work" / ".resume-dl-making").exists()
    assert not (target.conda.pkgs / ".resume-dl").exists()


def test_a_file_of_the_users_in_a_killed_runs_rest(target: Target, bundle: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "work"
    killed(target, bundle, prefix)
    for record in (prefix / "conda-meta").iterdir():  # as it is before conda has come to its end
        record.unlink()
    mine = prefix / "share" / "letters" / "mine.txt"
    mine.write_bytes(b"mine")
    for options in ([], ["--dry-run"]):
        refused = target.install(bundle, "-p", prefix, *options)
        assert (refused.returncode, "share/letters/mine.txt in it" in refused.stderr) == (2, True), refused.stderr
        assert content(prefix)["share/letters/mine.txt"] == b"mine"
    mine.unlink()
    planned = target.install(bundle, "-p", prefix, "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert "everything in it would be removed first" in planned.stderr
    assert content(prefix)["share/letters/a.txt"] == b"a"
    done = target.install(bundle, "-p", prefix)
    assert done.returncode == 0, done.stderr
    assert "begun anew" in done.stderr
    assert content(prefix) == {"share/letters/a.txt": b"a", "share/signs/plus.txt": b"+"}


def test_what_appears_while_conda_fails_is_kept(target: Target, bundle: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "work"
    script = first_do(target, "exit 7")
    assert target.install(bundle, "-p", prefix).returncode == 5
    assert not prefix.exists()
    target.program.write_text(script)
    first_do(target, f"echo mine > '{prefix}/mine.txt'; exit 7")
    assert target.install(bundle, "-p", prefix).returncode == 5
    assert (prefix / "mine.txt").read_text() == "mine\n"
    assert target.install(bundle, "-p", prefix).returncode == 2
    (prefix / "mine.txt").unlink()
    target.program.write_text(script)
    done = target.install(bundle, "-p", prefix)
    assert done.returncode == 0, done.stderr
    assert not (target.conda.pkgs / ".resume-dl").exists()


def test_a_file_of_the_users_in_a_half_made_venv(target: Target, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "bundle", (), [build_wheel(tmp_path / "w", "demo-app", "1.0")])
    venv = tmp_path / "venv"
    stage = tmp_path / f".bundle-{digest(venv)}"
    (venv / "bin").mkdir(parents=True)
    stage.mkdir()
    for place in (venv / ".resume-dl-making", stage / "making"):
        place.write_text("0123456789abcdef" * 2)
    (venv / "pyvenv.cfg").write_text("home = /nowhere\n")
    (venv / "bin" / "mine").write_bytes(b"mine")
    install = (tmp_path / "bundle", "-p", venv)
    refused = target.install(*install, env={"RESUME_DL_CONDA": "none"})
    assert (refused.returncode, "bin/mine in it" in refused.stderr) == (2, True), refused.stderr
    assert (venv / "pyvenv.cfg").read_text() == "home = /nowhere\n"
    (venv / "bin" / "mine").unlink()
    planned = target.install(*install, "--dry-run", env={"RESUME_DL_CONDA": "none"})
    assert "it would be made over what is there" in planned.stderr
    done = target.install(*install, env={"RESUME_DL_CONDA": "none"})
    assert done.returncode == 0, done.stderr
    assert not stage.exists()
    assert not (venv / ".resume-dl-making").exists()

"""install.py where it was run before: what is never removed after a kill, what is taken over, what is replaced."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from resume_dl.demo.channel import ChannelInfo, PackageSpec, build_channel
from resume_dl.offline_tools.installation import stage_places
from resume_dl.offline_tools.installation.stage_places import locked, unlock
from support.installable import (
    SITE,
    Target,
    content,
    is_linux,
    lay_bundle,
    venv_with_pip,
)
from support.pip_index import build_wheel
from support.small_bundle import bundle, channel, first_do, target

__all__ = ["bundle", "channel", "target"]
pytestmark = [pytest.mark.conda, pytest.mark.skipif(not is_linux(), reason="conda is behind a script for sh")]
KILLS_ITS_PARENT = "kill -9 $PPID"


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
    (stage,) = (target.conda.pkgs / ".resume-dl").glob(f"bundle-{digest(prefix)}-*[!k]")
    assert (stage / "making").is_file()
    prefix.rename(tmp_path / "away")
    prefix.mkdir()
    (prefix / "thesis.txt").write_bytes(b"years")
    for options in ([], ["--dry-run"]):
        done = target.install(bundle, "-p", prefix, *options)
        assert (done.returncode, "exists and is not an environment" in done.stderr) == (2, True), done.stderr
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
    assert "installing into the existing environment" in done.stderr
    assert (tmp_path / "work" / "mine.txt").read_bytes() == b"mine"
    assert not (tmp_path / "work" / ".resume-dl-making").exists()
    assert not (target.conda.pkgs / ".resume-dl").exists()


def test_a_users_file_in_the_remains_of_a_killed_run(target: Target, bundle: Path, tmp_path: Path) -> None:
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
    assert "starting again" in done.stderr
    assert content(prefix) == {"share/letters/a.txt": b"a", "share/signs/plus.txt": b"+"}


def test_files_that_appear_while_conda_fails_are_kept(target: Target, bundle: Path, tmp_path: Path) -> None:
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


def test_a_users_file_in_an_unfinished_venv(target: Target, tmp_path: Path) -> None:
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
    assert "it would be completed in place" in planned.stderr
    done = target.install(*install, env={"RESUME_DL_CONDA": "none"})
    assert done.returncode == 0, done.stderr
    assert not stage.exists()
    assert not (venv / ".resume-dl-making").exists()


def test_a_wheel_of_the_same_version_with_other_bytes_is_installed(target: Target, tmp_path: Path) -> None:
    venv_with_pip(tmp_path / "venv")
    for text in (b"first", b"second"):
        wheel = build_wheel(tmp_path / text.decode(), "demo-app", "1.0", files={"demo_app/data.txt": text})
        lay_bundle(tmp_path / "bundle" / text.decode(), (), [wheel])
        done = target.install(tmp_path / "bundle" / text.decode(), "-p", tmp_path / "venv")
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "venv" / SITE / "demo_app" / "data.txt").read_bytes() == text


def test_a_conda_package_of_the_same_build_with_other_bytes_is_named(
    target: Target, channel: ChannelInfo, bundle: Path, tmp_path: Path
) -> None:
    lay_bundle(tmp_path / "letters", [channel.find("letters")])
    other = PackageSpec(name="letters", version="1.0", format="tar.bz2", files={"share/letters/a.txt": b"b"})
    lay_bundle(tmp_path / "other", build_channel(tmp_path / "other-channel", [other]).packages)
    assert target.install(tmp_path / "other", "-n", "lab").returncode == 0
    named = "warning: letters-1.0-0: was there with other bytes"
    script = first_do(target, "exit 0")  # a conda to which name, version and build are enough
    kept = target.install(tmp_path / "letters", "-n", "lab")
    assert (kept.returncode, named in kept.stderr) == (0, True), kept.stderr
    target.program.write_text(script)
    done = target.install(bundle, "-n", "lab")
    assert done.returncode == 0, done.stderr
    found = content(target.conda.folder / "envs" / "lab")
    assert (named in done.stderr) == (found["share/letters/a.txt"] == b"b"), done.stderr
    assert "signs-1.0-0: was there" not in done.stderr
    again = target.install(bundle, "-n", "two")
    assert "was there with other bytes" not in again.stderr


def test_a_delta_whose_base_lies_in_another_folder(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    lay_bundle(tmp_path / "delta", channel.packages, left_out=["letters"])
    (tmp_path / "base").mkdir()
    shutil.copy(channel.find("letters").path, tmp_path / "base")
    lacking = target.install(tmp_path / "delta", "-n", "lab")
    assert (lacking.returncode, "--pkgs-dir" in lacking.stderr) == (1, True), lacking.stderr
    done = target.install(tmp_path / "delta", "-n", "lab", "--pkgs-dir", tmp_path / "base")
    assert done.returncode == 0, done.stderr
    assert content(target.conda.folder / "envs" / "lab")["share/letters/a.txt"] == b"a"
    assert [path.name for path in (tmp_path / "base").iterdir()] == ["letters-1.0-0.tar.bz2"]


def test_a_lock_whose_file_was_removed_does_not_count(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another run ends between our open and our lock: it removes the file, and a third would make a new one."""
    path = tmp_path / "folder" / "x.lock"
    lock, taken = stage_places.lock, []

    def late(descriptor: int) -> bool:
        if not taken:
            path.unlink()
            path.parent.rmdir()
        taken.append(descriptor)
        return lock(descriptor)

    monkeypatch.setattr(stage_places, "lock", late)
    descriptor = locked(path)
    assert len(taken) == 2
    assert os.path.samestat(os.fstat(descriptor), path.stat())
    assert locked(path) == -1
    unlock(descriptor, path)
    assert not path.exists()

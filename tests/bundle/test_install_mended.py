"""install.py: what is never removed, what is replaced, and what of the user's settings reaches nobody."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from resume_dl.demo.channel import ChannelInfo, PackageSpec, build_channel
from resume_dl.standalone import install
from support.conda_env import TestConda, test_conda
from support.hand_bundle import bundle_tar
from support.installable import (
    SITE,
    Target,
    content,
    is_linux,
    lay_bundle,
    venv_with_pip,
)
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


@pytest.mark.parametrize("version", ["9" * 5000, "2.\x1b]0;owned\x07", "2\r\n1"])
def test_a_virtual_package_does_nothing_to_the_terminal(
    target: Target, channel: ChannelInfo, tmp_path: Path, version: str
) -> None:
    lay_bundle(tmp_path / "bundle", channel.packages, virtual_packages=[f"__glibc={version}=0"])
    done = target.install(tmp_path / "bundle", "-n", "lab", "--dry-run")
    assert done.returncode in {0, 4}, done.stderr
    assert "Traceback" not in done.stderr
    assert not {"\x1b", "\x07", "\r"} & set(done.stderr)


def test_numbers_of_any_length_are_compared(target: Target, channel: ChannelInfo, tmp_path: Path) -> None:
    wanted = ["__glibc=2.010=0", "__linux=" + "0" * 40 + "1=0"]
    lay_bundle(tmp_path / "bundle", channel.packages, virtual_packages=wanted)
    env = {"CONDA_OVERRIDE_GLIBC": "2.9"}
    done = target.install(tmp_path / "bundle", "-n", "lab", "--dry-run", env=env)
    assert done.returncode == 0, done.stderr
    assert "__linux" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-p", "~nobody-of-that-name/x"], "there is no such user"),
        (["-p", ""], "an empty name is no folder"),
        (["-n", ".."], "'..' cannot be an environment's name"),
        (["-n", "."], "'.' cannot be an environment's name"),
    ],
)
@pytest.mark.parametrize("by", ["script", "command"])
def test_places_that_are_none(target: Target, bundle: Path, arguments: list[str], words: str, by: str) -> None:
    command = [bundle / "install.py"] if by == "script" else ["-m", "resume_dl", "bundle", "install", bundle]
    done = target.run(sys.executable, *command, *arguments)
    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
    assert target.calls == []


def test_settings_of_the_user_that_would_leave_conda_with_nothing_done(target: Target, bundle: Path) -> None:
    first_do(target, f"env > {shlex.quote(str(target.conda.folder / 'env.txt'))}")
    names = ("CONDA_DRY_RUN", "CONDA_DOWNLOAD_ONLY", "CONDA_JSON", "CONDA_QUIET", "CONDA_UNSATISFIABLE_HINTS")
    changing = dict.fromkeys(names, "true")
    kept = {"CONDA_SHLVL": "1", "CONDA_ENVS_DIRS": str(target.conda.folder / "envs"), "CONDA_OVERRIDE_GLIBC": "2.99"}
    done = target.install(bundle, "-n", "lab", env={**changing, **kept, "MAMBA_DRY_RUN": "1"})
    assert done.returncode == 0, done.stderr
    had = dict(line.split("=", 1) for line in (target.conda.folder / "env.txt").read_text().splitlines() if "=" in line)
    assert not {*changing, "MAMBA_DRY_RUN"} & set(had)
    assert {name: had.get(name) for name in kept} == kept
    assert had["CONDARC"]
    assert content(target.conda.folder / "envs" / "lab")["share/letters/a.txt"] == b"a"


def test_a_conda_that_is_named_and_not_there(target: Target, bundle: Path, tmp_path: Path) -> None:
    env = {"RESUME_DL_CONDA": "/nope/conda"}
    for arguments in (["-n", "lab"], ["-p", tmp_path / "env"]):
        done = target.install(bundle, *arguments, env=env)
        assert done.returncode == 5
        assert "RESUME_DL_CONDA names /nope/conda, which is not there" in done.stderr


def test_a_disk_that_takes_no_more(target: Target, bundle: Path, tmp_path: Path) -> None:
    tar = bundle_tar(bundle, tmp_path / "b.tar")
    command = shlex.join(map(str, (sys.executable, bundle / "install.py", tar, "-n", "lab")))
    full = f"ulimit -f 1; exec {command} --unpack-to {shlex.quote(str(tmp_path / 'kept'))}"
    done = target.run("bash", "-c", full)
    assert done.returncode == 5, done.stderr
    assert "this machine failed, and nothing was started" in done.stderr
    assert "not to be used" not in done.stderr
    assert target.calls == []


def test_a_blank_that_conda_refuses(target: Target, bundle: Path, tmp_path: Path) -> None:
    script = target.program.read_text()
    newer = script.replace("exec ", 'test "$1" = info || exit 7\n').rstrip("\n")
    newer += ' | sed -E \'s/("conda_version": ")[^"]*/\\125.11.1/\'\n'
    target.program.write_text(newer)
    refused = target.install(bundle, "-p", tmp_path / "my envs" / "my lab")
    assert (refused.returncode, "has a blank" in refused.stderr) == (2, True), refused.stderr
    assert target.calls == []
    planned = target.install(bundle, "-p", tmp_path / "my envs" / "lab", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert not (tmp_path / "my envs").exists()


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


def test_a_lock_whose_file_was_removed_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another run ends between our open and our lock: it removes the file, and a third would make a new one."""
    path = tmp_path / "folder" / "x.lock"
    lock, taken = install._lock, []

    def late(descriptor: int) -> None:
        if not taken:
            path.unlink()
            path.parent.rmdir()
        taken.append(descriptor)
        lock(descriptor)

    monkeypatch.setattr(install, "_lock", late)
    descriptor = install._locked(path)
    assert len(taken) == 2
    assert os.path.samestat(os.fstat(descriptor), path.stat())
    assert install._locked(path) == -1
    install._unlock(descriptor, path)
    assert not path.exists()

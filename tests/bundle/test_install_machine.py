"""install.py on the machine as it is: wrong places, settings of the user, a full disk, a conda that is missing."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from resume_dl.demo.channel import ChannelInfo
from support.hand_bundle import bundle_tar
from support.installable import (
    Target,
    content,
    is_linux,
    lay_bundle,
)
from support.small_bundle import bundle, channel, first_do, target

__all__ = ["bundle", "channel", "target"]
pytestmark = [pytest.mark.conda, pytest.mark.skipif(not is_linux(), reason="conda is behind a script for sh")]


@pytest.mark.parametrize("version", ["9" * 5000, "2.\x1b]0;owned\x07", "2\r\n1"])
def test_a_virtual_package_cannot_control_the_terminal(
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
        (["-p", ""], "an empty name is not a folder"),
        (["-n", ".."], "'..' is not a valid environment name"),
        (["-n", "."], "'.' is not a valid environment name"),
    ],
)
@pytest.mark.parametrize("by", ["script", "command"])
def test_invalid_places_for_the_stage(target: Target, bundle: Path, arguments: list[str], words: str, by: str) -> None:
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


def test_a_named_conda_that_is_missing(target: Target, bundle: Path, tmp_path: Path) -> None:
    env = {"RESUME_DL_CONDA": "/nope/conda"}
    for arguments in (["-n", "lab"], ["-p", tmp_path / "env"]):
        done = target.install(bundle, *arguments, env=env)
        assert done.returncode == 5
        assert "RESUME_DL_CONDA names /nope/conda, which does not exist" in done.stderr


def test_a_disk_without_space(target: Target, bundle: Path, tmp_path: Path) -> None:
    tar = bundle_tar(bundle, tmp_path / "b.tar")
    command = shlex.join(map(str, (sys.executable, bundle / "install.py", tar, "-n", "lab")))
    full = f"ulimit -f 1; exec {command} --unpack-to {shlex.quote(str(tmp_path / 'kept'))}"
    done = target.run("bash", "-c", full)
    assert done.returncode == 5, done.stderr
    assert "this machine failed; nothing was installed" in done.stderr
    assert "must not be used" not in done.stderr
    assert target.calls == []


def test_a_space_that_conda_refuses(target: Target, bundle: Path, tmp_path: Path) -> None:
    script = target.program.read_text()
    newer = script.replace("exec ", 'test "$1" = info || exit 7\n').rstrip("\n")
    newer += ' | sed -E \'s/("conda_version": ")[^"]*/\\125.11.1/\'\n'
    target.program.write_text(newer)
    refused = target.install(bundle, "-p", tmp_path / "my envs" / "my lab")
    assert (refused.returncode, "with a blank" in refused.stderr) == (2, True), refused.stderr
    assert target.calls == []
    planned = target.install(bundle, "-p", tmp_path / "my envs" / "lab", "--dry-run")
    assert planned.returncode == 0, planned.stderr
    assert not (tmp_path / "my envs").exists()

"""``resume-dl bundle install``: the words, the JSON object and the exit codes; what is installed is test_install's."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from resume_dl.demo.channel import ChannelInfo, PackageSpec, build_channel
from support.conda_env import TestConda
from support.hand_bundle import bundle_tar
from support.installable import Target, content, lay_bundle
from support.pip_index import build_wheel

pytestmark = pytest.mark.conda
COMMAND = (sys.executable, "-m", "resume_dl", "bundle", "install")


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> ChannelInfo:
    spec = PackageSpec(name="letters", version="1.0", files={"share/letters/a.txt": b"a"})
    return build_channel(tmp_path_factory.mktemp("channel"), [spec])


def test_json_is_all_that_is_on_stdout(test_conda: TestConda, channel: ChannelInfo, tmp_path: Path) -> None:
    target = Target(test_conda)
    digest = lay_bundle(tmp_path / "bundle", channel.packages)
    tar = bundle_tar(tmp_path / "bundle", tmp_path / "b.tar")
    shutil.rmtree(tmp_path / "bundle")
    done = target.run(*COMMAND, tar, "-n", "lab", "--manifest-sha256", digest, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    built = channel.packages[0]
    assert (answer["command"], answer["ok"], answer["exit_code"], answer["error"]) == ("bundle install", True, 0, None)
    assert answer["totals"] == {
        "artifacts": 1, "bytes": built.size, "downloaded": 0, "resumed": 0, "cached": built.size, "wasted": 0,
    }  # fmt: skip
    assert (answer["client"], answer["trust"], answer["existed"]) == ("conda", "digest", False)
    assert answer["prefix"] == str(test_conda.folder / "envs" / "lab")
    [artifact] = answer["artifacts"]
    assert (artifact["name"], artifact["sha256"], artifact["status"]) == ("letters", built.sha256, "cached")
    assert content(Path(answer["prefix"]))["share/letters/a.txt"] == b"a"
    assert "Executing transaction" in done.stderr


def test_errors_as_json_with_their_exit_codes(test_conda: TestConda, channel: ChannelInfo, tmp_path: Path) -> None:
    target = Target(test_conda)
    lay_bundle(tmp_path / "bundle", channel.packages)
    archive = tmp_path / "bundle" / "channel" / "linux-64" / channel.packages[0].filename
    archive.write_bytes(archive.read_bytes()[:-1])
    refused = target.run(*COMMAND, tmp_path / "bundle", "-n", "lab", "--json")
    assert refused.returncode == 4
    error = json.loads(refused.stdout)["error"]
    assert error["type"] == "IntegrityError"
    assert archive.name in error["message"]
    lay_bundle(tmp_path / "delta", channel.packages, left_out=["letters"])
    lacking = target.run(*COMMAND, tmp_path / "delta", "-n", "lab", "--json")
    assert lacking.returncode == 1
    assert channel.packages[0].sha256 in json.loads(lacking.stdout)["error"]["message"]
    nothing = target.run(*COMMAND, tmp_path / "nowhere", "-n", "lab", "--json")
    assert (nothing.returncode, json.loads(nothing.stdout)["exit_code"]) == (2, 2)
    assert target.calls == []


def test_settings_of_fetch_in_config_toml_do_not_apply(
    test_conda: TestConda, channel: ChannelInfo, tmp_path: Path
) -> None:
    target = Target(test_conda)
    lay_bundle(tmp_path / "bundle", channel.packages)
    config = tmp_path / "config" / "resume-dl"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(f'platform = ["win-64"]\nprefix = "{tmp_path / "mine"}"\ndry_run = true\n')
    done = target.run(
        *COMMAND, tmp_path / "bundle", "-n", "lab", env={"XDG_CONFIG_HOME": str(config.parent), "RESUME_DL_NAME": "x"}
    )
    assert done.returncode == 0, done.stderr
    assert f"ready: {test_conda.folder / 'envs' / 'lab'}" in done.stdout


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_the_script_runs_on_other_pythons(
    test_conda: TestConda, channel: ChannelInfo, tmp_path: Path, version: str
) -> None:
    """The oldest that it must run on, and a new one."""
    found = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} is here")
    target = Target(test_conda)
    lay_bundle(tmp_path / "bundle", channel.packages)
    done = target.install(tmp_path / "bundle", "-n", "lab", python=str(found[0]))
    assert done.returncode == 0, done.stderr
    assert (test_conda.folder / "envs" / "lab" / "share" / "letters" / "a.txt").read_bytes() == b"a"
    wheel = build_wheel(tmp_path / "w", "demo-app", "1.0")
    lay_bundle(tmp_path / "pip", (), [wheel], python=version)
    made = target.install(
        tmp_path / "pip", "-p", tmp_path / "venv", python=str(found[0]), env={"RESUME_DL_CONDA": "none"}
    )
    assert made.returncode == 0, made.stderr
    assert [*(tmp_path / "venv").glob(f"lib/python{version}/site-packages/demo_app/__init__.py")]

"""What the commands of bundles say in JSON where they are called wrongly, where parts lie, and with --quiet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.files import run_command, some_file
from support.fetching import User


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["split", "split", "--size", "0"], "bundle split"),
        (["join"], "bundle join"),
        (["verify", "x", "--manifest-sha256", ""], "bundle verify"),
        (["--nonsense", "verify", "x"], "bundle verify"),
    ],
)
def test_wrong_usage_says_which_command_it_was(words: list[str], command: str) -> None:
    done = run_command(*words, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == said["exit_code"] == 2
    assert (said["schema"], said["command"], said["ok"]) == (1, command, False)
    assert said["error"]["type"] == "ConfigurationError"
    assert set(said) == {"schema", "command", "ok", "exit_code", "error"}


def test_of_create_there_is_what_every_run_has() -> None:
    said = json.loads(run_command("create", "--nonsense", "--json").stdout)
    assert (said["command"], said["exit_code"], said["artifacts"]) == ("bundle create", 2, [])


@pytest.mark.parametrize("out", [".", "parts"])
def test_split_says_where_the_list_lies(tmp_path: Path, out: str) -> None:
    """From any folder: the one that ``-o`` was meant for may not be the reader's."""
    some_file(tmp_path / "x.tar", 1000)
    done = run_command("split", "x.tar", "--size", "600", "-o", out, "--json", cwd=tmp_path)
    assert done.returncode == 0, done
    listed = tmp_path.resolve() / out / "x.tar.parts.json"
    assert json.loads(done.stdout)["path"] == str(listed)
    assert listed.is_file()


@pytest.mark.parametrize("streams", [{"stdout"}, {"stderr"}, {"stdout", "stderr"}])
def test_a_closed_pipe_does_not_change_the_exit_code(tmp_path: Path, streams: set[str]) -> None:
    """Python would end with 120: with its buffers, whatever the shell says of them."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    for words, code in ((["verify", tmp_path], 4), (["join", tmp_path], 2), (["split", "--size", "0", "x"], 2)):
        command = [sys.executable, "-m", "resume_dl", "bundle", *map(str, words)]
        read, write = os.pipe()
        os.close(read)
        places = {name: write if name in streams else subprocess.DEVNULL for name in ("stdout", "stderr")}
        try:
            assert subprocess.run(command, **places, env=env, timeout=60, check=False).returncode == code
        finally:
            os.close(write)


@pytest.mark.parametrize("command", [["probe"], ["bundle", "inventory"]])
def test_quiet_leaves_the_progress_out(tmp_path: Path, command: list[str]) -> None:
    user = User(tmp_path / "user")
    (tmp_path / "caches").mkdir()
    (tmp_path / "caches" / "a-1-0.conda").write_bytes(b"some")
    words = [*command, "--pkgs-dir", str(tmp_path / "caches")]
    loud, quiet = user.run(*words), user.run(*words, "--quiet")
    assert "hashing 1 files" in loud.err
    assert (quiet.code, quiet.err) == (0, "")
    assert quiet.out == loud.out

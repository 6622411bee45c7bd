"""A forked run is what a fresh one would be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import forked
from support.fetching import User

pytestmark = pytest.mark.skipif(not forked.possible(forked.STARTED_WITH), reason="every run is started anew")


@pytest.mark.parametrize("words", [["mirrors", "list", "--json"], ["get", "--no-such-option"], ["--version"]])
def test_it_says_the_same(tmp_path: Path, words: list[str]) -> None:
    user = User(tmp_path / "user")
    again = user.run(*words)
    with user.start(*words) as process:
        out, err = process.communicate()
    assert (again.code, again.out, again.err) == (process.returncode, out, err)


def test_environment_folder_and_umask_are_its_own(tmp_path: Path) -> None:
    """The command line writes a file there, as this user may."""
    user = User(tmp_path / "user")
    before = os.umask(0o027)
    try:
        done = user.run("probe", "--script", "-o", "probe.py")
    finally:
        os.umask(before)
    assert (done.code, done.err) == (0, "")
    assert (user.folder / "probe.py").stat().st_mode & 0o777 == 0o640


def test_two_at_once_and_one_that_takes_too_long(tmp_path: Path) -> None:
    """A run that waits is ended, and holds up no other one."""
    os.mkfifo(tmp_path / "pipe")
    environment = User(tmp_path / "user").environment()
    words = ["fetch", "--mirrors", str(tmp_path / "pipe"), "a"]
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run(words, environment=environment, folder=tmp_path, timeout=0.5)
    done = forked.run(["mirrors", "list", "--json"], environment=environment, folder=tmp_path, timeout=60)
    assert json.loads(done.stdout)


def test_what_an_interpreter_reads_when_it_starts_needs_one() -> None:
    assert not forked.possible({**forked.STARTED_WITH, "PYTHONHASHSEED": "1"})
    assert not forked.possible({**forked.STARTED_WITH, "LC_ALL": "C"})


def test_files_that_may_not_be_written(tmp_path: Path) -> None:
    """Root is refused too where file permissions are to hold; stdin is what is given."""
    program = tmp_path / "conda.py"
    program.write_text("import sys; print(sys.stdin.read()); open('closed/file', 'w')\n", encoding="utf-8")
    (tmp_path / "closed").mkdir(mode=0o500)
    environment = {**forked.STARTED_WITH, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    assert forked.possible(environment, conda=True)
    interpreter = Path(sys.executable)
    done = forked.run(
        [], environment=environment, folder=tmp_path, timeout=60, conda=interpreter, answer="yes", obey=True
    )
    assert (done.returncode, done.stdout) == (1, "yes\n")
    assert done.stderr.endswith("PermissionError: [Errno 13] Permission denied: 'closed/file'\n")

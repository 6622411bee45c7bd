"""Closed streams, full disks behind stdout, odd arguments: told in a line, with the exit code for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.fetching import User

posix = pytest.mark.skipif(sys.platform == "win32", reason="file descriptors and bytes of POSIX")
SECRET = "s3cretPW"


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


def shell(user, script, *arguments):
    """Run ``script`` by sh, the program as ``$0 -m resume_dl``."""
    return subprocess.run(
        ["sh", "-c", script, sys.executable, *arguments],
        cwd=user.folder, env=user.environment(), capture_output=True, timeout=60, check=False,
    )  # fmt: skip


@posix
def test_closed_stderr(user):
    """With stderr closed the program works as ever, progress apart."""
    (user.folder / "data").write_bytes(b"x" * 1000)
    done = shell(user, '"$0" -m resume_dl get "$1" -o copy 2>&-', (user.folder / "data").as_uri())
    assert (done.returncode, done.stdout.split()[0]) == (0, b"downloaded")
    assert (user.folder / "copy").read_bytes() == b"x" * 1000


@posix
def test_stdout_and_stderr_closed(user):
    """Nor does it need a stdout."""
    assert shell(user, '"$0" -m resume_dl mirrors list >&- 2>&-').returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("words", ["mirrors list", "mirrors list --json", "--help", "fetch --nope --json"])
def test_stdout_is_full(user, words):
    """What cannot be said is one error line and exit 5."""
    done = shell(user, f'"$0" -m resume_dl {words} >/dev/full')
    assert done.returncode == 5, done.stderr
    assert b"No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    assert b"Exception ignored" not in done.stderr


@posix
@pytest.mark.parametrize("words", [["fetch", b"mkl\xff"], ["fetch", "x", "-c", b"ch\xff"], ["get", b"http://h/x\xff"]])
def test_not_utf8(user, words):
    """An argument that is no text is wrong usage, not a bug."""
    done = shell(user, '"$0" -m resume_dl "$@" --json', *words)
    assert done.returncode == 2
    assert b"not UTF-8" in done.stderr
    assert json.loads(done.stdout)["exit_code"] == 2


@posix
@pytest.mark.parametrize("words", ["fetch x --offline", "get http://127.0.0.1:9/x -o /tmp/x/y --offline"])
def test_a_removed_current_folder(user, words):
    """A current folder that was removed is this machine's fault."""
    done = shell(user, f'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m resume_dl {words}')
    assert (done.returncode, b"current folder" in done.stderr) == (5, True), done.stderr


def test_unreadable_address(user):
    """An address that cannot be split is wrong usage, and its login is not shown."""
    done = user.run("get", f"http://a:{SECRET}@[::1/x", "--json")
    assert done.code == 2
    assert SECRET not in done.out + done.err
    assert "bug" not in done.err


@pytest.mark.parametrize(
    "words",
    [
        ["fetch", f"x http://alice:{SECRET}@127.0.0.1/z"],
        ["get", f"alice:{SECRET}@h/x"],
        ["get", f"htp//alice:{SECRET}@h/x"],
        ["fetch", "x", "--mirrors", f"http://alice:{SECRET}@h/m.toml"],
        ["mirrors", "list", "--mirrors", f"http://alice:{SECRET}@h/m.toml"],
        ["fetch", "x", "-c", f"http//alice:{SECRET}@h/x"],
        ["fetch", "--file", f"alice:{SECRET}@h"],
        ["fetch", f"--alice:{SECRET}@h"],
        [f"alice:{SECRET}@h"],
    ],
)
def test_mistyped_logins(user, words):
    """Whatever is wrong with an address, its password is not in the answer."""
    done = user.run(*words, "--json", "--debug") if words[0] == "fetch" else user.run(*words, "--json")
    assert done.code == 2, done.err
    assert SECRET not in done.out + done.err
    assert not json.loads(done.out)["ok"]


@pytest.mark.parametrize("words", [["mirrors", "list", "--mirrors", "/nope"], ["fetch", "--nope"], ["nope"]])
@pytest.mark.parametrize("how", ["option", "variable", "config.toml"])
def test_json_of_every_failure(user, words, how):
    """Whoever asks for JSON, in any of the three ways, has an object with the error."""
    if how == "config.toml":
        user.own["config"].mkdir(parents=True, exist_ok=True)
        (user.own["config"] / "config.toml").write_text("json = true\n", encoding="utf-8")
    extra = ["--json"] if how == "option" else []
    done = user.run(*words, *extra, env={"RESUME_DL_JSON": "1"} if how == "variable" else None)
    report = json.loads(done.out)
    assert (report["ok"], report["exit_code"], done.code) == (False, 2, 2)
    assert report["error"]["message"] in done.err


@posix
def test_early_interrupt(user):
    """Ctrl-C while the program still loads is one word, not a traceback."""
    script = (
        "import signal, os, sys, resume_dl.cli.main as m\n"
        # whoever runs the tests in the background has told them to ignore it
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Now:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'click': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Now())\n"
        "sys.exit(m.main(['mirrors', 'list']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=user.environment(), timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGINT, b"", b"stopped\n")


@posix
def test_an_interrupt_during_the_solve(user):
    """Ctrl-C at a terminal, with the process for the solver just started: one word, and nobody is left."""
    script = (
        "import signal, os, sys, resume_dl.cli.main as m\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Now:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'resume_dl.app.fetch':\n"
        "            assert 'resume_dl.resolve.worker' in sys.modules\n"
        "            os.killpg(0, signal.SIGINT)\n"
        "sys.meta_path.insert(0, Now())\n"
        "sys.exit(m.main(['fetch', 'numpy']))\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=user.environment(),
        start_new_session=True,
    ) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err.strip()) == (128 + signal.SIGINT, b"", b"stopped")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)

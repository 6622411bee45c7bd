"""The suite's own ground: default signals whatever started it, and skips that say what would enable them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.skips import ENABLED_BY, enabled_by, summary

TESTS = Path(__file__).resolve().parents[1]
INSIDE = """
import json, signal, subprocess, sys

def test_inside():
    ask = "import json, signal; print(json.dumps([signal.getsignal(n) == signal.SIG_IGN for n in NUMBERS]))"
    ask = ask.replace("NUMBERS", str([int(signal.SIGINT), int(signal.SIGHUP), int(signal.SIGTERM)]))
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [False, False, False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL  # nohup's wish holds for the tests themselves
"""
STARTED_AS_BY_NOHUP = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.parametrize("workers", ["0", "1"])
def test_children_have_default_signals_where_the_suite_was_started_without(tmp_path: Path, workers: str) -> None:
    """In one process, and in a worker of pytest-xdist."""
    (tmp_path / "test_inside.py").write_text(INSIDE)
    words = ["-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "-n", workers, f"--rootdir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-c", STARTED_AS_BY_NOHUP, *words, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_skip_says_what_would_enable_it() -> None:
    assert enabled_by("no micromamba: name one by X") == dict(ENABLED_BY)["micromamba"]
    assert enabled_by("SIGKILL and process groups") == "another operating system"
    reasons = ["there is no ssh-keygen", "fcntl", "fcntl"]
    assert summary(reasons) == [
        "   2 skipped: fcntl; to run: another operating system",
        "   1 skipped: there is no ssh-keygen; to run: install OpenSSH's client",
    ]


def test_a_run_lists_its_skips_at_the_end(tmp_path: Path) -> None:
    """By the suite's own hook, which a run of one skipped test loads with its conftest."""
    (tmp_path / "test_it.py").write_text("import pytest\n\ndef test_it():\n    pytest.skip('there is no gcc here')\n")
    words = ["-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "   1 skipped: there is no gcc here; to run: install gcc\n" in done.stdout


def test_programs_that_tests_start_keep_their_bytecode():
    """Whatever this machine's environment says: an image that sets it would make the tests half as long again."""
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ

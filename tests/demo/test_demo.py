"""The demo itself, as a user starts it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest


@pytest.mark.slow
def test_the_demo_is_killed_resumes_and_ends_well(tmp_path):
    """`resume-dl demo` succeeds in under a minute, names all three mirrors and leaves nothing behind."""
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "resume_dl", "demo"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=180,
        check=False,
    )
    elapsed = time.monotonic() - started
    assert done.returncode == 0, done.stdout + done.stderr
    assert "killed (SIGKILL)" in done.stdout
    for words in ("slow ", "dropping ", "corrupting ", "saved by resume", "wasted", "every digest compared"):
        assert words in done.stdout
    assert list(tmp_path.iterdir()) == []
    assert elapsed < 60

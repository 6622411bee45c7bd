"""Texts that a hostile file may hold are read in a time that grows with their length and no faster.

Each runs in a process of its own, with a guard far above what it takes: the slow forms took hours.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

GUARD = 240.0
CASES = {
    "a long word in a message": "from resume_dl.model.url import scrub; scrub('a' * 1_000_000)",
    "many colons in a message": "from resume_dl.model.url import scrub; scrub('a:b/' * 200_000)",
    "blanks between durations": """
from datetime import datetime
from resume_dl.settings.uv_dates import cutoff_of_uv
try:
    cutoff_of_uv("1d  " * 40 + "!", datetime(2026, 1, 1))
except ValueError:
    pass
""",
    "empty lines in a lock file": """
import pathlib, tempfile
from resume_dl.resolve.locks.lock_format import locks_pip
path = pathlib.Path(tempfile.mkdtemp()) / "conda-lock.yml"
path.write_text("version: 1" + chr(10) * 1_000_000)
assert not locks_pip(path)
path.unlink(); path.parent.rmdir()
""",
}


@pytest.mark.parametrize("code", CASES.values(), ids=list(CASES))
def test_no_text_takes_longer_than_its_length(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=GUARD)


@pytest.mark.parametrize("length", [10, 390, 500, 5000])
def test_a_message_is_cut_without_a_piece_of_a_password(length: int) -> None:
    """At any length before the password, and of the password itself."""
    from resume_dl.model.url import brief

    for text in (f"{'x' * length} https://me:s3cret{'s' * length}@h/x", f"{'x ' * length}me:s3cret{'s' * length}@h"):
        assert "s3cr" not in brief(text)
        assert len(brief(text)) < 460

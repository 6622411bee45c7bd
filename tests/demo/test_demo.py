"""The demo itself, as a user starts it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from support.terminal import TMUX_HINT, Terminal, find_tmux

_SCALES = {"B": 1, "kB": 10**3, "MB": 10**6}


def megabytes(said: str, words: str) -> float:
    """The size that stands before these words; a narrow terminal's lines are broken between words."""
    found = re.search(rf"([\d.]+) (B|kB|MB) {words}", " ".join(said.split()))
    assert found is not None, f"{words!r} is not said in:\n{said}"
    return float(found[1]) * _SCALES[found[2]] / 10**6


def assert_told_well(said: str) -> None:
    """All three mirrors did what they say, the wrong bytes were found, and the sums are right."""
    assert "FAILED:" not in said
    flat = " ".join(said.split())
    for words in ("killed (SIGKILL)", " slow ", "connections dropped", "with wrong bytes", "every digest compared"):
        assert words in flat
    assert re.search(r" corrupting caught by the digest; its [\d.]+ MB came from the others ", flat)
    assert megabytes(said, "of the [\\d.]+ MB that came before the kill") > 0
    again = megabytes(said, "beyond the archives")
    parts = [
        megabytes(said, "of archives that were unfinished at the kill"),
        megabytes(said, r"of \d+ connections, before they were dropped"),
        megabytes(said, "of the archive with the wrong digest"),
    ]
    without = megabytes(said, "to fetch again in all")
    assert without == pytest.approx(sum(parts), abs=0.3), "each is rounded"
    assert without > again
    assert "MiB" not in said


@pytest.mark.slow
def test_the_demo_survives_every_fault(tmp_path):
    """`resume-dl demo` succeeds, tells what each mirror did and what it would have cost, and leaves nothing behind.

    The two runs in a terminal below hold the same: the corrupting mirror is caught on every run.
    """
    done = subprocess.run(
        [sys.executable, "-m", "resume_dl", "demo"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert_told_well(done.stdout)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (40, 24)])
def test_the_demo_in_a_terminal(tmp_path, columns, lines):
    """The bars of the killed run end where they are, and what is said of it begins in the first column.

    A terminal as wide as its lines and one that is narrower; wide ones are looked at in tests/integration/test_screen.
    """
    if find_tmux() is None:
        pytest.skip(TMUX_HINT)
    env = {name: value for name, value in os.environ.items() if not name.startswith("RESUME_DL_")}
    with Terminal(tmp_path, columns=columns, lines=lines, env=env, patience=300) as terminal:
        terminal.type("resume-dl demo; echo ended: $?")
        terminal.wait(lambda: any(line.startswith("ended: ") for line in terminal.screen()), "the end")
        said = terminal.unwrapped()
    assert "ended: 0" in said
    assert_told_well("\n".join(said))
    killed = next(number for number, line in enumerate(said) if "killed (SIGKILL)" in line)
    assert said[killed].startswith("killed (SIGKILL) when the mirrors had")
    assert said[killed - 1] == ""
    bars = [number for number, line in enumerate(said) if re.search(r"\d% \|", line)]
    before = [number for number in bars if number < killed]
    assert before == list(range(before[0], killed - 1)), "the killed run's bars stand whole, above an empty line"
    after = [number for number in bars if number > killed]
    assert len(after) == 1, "the second run's total alone"
    assert said[after[0]].startswith("12/12 files ")
    assert columns == 40 or all(len(line) <= 79 for line in said[after[0] + 1 : -1])

"""Every message can be read at code page 936: nothing that we write of ourselves lacks there.

A character that an encoding lacks is written by its number: right for a name that others chose, wrong for our words.
"""

from __future__ import annotations

import ast
import io
import locale
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import resume_dl
from resume_dl.cli.main import main

SOURCES = Path(resume_dl.__file__).parent
NOT_WRITTEN_THERE = {
    "conda_plugin/doctor.py": {"\N{WHITE HEAVY CHECK MARK}", "\N{CROSS MARK}"},  # as conda's own checks print
    "progress/console.py": {"\N{REPLACEMENT CHARACTER}"},  # for what others wrote to drive a terminal
    "resolve/uv_program.py": {"▶", "^[\\s│╭╰├─▶"},  # read, from uv's output
    "shell_commands.py": {"['\u2018\u2019\u201a\u201b]"},  # looked for, in a word to quote
    "trace/svg.py": {"\N{REPLACEMENT CHARACTER}"},  # a picture, in UTF-8
}
"""Texts of the sources that code page 936 lacks, each with why that is no message."""


def texts(source: str) -> set[str]:
    """The texts of a module but its docstrings."""
    tree = ast.parse(source)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    constants = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docs)
    return {node.value for node in constants if isinstance(node.value, str)}


def is_in(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def test_every_text_of_ours_is_in_code_page_936() -> None:
    found = {}
    for path in SOURCES.rglob("*.py"):
        lacking = {text for text in texts(path.read_text(encoding="utf-8")) if not is_in("cp936", text)}
        if lacking:
            found[path.relative_to(SOURCES).as_posix()] = lacking
    assert found == NOT_WRITTEN_THERE


FAILING = [
    ["fecth"],
    ["get"],
    ["get", "ftp://example.invalid/f"],
    ["get", "file:///nowhere/f", "--sha256", "0"],
    ["get", "https://example.invalid/f", "--offline"],
    ["get", "https://example.invalid/f", "--mirror", "nowhere"],
    ["get", "file:///nowhere/f"],
    ["fetch"],
    ["fetch", "a", "--file", "missing.txt"],
    ["fetch", "--file", "requirements.txt", "--offline"],
    ["fetch", "=="],
    ["fetch", "a", "--channel-priority", "x"],
    ["bundle", "verify", "nowhere"],
    ["bundle", "join", "nowhere"],
    ["bundle", "split", "nowhere", "--size", "0"],
    ["verify", "nowhere"],
    ["mirrors", "lst"],
]
"""Commands that end in an error, in a folder that has ``requirements.txt`` with an unreadable line."""


class Stream(io.TextIOWrapper):
    """Output in an encoding, as a pipe's; ``said()`` is what was written."""

    def __init__(self, encoding: str) -> None:
        self.data = io.BytesIO()
        super().__init__(self.data, encoding=encoding, newline="")

    def said(self) -> str:
        self.flush()
        return self.data.getvalue().decode(self.encoding)


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a user in 环境 ü, whose letters the code page has."""
    folder = tmp_path / "环境 ü"
    folder.mkdir()
    (folder / "requirements.txt").write_text("-r 环境.txt\n", encoding="utf-8")
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("RESUME_DL_CACHE_DIR", str(folder / "缓存"))
    monkeypatch.setenv("RESUME_DL_CONDA", "none")
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("words", FAILING, ids=" ".join)
def test_an_error_reads_alike_at_code_page_936(words: list[str], user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in UTF-8, and with no character by its number."""
    said = []
    for encoding in ("utf-8", "cp936"):
        streams = {name: Stream(encoding) for name in ("stdout", "stderr")}
        for name, stream in streams.items():
            monkeypatch.setattr(sys, name, stream)
        code = main(words)
        said.append((code, streams["stdout"].said(), streams["stderr"].said()))
    assert _untimed(said[0]) == _untimed(said[1])
    assert said[0][0] not in {0, 70}
    assert said[0][2]
    assert "\\u" not in said[1][2]
    assert "\\x" not in said[1][2]


def _untimed(said: tuple[int, str, str]) -> tuple[int, str, str]:
    """Without the seconds that it took, and what is said of a slow solver every three seconds."""
    code, *texts = said
    took = re.compile(r"; [^;\n]+ (s|min)$|^the solver is still loading, \d+ s\n", re.MULTILINE)
    out, err = (took.sub("", text) for text in texts)
    return code, out, err


def test_a_command_reads_in_the_encoding_of_the_system(user: Path) -> None:
    """A process of its own, into a pipe: in Windows' code page, else in UTF-8; a name that it lacks has numbers."""
    command = [sys.executable, "-m", "resume_dl", "bundle", "verify", str(user / "nowhere")]
    done = subprocess.run(command, capture_output=True, env={**os.environ}, timeout=120, check=False)
    encoding = locale.getpreferredencoding(do_setlocale=False)
    place = str(user).encode(encoding, "backslashreplace").decode(encoding)
    assert done.returncode == 2
    assert place in done.stderr.decode(encoding)

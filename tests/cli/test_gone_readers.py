"""A reader of stdout that has gone away (``| head``, ``| more``): silence, and the exit code of what was done."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import pytest

from resume_dl.cli import run
from resume_dl.errors import StoreError
from resume_dl.fs import system
from resume_dl.offline_tools.commands import probe


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["mirrors", "list"]])
def test_a_reader_that_has_gone(words):
    """With the system's own error, whatever it is."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        command = [sys.executable, "-m", "resume_dl", *words]
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=120, check=False)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


class Pipe(io.StringIO):
    """What is written to it fails; its descriptor is another file's."""

    def __init__(self, number: int, descriptor: int) -> None:
        super().__init__()
        self._number, self._descriptor = number, descriptor

    def write(self, text: str) -> int:
        raise OSError(self._number, os.strerror(self._number))

    def fileno(self) -> int:
        return self._descriptor


@pytest.fixture
def pipe(tmp_path, monkeypatch):
    """``pipe(number)`` makes stdout one that fails with this errno."""
    with (tmp_path / "stdout").open("wb") as file:
        yield lambda number: monkeypatch.setattr(sys, "stdout", Pipe(number, file.fileno()))


WRITERS = [lambda: run.say("x"), lambda: run.say_json({"x": 1}), lambda: probe.write_json({"x": 1})]


@pytest.mark.parametrize("write", WRITERS)
def test_windows_says_einval_of_it(pipe, monkeypatch, write):
    """Its C library has no other number for a pipe without a reader."""
    monkeypatch.setattr(system, "WINDOWS", True)
    pipe(errno.EINVAL)
    write()


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(("is_windows", "number"), [(False, errno.EINVAL), (True, errno.ENOSPC)])
def test_other_errors_are_told(pipe, monkeypatch, write, is_windows, number):
    """A full disk, and EINVAL where it means what it says."""
    monkeypatch.setattr(system, "WINDOWS", is_windows)
    pipe(number)
    with pytest.raises((StoreError, probe.ProbeError), match="cannot write to standard output"):
        write()

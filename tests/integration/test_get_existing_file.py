"""get: a file that is there already is read once, whatever becomes of it."""

from __future__ import annotations

import hashlib
import io
import os
import sys

import pytest

from resume_dl.app.get import GetRequest, get
from resume_dl.errors import NotWritableError
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.transfer.setup import TransferOptions, load_setup
from support.fetching import User

DATA = b"what is asked for" * 1000
OTHER = b"something different" * 1000
SHA256 = hashlib.sha256(DATA).hexdigest()

_watched: dict[str, int] = {}
_hooks: list[bool] = []


def _count(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _watched and isinstance(arguments[0], (str, os.PathLike)):
        name = os.fspath(arguments[0])
        if name in _watched:
            _watched[name] += 1


@pytest.fixture
def reads(tmp_path):
    """Path -> how often it was opened since, as Python itself reports it."""
    if not _hooks:
        sys.addaudithook(_count)  # there is no way to remove one
        _hooks.append(True)
    _watched[str(tmp_path / "a.bin")] = 0
    yield lambda: _watched[str(tmp_path / "a.bin")]
    _watched.clear()


@pytest.fixture
def run(tmp_path):
    """One ``get`` of a.bin in this process."""
    user = User(tmp_path / "user")

    def run(url, *, force=False, offline=False):
        options = TransferOptions(give_up_after=60, mirrors_file=user.write_mirrors({}), offline=offline)
        request = GetRequest(urls=(url,), sha256=SHA256, output=tmp_path / "a.bin", force=force)
        return get(request, load_setup(options, user.environment()), NoneReporter(Console(io.StringIO())))

    return run


def test_a_right_file_is_read_once(tmp_path, reads, run):
    """Nothing is asked for, and the digest is computed once."""
    (tmp_path / "a.bin").write_bytes(DATA)
    before = reads()
    result = run("http://127.0.0.1:9/a.bin", offline=True)
    assert [(each.status, each.path) for each in result.artifacts] == [("cached", tmp_path / "a.bin")]
    assert reads() - before == 1


def test_a_file_that_is_refused_is_read_once(tmp_path, reads, run):
    """Without --force another file stays as it is."""
    (tmp_path / "a.bin").write_bytes(OTHER)
    before = reads()
    with pytest.raises(NotWritableError, match="with another digest"):
        run("http://127.0.0.1:9/a.bin")
    assert reads() - before == 1


def test_a_file_that_is_replaced_is_read_once(tmp_path, reads, run, fault_server):
    """With --force it gives way; it is not compared again when its download begins."""
    (tmp_path / "a.bin").write_bytes(OTHER)
    before = reads()
    server = fault_server(ports=1)
    server.put("/a.bin", DATA)
    result = run(f"{server.base()}/a.bin", force=True)
    assert [each.status for each in result.artifacts] == ["downloaded"]
    assert reads() - before == 1
    assert (tmp_path / "a.bin").read_bytes() == DATA


def test_a_file_that_another_process_finishes_is_used(tmp_path, run, fault_server, monkeypatch):
    """What arrives under the name after the plan was made, complete and right, needs no download."""
    (tmp_path / "a.bin").write_bytes(OTHER)
    server = fault_server(ports=1)
    server.put("/a.bin", DATA)
    from resume_dl.transfer import setup  # the moment between plan and transfer

    real = setup.Engine.run

    def run_later(engine, jobs, *arguments):
        (tmp_path / "theirs").write_bytes(DATA)
        (tmp_path / "theirs").replace(tmp_path / "a.bin")
        return real(engine, jobs, *arguments)

    monkeypatch.setattr(setup.Engine, "run", run_later)
    result = run(f"{server.base()}/a.bin", force=True)
    assert [each.error for each in result.artifacts] == [None]
    assert server.requests() == []

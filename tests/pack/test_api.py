"""The programming interface: small, typed, lazy; the notebook of the documentation runs."""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading

import pytest

import resume_dl
from faults.behaviours import Ok, Stall, Status
from faults.server import FaultServer
from pack.built import own_places
from resume_dl import Artifact, Downloader, errors, fetch
from support.conda_env import PROJECT

DATA = bytes(range(256)) * 8192


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    for name, place in own_places(tmp_path / "own").items():
        monkeypatch.setenv(name, place)


@pytest.fixture
def server():
    running = FaultServer()
    running.start()
    running.put("/a.bin", DATA)
    running.put("/b.bin", DATA[::-1])
    yield running
    running.stop()


def test_importing_it_costs_nothing():
    """The package is one module until a name of the API is used."""
    program = (
        "import sys; before = {*sys.modules}; import resume_dl; print(*({*sys.modules} - before));"
        "from resume_dl import Downloader; print('resume_dl.api' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["resume_dl", "True"]
    with pytest.raises(AttributeError):
        resume_dl.Nothing  # noqa: B018  the access is the test


def test_files_come_in_order_with_progress(server, tmp_path):
    seen = []
    downloader = Downloader(tmp_path / "new", progress=seen.append)
    first, second = downloader.download(f"{server.base()}/a.bin", Artifact(f"{server.base()}/b.bin", filename="c.bin"))
    assert (first.path, second.path) == (tmp_path / "new" / "a.bin", tmp_path / "new" / "c.bin")
    assert (first.path.read_bytes(), second.path.read_bytes()) == (DATA, DATA[::-1])
    assert (first.status, first.downloaded, first.verified_by) == ("downloaded", len(DATA), None)
    assert {each.filename for each in seen} == {"a.bin", "c.bin"}
    assert {(each.state, each.done) for each in seen} >= {("downloaded", len(DATA))}


def test_a_callback_that_raises_ends_the_call_and_the_next_one_continues(server, tmp_path):
    server.always(None, Stall(after=len(DATA) // 2), path="/a.bin")

    def fail(progress):
        if progress.done >= len(DATA) // 4:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        Downloader(tmp_path, progress=fail).download(f"{server.base()}/b.bin", Artifact(f"{server.base()}/a.bin"))
    server.always(None, Ok())
    artifact = Artifact(f"{server.base()}/a.bin", md5=_md5(DATA))
    with pytest.raises(errors.DigestMismatchError):
        Downloader(tmp_path / "other").download(Artifact(f"{server.base()}/a.bin", md5="0" * 32))
    (found,) = Downloader(tmp_path).download(artifact)
    assert (found.verified_by, found.path.read_bytes()) == ("digest", DATA)


def test_bytes_of_an_interrupted_call_are_kept(server, tmp_path):
    """Ctrl-C, in the middle: KeyboardInterrupt once the run has ended, with its bytes on disk."""
    server.always(None, Stall(after=len(DATA) // 2))
    artifact = Artifact(f"{server.base()}/a.bin", md5=_md5(DATA))

    def interrupt(progress):
        if progress.done >= len(DATA) // 4:
            signal.raise_signal(signal.SIGINT)

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as caught:
            Downloader(tmp_path, progress=interrupt).download(artifact)
        assert caught.traceback[-1].path.name == "api.py"  # and not in the middle of the engine
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    server.always(None, Ok())
    (found,) = Downloader(tmp_path).download(artifact)
    assert found.resumed >= len(DATA) // 4 - 131072
    assert found.resumed + found.downloaded == len(DATA)


def test_an_error_is_raised_after_the_others_are_finished(server, tmp_path, caplog):
    server.always(None, Status(404), path="/a.bin")
    with caplog.at_level(logging.INFO, logger="resume_dl"), pytest.raises(errors.SourcesExhaustedError) as caught:
        Downloader(tmp_path).download(f"{server.base()}/a.bin", f"{server.base()}/b.bin")
    assert (caught.value.exit_code, (tmp_path / "b.bin").read_bytes()) == (1, DATA[::-1])
    with pytest.raises(errors.ConfigurationError):
        Downloader(tmp_path).download("not a url")
    with pytest.raises(errors.ConfigurationError):
        Downloader(tmp_path, mirrors=["nowhere"]).download(f"{server.base()}/b.bin")


def test_it_runs_in_any_thread(server, tmp_path):
    """A thread other than the main one cannot have a handler of signals."""
    found = []
    thread = threading.Thread(target=lambda: found.extend(Downloader(tmp_path).download(f"{server.base()}/a.bin")))
    thread.start()
    thread.join(120)
    assert [each.status for each in found] == ["downloaded"]


def test_fetch_takes_what_the_command_takes(tmp_path):
    """Errors of resolving are raised as they are; nothing is asked of a network."""
    channel = tmp_path / "channel" / "noarch"
    channel.mkdir(parents=True)
    (channel / "repodata.json").write_text('{"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": {}}')
    with pytest.raises(errors.ResumeDLError):
        fetch("nothing-of-this-name", channels=[channel.parent.as_uri()], dest=tmp_path / "dest")


def test_it_is_documented_and_its_stub_is_true():
    """Each public name stands in docs/api.md, with every parameter; the stub has what the package has."""
    text = (PROJECT / "docs" / "api.md").read_text(encoding="utf-8")
    for name in resume_dl.__all__:
        assert name == "__version__" or f"`{name}" in text, name
    for each in (Downloader, fetch, Artifact):
        assert not [name for name in inspect.signature(each).parameters if name not in text]
    stub = (PROJECT / "src" / "resume_dl" / "__init__.pyi").read_text(encoding="utf-8")
    assert {*re.findall(r"import (\w+) as", stub), "__version__"} == {*resume_dl.__all__}


def test_the_notebook_runs():
    """Its cells in one process, in order; it asserts what it shows."""
    notebook = json.loads((PROJECT / "docs" / "api.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    program = "\n".join(cells)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ}, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    stopped, finished = done.stdout.splitlines()
    assert re.fullmatch(r"data\.bin: stopped at \d+ bytes", stopped)
    assert re.fullmatch(r"\d{6,7} bytes were here, \d{7} were fetched; verified by digest", finished)


def _md5(data: bytes) -> str:
    import hashlib

    return hashlib.md5(data).hexdigest()

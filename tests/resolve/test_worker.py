"""The child process: what it answers, how it dies, and that its parent survives it and it never its parent."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tarfile
import textwrap
import threading
import time
from pathlib import Path

import pytest

from resume_dl.demo.package import PackageSpec, write_package
from resume_dl.errors import (
    ConfigurationError,
    IntegrityError,
    InvalidSpecError,
    NotWritableError,
    ResumeDLError,
    WorkerCrashedError,
)
from resume_dl.resolve import worker as worker_module
from resume_dl.resolve.worker import RattlerWorker
from support.processes import has_ended, is_running

SOURCE = Path(__file__).resolve().parents[2] / "src"
posix = pytest.mark.skipif(os.name != "posix", reason="signals")


def unpacked(folder):
    """Bytes in a folder that another process may be writing to."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def archive(folder, *members, name="a-1-0.tar.bz2"):
    """A .tar.bz2 of (name, type, text or link target)."""
    path = folder / name
    with tarfile.open(path, "w:bz2") as tar:
        for member, kind, text in members:
            info = tarfile.TarInfo(member)
            info.type = kind
            if kind == tarfile.REGTYPE:
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
            else:
                info.linkname = text
                tar.addfile(info)
    return path


def test_the_worker_can_be_started_early():
    """One process, started once, which the first request finds; closed unused, it is gone; then it starts anew."""
    with RattlerWorker() as early:
        early.start()
        pid = early.pid
        early.start()
        assert early.pid == pid
        early.request("parse_specs", {"specs": ["a"]})
        assert early.pid == pid
        early.close()
        early.start()
        unused = early.pid
        assert is_running(unused)
        early.close()
        assert not is_running(unused)
        early.request("parse_specs", {"specs": ["a"]})


def test_release_does_not_wait_for_the_exit(monkeypatch):
    """``release`` returns before the process has ended; that ends all the same, and is started anew when asked."""
    may_end = threading.Event()
    end = worker_module._Child.end

    def end_later(child):
        assert may_end.wait(60)
        end(child)

    with RattlerWorker() as released:
        released.request("parse_specs", {"specs": ["a"]})
        pid = released.pid
        monkeypatch.setattr(worker_module._Child, "end", end_later)
        released.release()
        assert is_running(pid)
        assert released.pid is None
        may_end.set()
        assert has_ended(pid, within=60.0)
        released.request("parse_specs", {"specs": ["a"]})
        assert released.pid != pid


def test_a_failed_early_start_is_reported_by_the_first_request(tmp_path):
    """Nobody waits for the start: what went wrong is an error of the request."""
    with RattlerWorker(python=tmp_path / "none") as broken:
        broken.start()
        assert broken.pid is None
        with pytest.raises(WorkerCrashedError, match="cannot start"):
            broken.request("parse_specs", {"specs": ["a"]})


@posix
@pytest.mark.parametrize("after", [0.0, 0.05, 0.3], ids=str)
def test_a_worker_started_early_does_not_outlive_its_parent(after):
    """The parent is killed while the process starts, loads, or waits for its first request: it ends too."""
    program = (
        "import time; from resume_dl.resolve.worker import RattlerWorker\n"
        "worker = RattlerWorker(); worker.start(); print(worker.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        time.sleep(after)
        parent.kill()
    assert has_ended(pid)


def test_the_first_request_starts_the_worker(worker):
    """No process before the first request; specs come back in parts, errors as the class that they are."""
    with RattlerWorker() as fresh:
        assert fresh.pid is None
        (parts,) = fresh.request("parse_specs", {"specs": ["PyTorch>=1.7,<2"]})
        assert (parts["name"], parts["version"], parts["build"]) == ("pytorch", ">=1.7,<2", None)
        pid = fresh.pid
        assert pid is not None
        assert is_running(pid)
        with pytest.raises(InvalidSpecError) as caught:
            fresh.request("parse_specs", {"specs": ["a b c d"]})
        assert caught.value.part == "b c d"
        with pytest.raises(ConfigurationError, match="no operation"):
            fresh.request("nosuch", {})
        assert fresh.pid == pid
    assert has_ended(pid)


def test_an_unexpected_exception_is_a_bug_not_a_crash(worker):
    """An unforeseen exception comes back as exit 70, and the same process goes on."""
    with pytest.raises(ResumeDLError, match="KeyError") as caught:
        worker.request("solve", {})
    assert caught.value.exit_code == 70
    assert worker.request("parse_specs", {"specs": []}) == []


@posix
def test_a_crash_is_reported_and_the_next_request_restarts(tmp_path):
    """A worker ended by a signal in the middle of a request: an error that says so, and a new worker after it."""
    with RattlerWorker() as fresh:
        fresh.request("parse_specs", {"specs": []})
        first = fresh.pid
        os.kill(first, signal.SIGSTOP)
        threading.Timer(0.2, os.kill, (first, signal.SIGKILL)).start()
        with pytest.raises(WorkerCrashedError, match="SIGKILL during extract") as caught:
            fresh.extract(tmp_path / "a", tmp_path / "b")
        assert caught.value.returncode == -signal.SIGKILL
        assert caught.value.exit_code == 70
        assert fresh.request("parse_specs", {"specs": []}) == []
        assert fresh.pid != first


@posix
def test_a_silent_worker_is_killed():
    """No answer within the time given: an error, and the process is gone."""
    with RattlerWorker() as fresh:
        fresh.request("parse_specs", {"specs": []})
        pid = fresh.pid
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(WorkerCrashedError, match=r"within 0\.2 s"):
            fresh.request("parse_specs", {"specs": []}, timeout=0.2)
        assert has_ended(pid)


def test_a_python_that_cannot_start(tmp_path):
    """A missing interpreter, and one without py-rattler, are told apart."""
    with RattlerWorker(python=tmp_path / "nosuch") as fresh, pytest.raises(WorkerCrashedError, match="cannot start"):
        fresh.request("parse_specs", {"specs": []})
    (tmp_path / "rattler.py").write_text("raise ImportError('broken on purpose')")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with RattlerWorker(env=env) as fresh, pytest.raises(ConfigurationError, match="broken on purpose") as caught:
        fresh.request("parse_specs", {"specs": []})
    assert "pip install" in caught.value.hint


def test_modules_of_the_current_folder_are_not_imported(tmp_path, monkeypatch):
    """A rattler.py or json.py that happens to lie in the current folder is not run."""
    for name in ("rattler", "json", "queue"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken from the current folder')")
    monkeypatch.chdir(tmp_path)
    with RattlerWorker() as fresh:
        assert fresh.request("parse_specs", {"specs": ["a"]})[0]["name"] == "a"


def test_output_of_libraries_does_not_break_the_protocol(tmp_path):
    """Output of Python and of C on stdout goes to stderr; answers stay whole."""
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent("""
        import builtins, os
        real = builtins.__import__
        def noisy(name, *rest, **more):
            if name.startswith("rattler"):
                print("noise"); os.write(1, b"more noise\\n")
            return real(name, *rest, **more)
        builtins.__import__ = noisy
        """)
    )
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    with RattlerWorker(env=env) as fresh:
        assert fresh.request("parse_specs", {"specs": ["a"]})[0]["name"] == "a"


@posix
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "unpacking"])
def test_the_worker_never_outlives_its_parent(tmp_path, busy):
    """The parent is killed: the worker ends at once, also in the middle of unpacking an archive."""
    size = 300 << 20
    big = write_package(PackageSpec(name="big", version="1", build="0", payload_size=size), tmp_path) if busy else "x"
    program = textwrap.dedent(f"""
        import sys
        sys.path.insert(0, {str(SOURCE)!r})
        from pathlib import Path
        from resume_dl.resolve.worker import RattlerWorker
        worker = RattlerWorker()
        worker.request("parse_specs", {{"specs": []}})
        print(worker.pid, flush=True)
        if {busy}:
            worker.extract(Path({str(big)!r}), Path({str(tmp_path / "out")!r}))
        sys.stdin.read()
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        pid = int(parent.stdout.readline())
        deadline = time.monotonic() + 60
        while busy and unpacked(tmp_path / "out") == 0 and time.monotonic() < deadline:
            time.sleep(0.001)
        parent.kill()
        assert has_ended(pid)
        assert unpacked(tmp_path / "out") < size


def test_the_worker_ignores_interrupts(worker):
    """Ctrl-C reaches the whole group of processes: the worker does not heed it."""
    if os.name == "posix":
        worker.request("parse_specs", {"specs": []})
        os.kill(worker.pid, signal.SIGINT)
        assert worker.request("parse_specs", {"specs": []}) == []


@pytest.mark.parametrize("form", ["conda", "tar.bz2"])
def test_extracts_both_formats(worker, tmp_path, form):
    """Digests of the archive, number and size of the files, and the files themselves."""
    import hashlib

    spec = PackageSpec(name="a", version="1", build="0", format=form, payload_size=5000, files={"lib/x.txt": b"hello"})
    path = write_package(spec, tmp_path)
    done = worker.extract(path, tmp_path / "deep" / "out")
    assert done.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert done.md5 == hashlib.md5(path.read_bytes()).hexdigest()
    files = [file for file in (tmp_path / "deep" / "out").rglob("*") if file.is_file()]
    assert (done.files, done.unpacked) == (len(files), sum(file.stat().st_size for file in files))
    assert (tmp_path / "deep" / "out" / "lib" / "x.txt").read_bytes() == b"hello"
    assert (tmp_path / "deep" / "out" / "info" / "index.json").is_file()


def test_extraction_that_fails_leaves_nothing(worker, tmp_path):
    """A damaged archive is an integrity error; a missing one, and a folder that is there, are this machine's."""
    bad = tmp_path / "a-1-0.tar.bz2"
    bad.write_bytes(b"BZh9 no archive")
    with pytest.raises(IntegrityError, match=r"a-1-0\.tar\.bz2 cannot be unpacked"):
        worker.extract(bad, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(NotWritableError, match="is missing"):
        worker.extract(tmp_path / "nosuch.conda", tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(NotWritableError, match="exists already"):
        worker.extract(bad, tmp_path / "there")
    assert (tmp_path / "there").is_dir()


def test_a_hostile_archive_writes_nothing_outside(worker, tmp_path):
    """Members that climb, are absolute, or go through a link end inside of the folder or nowhere."""
    outside = tmp_path / "outside"
    outside.mkdir()
    hostile = [
        [("../evil", tarfile.REGTYPE, "x"), ("ok", tarfile.REGTYPE, "y")],
        [(f"{outside}/evil", tarfile.REGTYPE, "x")],
        [("link", tarfile.SYMTYPE, str(outside)), ("link/evil", tarfile.REGTYPE, "x")],
    ]
    for number, members in enumerate(hostile):
        path = archive(tmp_path, *members, name=f"a{number}-1-0.tar.bz2")
        try:
            worker.extract(path, tmp_path / "outs" / str(number))
        except IntegrityError:
            continue
    assert list(outside.iterdir()) == []
    assert not (tmp_path / "outs" / "evil").exists()
    assert not (tmp_path / "evil").exists()

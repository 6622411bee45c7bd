"""The end of a run as a person reads it: what came, what did not, the sums, and last of all what is to be done."""

from __future__ import annotations

import hashlib
import io
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from faults.behaviours import Ok, Stall, Status
from resume_dl.cli.summary import sums
from resume_dl.demo.package import PackageSpec, write_package
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.units import show_bytes
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.console import Console
from resume_dl.progress.none import NoneReporter
from resume_dl.resolve.worker import RattlerWorker
from resume_dl.store.staged import staged_path
from resume_dl.transfer.cache_plan import plan_cache
from resume_dl.transfer.package_transfer import Transfer
from resume_dl.transfer.report import RunResult
from resume_dl.transfer.setup import TransferOptions, engine_for, load_setup
from support.fetching import User

WANTED = "pytorch=1.7"
LARGE = "pytorch-1.7.1-py3.8_cuda11.0.221_cudnn8.0.5_0.conda"


@pytest.fixture
def faulty(tmp_path, offer, fault_server):
    """A fault server with the channels at one mirror, and its user."""
    server = fault_server(ports=1)
    server.mount(offer.root)
    user = User(tmp_path / "user")
    user.mirrors(one=server.base(0))
    return server, user


def test_cached_files_are_counted(faulty, offer):
    """A second run lists nothing and says how many were there; --verbose names them."""
    _, user = faulty
    first = user.fetch(WANTED, "--no-extract")
    count = len(offer.wanted)
    assert len(first.out.splitlines()) == count + 5, "each file, the sums, the mirror, two indexes, the command"
    assert re.search(r"^from: one \d+\.\d [kM]B$", first.out, re.MULTILINE)
    assert "saved:" not in first.out
    assert re.search(rf"^{count} packages, .* downloaded \(.*/s\); index: .*; \d+ s$", first.out, re.MULTILINE)
    second = user.fetch(WANTED, "--no-extract")
    assert re.match(rf"{count} packages, .*: {count} cached \(.*\)(; index: .*)?; \d+ s\n", second.out), second.out
    assert ".conda" not in second.out.partition("To use")[0]
    verbose = user.fetch(WANTED, "--no-extract", "--verbose")
    assert verbose.out.count("cached  ") == count


def test_one_package_is_singular(faulty):
    _, user = faulty
    done = user.fetch(WANTED, "--no-deps", "--no-extract")
    assert re.search(r"^1 package, ", done.out, re.MULTILINE), done.out


def test_failed_files_come_last(faulty):
    """On one screen: the files that came, the one that did not, the sums, then why and what to do."""
    server, user = faulty
    server.always(None, Status(404), path=f"*/{LARGE}")
    command = [sys.executable, "-m", "resume_dl", "fetch", *user.options, WANTED, "--progress", "none"]
    done = subprocess.run(
        command,
        env=user.environment(),
        cwd=user.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    kinds = [line.split()[0] for line in lines if line.split()[0] in {"downloaded", "failed"}]
    assert kinds[-1] == "failed"
    assert kinds.count("failed") == 1
    failed = next(number for number, line in enumerate(lines) if line.startswith("failed "))
    said = next(number for number, line in enumerate(lines) if line.startswith("error: "))
    assert " 1 failed (" in lines[failed + 1]
    assert said > failed + 1
    assert [line for line in lines[said:] if not line.startswith(("error: ", "  "))] == []


@pytest.mark.parametrize("as_json", [False, True])
def test_stopped_is_not_failed(faulty, as_json):
    """Ctrl-C: unfinished files are stopped, in the list and in the JSON object; nothing is said to have failed."""
    server, user = faulty
    server.always(None, Stall(after=1000), path=f"*/{LARGE}")
    with user.start("fetch", *user.options, WANTED, *(["--json"] if as_json else [])) as process:
        while not server.requests(path=f"*/{LARGE}"):
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert not re.search(r"^failed|\"failed\"|\d failed", out + err, re.MULTILINE)
    assert '"status": "stopped"' in out if as_json else re.search(rf"^stopped .*{re.escape(LARGE)}", out, re.MULTILINE)
    assert err.splitlines()[-1].startswith("  run the same command again")
    server.always(None, Ok(), path=f"*/{LARGE}")
    assert user.fetch(WANTED).code == 0


def test_verified_archives_that_wait_are_safe(tmp_path, fault_server, monkeypatch):
    """Ctrl-C before they are unpacked: told as safe, with all their bytes, and no byte of them comes again."""
    pkgs, mirror, built = tmp_path / "pkgs", tmp_path / "mirror", []
    pkgs.mkdir()
    mirror.mkdir()
    for name in "abcde":
        path = write_package(PackageSpec(name=name, version="1", files={"share/a.txt": name.encode() * 99}), mirror)
        built.append((path.name, path.read_bytes()))
    server = fault_server(ports=1)
    server.mount(mirror)
    artifacts = [
        Artifact(
            kind="conda",
            filename=name,
            url=RedactedUrl(f"{server.base()}/{name}"),
            client_url=RedactedUrl(f"{server.base()}/{name}"),
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            sources=(Source("one", RedactedUrl(f"{server.base()}/{name}")),),
        )
        for name, data in built
    ]
    stop, staged = threading.Event(), [staged_path(pkgs, each) for each in artifacts]
    real = RattlerWorker.extract

    def stopping(worker, archive, target):
        until = time.monotonic() + 60.0
        while not stop.is_set() and not all(path.is_file() for path in staged):
            assert time.monotonic() < until
            time.sleep(0.01)
        stop.set()
        return real(worker, archive, target)

    monkeypatch.setattr(RattlerWorker, "extract", stopping)
    setup = load_setup(TransferOptions(), User(tmp_path / "user").environment())

    def run():
        silent = NoneReporter(Console(io.StringIO()))
        with engine_for(setup, silent, stop.is_set) as engine:
            transfer = Transfer(pkgs, engine, silent, stop.is_set, in_cache=True, offline=False)
            return RunResult("fetch", transfer.run(plan_cache(artifacts, pkgs, [], touch=True), unpack=True))

    result = run()
    waiting = [each for each in result.artifacts if each.error is not None]
    assert len(waiting) >= 3, "two at most were being unpacked"
    size = sum(each.artifact.size for each in waiting)
    for each in waiting:
        told = each.as_json()
        assert (told["status"], told["verified_by"]) == ("stopped", "digest")
        assert told["error"]["resumable_bytes"] == each.artifact.size
        assert Path(told["path"]).read_bytes() == dict(built)[each.artifact.filename]
    assert f"{len(waiting)} stopped ({show_bytes(size)}, {show_bytes(size)} safe on disk)" in sums(result, "package")
    asked = len(server.requests())
    stop.clear()
    monkeypatch.setattr(RattlerWorker, "extract", real)
    done = run().artifacts
    assert [each.error for each in done] == [None] * len(artifacts)
    assert {each.path for each in done} == {pkgs / artifact.filename for artifact in artifacts}, "not where they waited"
    assert len(server.requests()) == asked


def test_fetch_reports_each_step_from_the_start(faulty):
    """First of all what is resolved, before settings are read; then whose index, then the solver."""
    _, user = faulty
    lines = user.fetch(WANTED, "--no-extract", "--progress", "none").err.splitlines()
    assert lines[0] == f"resolving {WANTED}"
    assert lines[1].startswith("reading the index of ")
    assert "solving for linux-64" in lines
    assert user.fetch(WANTED, "--no-extract", "--quiet").err == ""

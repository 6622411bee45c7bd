"""resume-dl.pyz: one small file that any Python 3.10 runs, goes on after a kill, and installs the whole program."""

from __future__ import annotations

import ensurepip
import hashlib
import json
import os
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from faults.behaviours import Ok, Stall
from faults.server import FaultServer
from pack.built import lock_of, own_places, plain_python, script, wheel, wheel_of
from support.processes import Run

MOST = 3_000_000
SIZE = 200_000_000
MIB = 1 << 20


@pytest.fixture(scope="module")
def own_wheel(tmp_path_factory):
    return wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def application(own_wheel, tmp_path_factory):
    path = tmp_path_factory.mktemp("pyz") / "resume-dl.pyz"
    script("zip_application").build(own_wheel, path)
    return path


@pytest.fixture
def server():
    running = FaultServer()
    running.start()
    yield running
    running.stop()


def environment(folder: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT", "TEMP", "TMP") if name in os.environ}
    return {**kept, **own_places(folder)}


def run(application: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*plain_python(), str(application), *words],
        capture_output=True,
        text=True,
        env=environment(folder),
        cwd=folder,
        timeout=300,
        check=False,
    )


def test_it_is_small_pure_and_the_same_each_time(own_wheel, application, tmp_path):
    """3 MB at most; no extension module; each library with its licence; our files as in the wheel."""
    assert application.stat().st_size <= MOST
    script("zip_application").build(own_wheel, tmp_path / "again.pyz")
    assert (tmp_path / "again.pyz").read_bytes() == application.read_bytes()
    with zipfile.ZipFile(application) as archive, zipfile.ZipFile(own_wheel) as ours:
        names = archive.namelist()
        assert not [name for name in names if name.endswith((".so", ".pyd", ".pyc"))]
        assert all(archive.read(name) == ours.read(name) for name in ours.namelist())
        infos = {name.partition("/")[0] for name in names if ".dist-info/" in name}
        licensed = {name.partition("/")[0] for name in names if ".dist-info/" in name and "LICEN" in name.upper()}
        assert infos == licensed


def test_it_shows_only_what_it_can_do(application, tmp_path):
    """Commands that need a library with extension modules are not listed; one that is typed says what to do."""
    shown = run(application, tmp_path, "--help").stdout
    commands = {line.split()[0] for line in shown.partition("Commands:")[2].splitlines() if line.strip()}
    assert {"get", "status", "verify", "mirrors", "bundle", "self"} <= commands
    assert not {"fetch", "pip", "demo"} & commands
    refused = run(application, tmp_path, "fetch", "numpy")
    assert refused.returncode == 2
    assert "fetch is not part of resume-dl.pyz" in refused.stderr
    assert f'python "{application}" self install' in refused.stderr
    listed = run(application, tmp_path, "mirrors", "list", "--json")
    assert "tuna" in {each["name"] for each in json.loads(listed.stdout)["mirrors"]}


@pytest.mark.slow
def test_a_killed_get_goes_on(application, tmp_path, server):
    """200 MB by the machine's plain Python: killed with kill -9 in the middle, then only the rest is fetched."""
    data = random.Random(1).randbytes(MIB) * (SIZE // MIB) + bytes(SIZE % MIB)
    server.put("/big.bin", data)
    server.always(None, Stall(after=30 * MIB))
    words = ["get", f"{server.base()}/big.bin", "--sha256", hashlib.sha256(data).hexdigest()]
    command = [*plain_python(), str(application), *words, "--progress", "json"]
    settings = {"env": environment(tmp_path), "cwd": tmp_path, "text": True}
    done = 0
    with Run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **settings) as process:
        for line in process.stderr:
            event = json.loads(line)
            done = max(done, event.get("done") or 0) if event["event"] == "progress" else done
            if done >= 20 * MIB:
                break
        process.kill()
    assert 20 * MIB <= done < SIZE
    before = len(server.requests())
    server.always(None, Ok())
    again = run(application, tmp_path, *words, "--json")
    assert again.returncode == 0, again.stderr
    totals = json.loads(again.stdout)["totals"]
    assert totals["downloaded"] + totals["resumed"] == SIZE
    assert totals["resumed"] >= done - MIB  # under 128 KiB a connection, and what was read last
    # Of an answer that the client leaves early, the kernel may have taken megabytes that were never received.
    read = sum(each.sent for each in server.requests()[before:] if each.ended == "complete")
    assert read <= totals["downloaded"] + totals["wasted"]
    assert totals["wasted"] <= MIB
    assert (tmp_path / "big.bin").read_bytes() == data


def test_without_a_lock_it_says_so(application, tmp_path):
    done = run(application, tmp_path, "self", "install")
    assert done.returncode == 2
    assert "was built without the list" in done.stderr


@pytest.mark.slow
def test_self_install_goes_on_after_a_kill(own_wheel, tmp_path, server):
    """The wheels of its lock come by our engine, resumable; pip, one of them, installs without an index."""
    wheels = [wheel_of("click", tmp_path)]
    (bundled,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    wheels.append(bundled)
    for each in wheels:
        server.put(f"/{each.name}", each.read_bytes())
    lock = tmp_path / "pylock.toml"
    lock.write_text(lock_of(wheels, server.base()), encoding="utf-8")
    application = tmp_path / "resume-dl.pyz"
    script("zip_application").build(own_wheel, application, lock)
    server.always(None, Stall(after=MIB), path=f"/{bundled.name}")
    command = [*plain_python(), str(application), "self", "install", "--progress", "json"]
    settings = {"env": environment(tmp_path), "cwd": tmp_path, "text": True}
    with Run(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, **settings) as process:
        for line in process.stderr:
            event = json.loads(line)
            if event["event"] == "progress" and event["filename"] == bundled.name and event["done"] >= MIB // 2:
                break
        process.kill()
    server.always(None, Ok())
    done = run(application, tmp_path, "self", "install", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["totals"]["resumed"] >= MIB // 4
    assert {each["filename"] for each in report["artifacts"]} == {each.name for each in wheels}
    program = Path(report["notes"][0].removeprefix("installed: "))
    assert program.is_relative_to(tmp_path / "state" / "program")
    said = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout.startswith("resume-dl, version")
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("mine", encoding="utf-8")
    refused = run(application, tmp_path, "self", "install", "--folder", str(other))
    assert refused.returncode == 2
    assert (other / "thesis.txt").is_file()
    again = run(application, tmp_path, "self", "install", "--json")  # over itself, without a download
    assert (again.returncode, json.loads(again.stdout)["totals"]["downloaded"]) == (0, 0), again.stderr


def test_only_the_application_has_the_command():
    """An installed program is installed already."""
    done = subprocess.run([sys.executable, "-m", "resume_dl", "self"], capture_output=True, text=True, check=False)
    assert (done.returncode, "No such command 'self'" in done.stderr) == (2, True)

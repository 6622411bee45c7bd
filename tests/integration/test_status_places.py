"""status and clean find what runs left anywhere, and say by which command each goes on."""

from __future__ import annotations

import json
import random
import re
import shlex
import subprocess
import sys

import pytest

from faults.behaviours import Ok, Quota, Stall
from resume_dl.model.units import show_bytes
from support.fetching import User

MIB = 1 << 20
DATA = random.Random(7).randbytes(4 * MIB)


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


@pytest.fixture
def server(fault_server):
    server = fault_server(ports=1)
    server.put("/a.bin", DATA)
    server.always(None, Quota(2 * MIB))
    return server


def rows(user):
    return json.loads(user.run("status", "--json").out)["unfinished"]


def kill_when_begun(user, *line):
    """Run it until some of it is on disk, then kill -9."""
    with user.start(*line) as process:
        while not any(row["done"] for row in rows(user)):
            assert process.poll() is None, process.communicate()
        process.kill()


def test_get_into_another_folder(user, server, tmp_path):
    """Name, address, bytes, age and a command that really goes on, typed in a shell elsewhere; then it is forgotten."""
    place = tmp_path / "far away" / "it's here"
    place.mkdir(parents=True)
    kill_when_begun(user, "get", f"{server.base()}/a.bin", "-o", place / "mine.bin")
    (row,) = rows(user)
    assert (row["filename"], row["url"]) == ("mine.bin", f"{server.base()}/a.bin")
    assert (row["size"], row["folder"]) == (len(DATA), str(place / ".resume-dl"))
    assert 0 < row["done"] < len(DATA)
    assert row["age"] >= 0
    said = user.run("status").out
    assert f"{show_bytes(row['done'])} of {show_bytes(len(DATA)):>9}  mine.bin  (" in said
    assert re.search(r"mine\.bin  \(.*\d.* ago\)", said)
    assert f"from {server.base()}/a.bin" in said
    assert f"to continue: {row['command']}" in said
    server.always(None, Ok())
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    (bin_folder / "resume-dl").write_text(f'#!/bin/sh\nexec {sys.executable} -m resume_dl "$@"\n')
    (bin_folder / "resume-dl").chmod(0o755)
    env = user.environment({"PATH": f"{bin_folder}:/usr/bin:/bin"})
    done = subprocess.run(["sh", "-c", row["command"]], env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "resuming at" in done.stderr
    assert (place / "mine.bin").read_bytes() == DATA
    assert rows(user) == []
    assert list((user.own["state"] / "unfinished").iterdir()) == []


def test_no_secret_is_noted(user, server, tmp_path):
    """Login, token and secret query values are neither noted nor shown; the command says that they are missing."""
    host = server.base().removeprefix("http://")
    url = f"http://me:hunter2@{host}/a.bin?token=s3cret"
    kill_when_begun(user, "get", url, "-o", tmp_path / "a.bin")
    said = user.run("status").out + json.dumps(rows(user))
    noted = "".join(path.read_text() for path in (user.own["state"] / "unfinished").iterdir())
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {".part", ".journal"} <= {path.suffix for path in left}
    for secret in ("hunter2", "s3cret"):
        assert secret not in said
        assert [path for path in left if secret in str(path) or secret.encode() in path.read_bytes()] == []
        assert secret not in noted
    assert "***" in rows(user)[0]["command"]
    assert "your own login" in said


@pytest.mark.parametrize("option", ["--pkgs-dir", "--dest"])
def test_fetch_to_another_place_is_found_and_cleaned(user, offer, fault_server, tmp_path, option):
    """What fetch left in a cache or a folder of its own is found by its package's name, and `clean` removes it."""
    server = fault_server(ports=1)
    server.mount(offer.root)
    server.always(None, Stall(after=1000), path="*.conda")
    user.mirrors(one=server.base(0))
    place = tmp_path / "place"
    line = ["fetch", *user.options, "pytorch=1.7", option, place]
    with user.start(*line) as process:
        while not server.requests(path="*.conda"):
            assert process.poll() is None, process.communicate()
        while not any(row["folder"].startswith(str(place)) for row in rows(user)):
            assert process.poll() is None, process.communicate()
        process.kill()
    found = [row for row in rows(user) if row["folder"] == str(place / ".resume-dl")]
    assert any("pytorch" in row["filename"] for row in found)
    assert all(shlex.split(row["command"])[-2:] == [option, str(place)] for row in found)
    cleaned = user.run("clean").out
    assert all(row["key"] in cleaned for row in found)
    assert rows(user) == []
    assert not (place / ".resume-dl").exists()

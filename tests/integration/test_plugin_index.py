"""conda's own channel index comes by our engine, into conda's own cache: from its server alone, broken off or not."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import time

import pytest
import zstandard

from faults.behaviours import Conditional, Drop, Headers, Quota, Status
from resume_dl.store.part import PartStore
from support.large_channel import NEEDLE, build_large_channel, write_index
from support.plugin import our_lines
from support.processes import KILL

pytestmark = pytest.mark.conda

RECORDS = int(os.environ.get("RESUME_DL_INDEX_RECORDS", "8000"))
"""More are for a run by hand: 60000 make an index of 4.1 MB."""
DROP = RECORDS * 25
"""Bytes of every answer after which the connection ends: less than half of the packed index."""
MAX_AGE = Headers({"Cache-Control": "public, max-age=1200"})


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A channel whose index no answer of the server brings whole."""
    return build_large_channel(tmp_path_factory.mktemp("large"), RECORDS)


@pytest.fixture
def server(large, fault_server):
    server = fault_server()
    server.mount(large.root)
    server.always(0, Conditional(), Drop(after=DROP))
    return server


@pytest.fixture
def conda(test_conda, server):
    """A conda that asks for packed indexes, as every usual one does: before 26 this needs jsonpatch."""
    (test_conda.folder / "on-pythonpath" / "jsonpatch.py").write_text("# needed for JLAP only\n", encoding="utf-8")
    test_conda.configure(channels=[f"{server.base()}/large"])
    return test_conda


def create(conda, *arguments, expect=0, name="env", **options):
    done = conda.run("create", "-p", conda.folder / name, NEEDLE, "--dry-run", *arguments, **options)
    assert done.returncode == expect, done.stdout + done.stderr
    return done


def index_bodies(server, *, ours):
    """Body bytes of large/linux-64's index that were sent to us, or to conda."""
    return sum(one.sent for one in asked(server, ours=ours) if one.status in {200, 206})


def asked(server, *, ours=False, path="/large/*/*repodata.json*"):
    return [one for one in server.requests(path=path) if one.headers["user-agent"].startswith("resume-dl/") is ours]


def states(conda):
    """What conda notes of each index, by its address."""
    found = [json.loads(path.read_text()) for path in (conda.pkgs / "cache").glob("*.info.json")]
    return {state["url"]: state for state in found}


def test_an_index_that_always_breaks_off_stops_conda_but_not_the_plugin(conda, server, large):
    """Without the plugin the same command fails; with it conda itself asks for no index, now and the next time."""
    create(conda, plugin=False, expect=1)
    shutil.rmtree(conda.pkgs)
    done = create(conda)
    assert NEEDLE in done.stdout
    assert our_lines(done.stderr) == []
    once = index_bodies(server, ours=True)
    assert large.packed <= once < large.packed + DROP
    base = f"{server.base()}/large/linux-64"
    assert states(conda)[base]["refresh_ns"] <= time.time_ns()  # its true age, also where conda was kept from asking

    alone = len(server.requests())
    create(conda, plugin=False)  # the ETag is that of the form which conda asks for
    assert {one.status for one in server.requests()[alone:]} <= {304, 404}

    before = len(server.requests())
    assert create(conda, "--quiet").stderr.strip() in {"", "DryRunExit: Dry run. Exiting."}
    again = server.requests()[before:]
    assert {one.status for one in again} <= {304, 404}
    assert [one.status for one in again if "current" not in one.path] == [304, 304]


def test_a_fresh_index_is_not_requested(conda, server):
    """max-age is kept as conda keeps it, and holds for us too."""
    server.always(0, Conditional(), Drop(after=DROP), MAX_AGE)
    create(conda)
    before = len(server.requests(path="/large/*/repodata.json*"))
    create(conda)
    create(conda, plugin=False)
    assert len(server.requests(path="/large/*/repodata.json*")) == before
    everything = len(server.requests())
    conda.run("create", "-p", conda.folder / "env", NEEDLE, "--dry-run", "--offline")
    assert len(server.requests()) == everything


@pytest.mark.parametrize("number", [KILL, signal.SIGINT])
def test_a_stopped_run_continues(conda, server, large, number):
    """kill -9 or Ctrl-C at the half: the next run asks for the rest alone."""
    quota = Quota(large.packed // 2)
    server.always(0, quota, path="*/linux-64/repodata.json.zst")
    process = conda.start("create", "-p", conda.folder / "env", NEEDLE, "--dry-run")
    parts = PartStore(conda.home / ".cache" / "resume-dl" / "repodata" / "parts")
    deadline = time.monotonic() + 60
    while not (kept := sum(each.done for each in parts.unfinished() if each.size == large.packed)):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    if number == signal.SIGINT:
        assert len(our_lines(err)) == 1
        assert "run the same command again to continue" in err
    quota.lift()
    before = len(asked(server, ours=True, path="*/linux-64/repodata.json.zst"))
    create(conda)
    rest = sum(one.sent for one in asked(server, ours=True, path="*/linux-64/repodata.json.zst")[before:])
    assert large.packed // 4 < rest <= large.packed - kept
    assert index_bodies(server, ours=False) == 0


def test_a_conda_without_zst_gets_a_plain_index(test_conda, server, large):
    """Before 26 and without jsonpatch conda asks for repodata.json: so do we, and its ETag is the one that is kept."""
    test_conda.configure(channels=[f"{server.base()}/large"], repodata_use_zst=False)
    create(test_conda)
    assert large.plain <= index_bodies(server, ours=True)
    create(test_conda, plugin=False)
    assert index_bodies(server, ours=False) == 0
    assert not [one for one in server.requests() if one.path.endswith("/repodata.json.zst")]


def test_a_server_without_conditional_requests(conda, server, large):
    """conda asks for nothing, where it would fetch the whole again, even with local_repodata_ttl 0."""
    server.always(0, Drop(after=DROP), Headers({"ETag": None, "Last-Modified": "Fri, 01 Jan 2021 00:00:00 GMT"}))
    conda.configure(local_repodata_ttl=0)
    create(conda)
    assert asked(server, path="/large/*/repodata.json*") == []


def test_two_conda_processes_at_once(conda, server, large):
    """One fetches, the other waits for it; neither asks the server for what the other has."""
    quota = Quota(large.packed // 2)
    server.always(0, MAX_AGE, Conditional(), quota, path="*/linux-64/repodata.json.zst")
    both = [conda.start("create", "-p", conda.folder / name, NEEDLE, "--dry-run") for name in ("one", "two")]
    said, deadline = "", time.monotonic() + 60
    while "waits for" not in said:
        ready, _, _ = select.select([process.stderr for process in both], [], [], 60)
        said += "".join(os.read(stream.fileno(), 4096).decode() for stream in ready)
        assert time.monotonic() < deadline, said
    quota.lift()
    for process in both:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, out + err
        assert our_lines(err) == []
    assert index_bodies(server, ours=True) < large.packed + 100_000
    assert index_bodies(server, ours=False) == 0


@pytest.mark.parametrize("setting", ["resume_dl_index", "resume_dl_prefetch"])
def test_the_plugin_is_switched_off(conda, server, setting):
    """``never`` leaves indexes to conda."""
    conda.configure(plugins={setting: "never"})
    create(conda, expect=1)
    assert asked(server, ours=True) == []


def test_the_current_index_comes_first_and_the_whole_one_if_needed(conda, server, large):
    """A classic solver that finds its solution in current_repodata.json never has the whole one fetched."""
    folder = conda.folder / "channels" / "small" / "linux-64"
    packages = json.loads((large.subdir / "repodata.json").read_text())["packages.conda"]
    needle = {name: record for name, record in packages.items() if name.startswith(NEEDLE)}
    other = {"other-1.0-0.conda": {**needle[f"{NEEDLE}-1.0-0.conda"], "name": "other"}}
    write_index(folder, {**needle, **other})
    write_index(folder, needle, name="current_repodata.json")
    for name in ("repodata.json", "current_repodata.json"):
        write_index(folder.parent / "noarch", {}, subdir="noarch", name=name)
    server.mount(conda.folder / "channels")
    conda.configure(channels=[f"{server.base()}/small"])
    create(conda)
    assert {one.path.rpartition("/")[2] for one in server.requests(path="/small/*")} == {"current_repodata.json.zst"}
    done = conda.run("create", "-p", conda.folder / "env", "other", "--dry-run")
    assert done.returncode == 0, done.stderr
    whole = server.requests(path="/small/*/repodata.json.zst")
    assert len(whole) == 2
    assert all(one.headers["user-agent"].startswith("resume-dl/") for one in whole)


def test_commands_without_a_pre_solve_hook(conda, server, large):
    """``conda search``, ``env create`` (also dry, with the file's own channels) and ``channel::name``."""
    address = f"{server.base()}/large"
    conda.configure(channels=[], channel_alias=server.base())
    for subdir in ("linux-64", "noarch"):
        write_index(conda.folder / "channels" / "other" / subdir, {}, subdir=subdir)
    server.mount(conda.folder / "channels")
    file = conda.folder / "environment.yml"
    file.write_text(json.dumps({"name": "x", "channels": [address], "dependencies": [NEEDLE]}))
    for arguments in (
        ("search", NEEDLE, "-c", address, "--override-channels", "--json"),
        ("env", "create", "-p", conda.folder / "env", "--file", file, "--dry-run"),
        ("create", "-p", conda.folder / "env", f"large::{NEEDLE}", "--dry-run", "--override-channels", "-c", "other"),
    ):
        shutil.rmtree(conda.pkgs, ignore_errors=True)
        before = index_bodies(server, ours=True)
        done = conda.run(*arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert index_bodies(server, ours=True) - before >= large.packed, arguments
        assert index_bodies(server, ours=False) == 0, arguments
        if "--json" in arguments:
            assert NEEDLE in json.loads(done.stdout)


def test_a_login_goes_to_its_server_and_into_no_state_file(conda, server):
    """A token in a channel's address is sent as conda sends it; it stands in no file that conda would not write."""
    token = "tk-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
    for subdir in ("linux-64", "noarch"):
        folder = conda.folder / "private" / "t" / token / "private" / subdir
        write_index(folder, {}, subdir=subdir)
        write_index(folder, {}, subdir=subdir, name="current_repodata.json")
    server.mount(conda.folder / "private")
    conda.configure(channels=[f"{server.base()}/t/{token}/private"])
    done = create(conda, expect=1)  # there is no such package
    assert "PackagesNotFound" in done.stdout + done.stderr
    assert server.requests(path=f"/t/{token}/private/linux-64/repodata.json.zst")
    assert asked(server, path="/t/*") == []
    assert token not in done.stdout + done.stderr
    for path in conda.folder.rglob("*"):
        if path.is_file() and path.name != "condarc" and "private" not in path.parts:
            assert token.encode() not in path.read_bytes(), path


def test_a_failure_is_one_line_and_conda_continues(conda, server):
    """conda's own error follows, and JSON stays JSON."""
    server.always(0, Status(502))
    soon = {"RESUME_DL_GIVE_UP_AFTER": "1"}
    done = create(conda, expect=1, env=soon)
    assert len(our_lines(done.stderr)) == 1
    assert "the index of" in our_lines(done.stderr)[0]
    assert "CondaHTTPError" in done.stderr
    said = create(conda, "--json", expect=1, env=soon)
    assert json.loads(said.stdout)["exception_name"] == "CondaHTTPError"


def test_an_invalid_index_is_not_kept(conda, server):
    """An index that conda could never read does not get into its cache by us; memory and disk are bounded as ever."""
    server.put("/large/linux-64/repodata.json.zst", zstandard.compress(b"[1, 2, 3]"))
    done = conda.run("create", "-p", conda.folder / "env", NEEDLE, "--dry-run")
    assert done.returncode == 1
    (said,) = our_lines(done.stderr)
    assert "is not a JSON object" in said
    assert not [path for path in (conda.pkgs / "cache").iterdir() if path.name.endswith(".tmp")]


def test_a_local_channel_is_not_fetched(conda, server, large):
    """file: channels are read from where they are."""
    conda.configure(channels=[f"file://{large.root}/large"])
    create(conda)
    assert server.requests() == []

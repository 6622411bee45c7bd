"""``conda resume-dl``, ``conda doctor`` and conda's error hints, with a real conda."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time

import pytest

from faults.behaviours import Drop, Flip, Ok, Stall, Status
from resume_dl.app.health import Trouble, examine
from resume_dl.demo.channel import build_channel
from resume_dl.demo.package import PackageSpec
from resume_dl.model.units import show_bytes
from resume_dl.store.part import FOLDER, PartStore
from support.conda_cache import SPEC
from support.fetching import TIMEOUT

pytestmark = pytest.mark.conda

WAITING = re.compile(r"^index of .*: asking$|^still solving, |^the solver is still loading, |^\d[\d.]* k?B, .*B/s, ")
"""Lines that a run prints every few seconds while it waits for an index or a solution."""


@pytest.fixture
def served(offer, nginx_mirrors):
    return nginx_mirrors([offer.root])


def alone(conda, *arguments):
    """``resume-dl`` itself, with the same interpreter and settings."""
    return subprocess.run(
        [conda.python, "-m", "resume_dl", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=conda.folder,
        env=conda.environment({"RESUME_DL_CONDA": str(conda.python)}),
    )


def told(done):
    """Exit code, stdout and stderr, less the seconds that it took and the lines that a slow machine adds."""
    out = done.stdout
    if out.startswith("{"):
        out = json.loads(out)
        out.pop("elapsed", None)
    return done.returncode, out, [line for line in done.stderr.splitlines() if not WAITING.search(line)]


def test_conda_resume_dl_is_the_command_line(test_conda, served, offer):
    """The same words and exit codes as ``resume-dl``; what stands after ``--`` comes through too."""
    channel = f"{served.base(0)}/pytorch"
    codes = {
        ("--help",): 0,
        ("fetch", "no-such-package", "-c", channel, "--override-channels", "--json"): 3,
    }
    for arguments, code in codes.items():
        inside = told(test_conda.run("resume-dl", *arguments))
        assert inside == told(alone(test_conda, *arguments)), arguments
        assert inside[0] == code, arguments
    assert test_conda.run("resume-dl", "fetch").returncode == 2
    nowhere = ("fetch", "x", "-c", "http://127.0.0.1:9/x", "--override-channels", "--give-up-after", "1s", "--json")
    done = test_conda.run("resume-dl", *nowhere)
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (6, 6)
    done = test_conda.run("resume-dl", "get", "-o", "here", "--quiet", "--", f"{channel}/noarch/repodata.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert (test_conda.folder / "here").read_bytes() == (offer.root / "pytorch/noarch/repodata.json").read_bytes()


@pytest.fixture
def large(fault_server, tmp_path):
    """A server with one package, large enough for a journal."""
    server = fault_server()
    build_channel(tmp_path / "own", [PackageSpec(name="large", version="1.0", payload_size=4 << 20)])
    server.mount(tmp_path)
    return server


@pytest.mark.skipif(os.name == "nt", reason="a console's Ctrl-C cannot be sent to one process there")
def test_ctrl_c_keeps_the_bytes_and_the_same_command_continues(test_conda, large):
    """SIGINT half way: 130, and the next run takes the rest. The conda that runs it is asked, not the first on PATH."""
    large.script(0, [Stall(after=2 << 20)], path="*.conda")
    arguments = ("resume-dl", "fetch", "large", "--override-channels", "-c", f"{large.base(0)}/own", "--json")
    parts = PartStore(test_conda.pkgs / FOLDER)
    other = test_conda.folder / "other"
    other.mkdir()
    (other / "conda").write_text(f"#!/bin/sh\necho asked > {other}/asked\nexit 1\n")
    (other / "conda").chmod(0o755)
    env = {"PATH": os.pathsep.join([str(other), os.environ["PATH"]])}
    with test_conda.start(*arguments, "--connections", "1", env=env) as process:
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline and not any(part.done for part in parts.unfinished()):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert "stopped" in err
    assert json.loads(out)["exit_code"] == 130
    assert not (other / "asked").exists()
    large.always(0, Ok(), path="*.conda")
    done = test_conda.run(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["totals"]["resumed"] > 0


def doctor(conda, *arguments):
    """What our check prints, of all that ``conda doctor`` says."""
    done = conda.run("doctor", "-p", conda.folder / "env", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error running health check" not in done.stderr
    return done.stdout


def test_doctor_lists_damaged_packages_and_unfinished_downloads(test_conda, offer, served):
    """Nothing for whole entries; then each kind of damage by its path; digests only with --verbose."""
    test_conda.configure(channels=offer.urls(served.base(0)))
    done = test_conda.run("create", "-p", test_conda.folder / "env", *SPEC)
    assert done.returncode == 0, done.stdout + done.stderr
    clean = doctor(test_conda)
    assert f"The package cache has no damaged packages ({len(offer.wanted)} packages)." in clean
    assert "unfinished" not in clean

    pkgs = test_conda.pkgs
    archives = sorted(path for path in pkgs.iterdir() if path.name.endswith((".conda", ".tar.bz2")))
    damaged, half, long, wrong = archives[:4]
    folder = {path: pkgs / path.name.removesuffix(".conda").removesuffix(".tar.bz2") for path in archives}
    next(path for path in folder[damaged].rglob("*") if path.is_file() and "info" not in path.parts).unlink()
    (folder[half] / "info" / "repodata_record.json").unlink()
    (folder[half] / "info" / "paths.json").unlink()
    (folder[half] / "info" / "files").unlink(missing_ok=True)
    long.write_bytes(long.read_bytes() + b"x")
    data = bytearray(wrong.read_bytes())
    data[len(data) // 2] ^= 1
    wrong.write_bytes(data)
    (pkgs / "conda-left-1.0-0.conda.partial").write_bytes(b"x" * 4096)

    said = doctor(test_conda)
    for path in (folder[damaged], folder[half], long):
        assert f"  {path}: " in said
    assert str(wrong) not in said
    assert "1 unfinished download" in said
    assert "Remove what is named here" in said
    said = doctor(test_conda, "--verbose")
    assert re.search(rf"  {re.escape(str(wrong))}: has (sha256|md5)-[0-9a-f]+, its record says ", said)
    assert f"{pkgs / 'conda-left-1.0-0.conda.partial'}" in said
    found = {each.path: each.trouble for each in examine([pkgs], hashing=True).findings}
    assert found == {
        folder[damaged]: Trouble.DAMAGED,
        folder[half]: Trouble.HALF_EXTRACTED,
        long: Trouble.WRONG_SIZE,
        wrong: Trouble.WRONG_DIGEST,
        pkgs / "conda-left-1.0-0.conda.partial": Trouble.PARTIAL,
    }


def leaves(error):
    """The errors in a CondaMultiError, else the error itself."""
    return [leaf for each in error["errors"] for leaf in leaves(each)] if "errors" in error else [error]


def hints_of(error):
    return [hint for leaf in leaves(error) for hint in leaf.get("guidance", {}).get("hints", [])]


@pytest.mark.parametrize(
    ("behaviour", "prefetch"),
    [(Status(503), "never"), (Status(404), "always"), (Flip(2000), "always")],
    ids=["503, not fetched ahead", "404", "wrong bytes"],
)
def test_an_error_of_conda_names_the_command_that_fetches_the_package(test_conda, large, behaviour, prefetch):
    """Where the same download cannot help; condas before 26 have no hints, and say what they always said."""
    large.always(0, behaviour, path="*.conda")
    test_conda.configure(channels=[f"{large.base(0)}/own"], plugins={"resume_dl_prefetch": prefetch})
    create = ("create", "-p", test_conda.folder / "env", "large", "--json")
    done = test_conda.run(*create)
    assert done.returncode == 1, done.stdout + done.stderr
    hints = hints_of(json.loads(done.stdout))
    if test_conda.version() < (26, 0):
        assert hints == []
        return
    command = f"conda resume-dl fetch --no-deps -c {large.base(0)}/own large=1.0=0"
    assert {hint["hint_code"] for hint in hints} == {"resume_dl_continue"}
    assert f"`{command}`" in hints[0]["text"]
    if prefetch == "never":
        large.always(0, Ok(), path="*.conda")
        assert test_conda.run(*command.split()[1:]).returncode == 0
        large.always(0, behaviour, path="*.conda")
        done = test_conda.run(*create)
        assert done.returncode == 0, done.stdout + done.stderr


def test_an_error_of_conda_says_what_is_on_disk_and_to_retry(test_conda, large):
    """After our own try had failed too: the same command goes on from what is on disk."""
    large.script(0, [Drop(after=2 << 20), Status(503)], path="*.conda")
    test_conda.configure(channels=[f"{large.base(0)}/own"])
    create = ("create", "-p", test_conda.folder / "env", "large")
    done = test_conda.run(*create, env={"RESUME_DL_GIVE_UP_AFTER": "2s"})
    assert done.returncode == 1, done.stdout + done.stderr
    safe = sum(each.actual for each in examine([test_conda.pkgs]).unfinished)
    assert safe >= 2 << 20
    hinted = f"Run the same command again: {show_bytes(safe)} of unfinished downloads are safe" in done.stderr
    assert hinted is (test_conda.version() >= (26, 0))
    large.always(0, Ok(), path="*.conda")
    done = test_conda.run(*create)
    assert done.returncode == 0, done.stdout + done.stderr
    assert sum(request.sent for request in large.requests() if request.path.endswith(".conda")) < (6 << 20)

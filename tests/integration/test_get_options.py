"""get: where it writes, what it overwrites, where it goes on, whether there is room, and what it advises."""

from __future__ import annotations

import hashlib
import random
import shutil
import signal
from types import SimpleNamespace

import pytest

from faults.behaviours import NeverAnswer, Ok, Stall, Status, WrongContentLength
from resume_dl.app.get import WaitReporter
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.url import RedactedUrl
from resume_dl.ports import ArtifactProgress
from resume_dl.store.part import PartStore
from support.fetching import User

MIB = 1 << 20
DATA = random.Random(7).randbytes(4 * MIB)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


@pytest.fixture
def server(fault_server):
    """One server with /a.bin and /b.bin."""
    server = fault_server(ports=1)
    server.put("/a.bin", DATA)
    server.put("/b.bin", DATA[:MIB])
    return server


def test_a_folder_is_created_for_several_files(user, server):
    """`-o DIR/` makes the folder, and each file goes in under the name of its address."""
    done = user.run("get", f"{server.base()}/a.bin", f"{server.base()}/b.bin", "-o", "new/folder/")
    assert done.code == 0, done.err
    assert (user.folder / "new" / "folder" / "a.bin").read_bytes() == DATA
    assert (user.folder / "new" / "folder" / "b.bin").read_bytes() == DATA[:MIB]
    assert sorted(path.name for path in (user.folder / "new" / "folder").iterdir()) == ["a.bin", "b.bin"]


def test_an_existing_folder_needs_no_slash(user, server):
    """As with cp: what is a folder is written into."""
    (user.folder / "there").mkdir()
    assert user.run("get", f"{server.base()}/a.bin", "-o", "there").code == 0
    assert (user.folder / "there" / "a.bin").read_bytes() == DATA


@pytest.mark.parametrize("named", [[], ["-o", "a.bin"], ["-o", "./"]], ids=["no -o", "a file", "a folder"])
@pytest.mark.parametrize("digest", [[], ["--sha256", SHA256]], ids=["no digest", "sha256"])
def test_another_file_is_overwritten_only_by_force(user, server, named, digest):
    """Whatever names it, a file with other bytes stays and nothing is asked for; --force replaces it."""
    (user.folder / "a.bin").write_text("mine")
    line = ["get", f"{server.base()}/a.bin", *named, *digest]
    refused = user.run(*line)
    assert refused.code == 5
    assert "--force" in refused.err
    assert (user.folder / "a.bin").read_text() == "mine"
    assert server.requests() == []
    forced = user.run(*line, "--force")
    assert forced.code == 0, forced.err
    assert (user.folder / "a.bin").read_bytes() == DATA


def test_standard_output_is_refused(user, server):
    """`-o -` makes no file of that name, and asks for nothing; a file may still be called so."""
    refused = user.run("get", f"{server.base()}/b.bin", "-o", "-")
    assert refused.code == 2
    assert "standard output is not supported" in refused.err
    assert server.requests() == []
    assert not (user.folder / "-").exists()
    assert user.run("get", f"{server.base()}/b.bin", "-o", "./-").code == 0
    assert (user.folder / "-").read_bytes() == DATA[:MIB]


def test_an_existing_right_file_is_kept(user, server):
    """With the right digest there is nothing to do, to overwrite or to ask for."""
    (user.folder / "mine.bin").write_bytes(DATA)
    done = user.run("get", f"{server.base()}/a.bin", "-o", "mine.bin", "--sha256", SHA256, "--force", "--json")
    assert (done.code, done.artifact("mine.bin")["status"]) == (0, "cached")
    assert server.requests() == []


def test_get_reports_where_it_resumes(user, server):
    """A killed get says at the next start how much it has; one that begins says nothing of the kind."""
    server.always(None, Stall(after=2 * MIB))
    with user.start("get", f"{server.base()}/a.bin", "--sha256", SHA256) as process:
        while not any(part.done >= MIB for part in PartStore(user.folder / ".resume-dl").unfinished()):
            assert process.poll() is None
        process.kill()
        assert "resuming" not in process.communicate(timeout=60)[1]
    server.always(None, Ok())
    done = user.run("get", f"{server.base()}/a.bin", "--sha256", SHA256)
    assert done.code == 0, done.err
    said = next(line for line in done.err.splitlines() if "resuming" in line)
    assert said.startswith("a.bin: resuming at ")
    assert done.err.count("resuming") == 1
    assert (user.folder / "a.bin").read_bytes() == DATA


def test_a_file_that_does_not_fit_is_refused_at_once(user, server):
    """The first answer tells the size: if the disk has less room, that is the end, with exit 5 and the numbers."""
    server.always(None, WrongContentLength(shutil.disk_usage(user.folder).free * 2))
    done = user.run("get", f"{server.base()}/a.bin", "--json", "--give-up-after", "20s")
    assert done.code == 5, done.err
    error = done.artifact("a.bin")["error"]
    assert error["type"] == "OutOfSpaceError"
    assert "-o" in error["hint"]
    assert "--pkgs-dir" not in done.err
    assert done.artifact("a.bin")["path"] is None


def test_hints_name_only_options_that_it_has(user, server):
    """No --pkgs-dir for a folder that cannot be written, no mirror for an address that no mirror has."""
    (user.folder / "closed").mkdir(mode=0o500)
    done = user.run("get", f"{server.base()}/a.bin", "-o", "closed/", as_root=False)
    assert done.code == 5
    assert "with -o" in done.err
    assert "--pkgs-dir" not in done.err
    server.always(None, Status(404))
    lacking = user.run("get", f"{server.base()}/a.bin")
    assert lacking.code == 1
    assert "--mirror-url" in lacking.err
    assert "--no-upstream" not in lacking.err


def test_a_silent_host_is_named_at_once(user, fault_server):
    """An address that takes the connection and says nothing: told as soon as the first look at it, once."""
    server = fault_server(ports=1)
    server.put("/a.bin", DATA)
    server.always(None, NeverAnswer())
    with user.start("get", f"{server.base()}/a.bin") as process:
        told = ""
        while "waiting for an answer from" not in told:
            assert process.poll() is None
            told = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert told == f"waiting for an answer from {server.base().removeprefix('http://')}\n"
    assert "waiting for" not in err


def test_when_silence_is_reported():
    """After eight tenths of a second without a byte, once for a file's hosts; never where bytes come."""
    now, told = [0.0], []
    artifact = Artifact(
        kind="file",
        filename="a.bin",
        url=RedactedUrl("http://192.0.2.1/a.bin"),
        sources=(Source("given", RedactedUrl("http://192.0.2.1/a.bin")), Source("given", RedactedUrl("http://h/a"))),
    )
    reporter = SimpleNamespace(message=told.append, progress=lambda _: None, plan=None, event=None, close=None)
    waiting = WaitReporter(reporter, [artifact], clock=lambda: now[0])

    def tell(at, done, state="downloading"):
        now[0] = at
        waiting.progress(ArtifactProgress(artifact.key, "a.bin", None, done, 0, state))

    tell(0.0, 0, "checking")
    tell(5.0, 0)
    tell(5.7, 0)
    assert told == []
    tell(5.9, 0)
    tell(9.0, 0)
    assert told == ["waiting for an answer from 192.0.2.1, h"]

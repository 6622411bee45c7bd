"""get, status, clean and mirrors list, as a user runs them."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from faults.behaviours import Quota, Rate
from resume_dl.store.part import FOLDER
from support.bundles import begun
from support.channels import build_pytorch_channels
from support.fetching import TIMEOUT, User

pytestmark = pytest.mark.nginx
MIB = 1 << 20


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


@pytest.fixture
def offered(tmp_path):
    """A folder with one file of 6 MiB, and its sha256."""
    root = tmp_path / "www"
    root.mkdir()
    data = random.Random(7).randbytes(6 * MIB)
    (root / "data.bin").write_bytes(data)
    return root, data, hashlib.sha256(data).hexdigest()


def unfinished(user):
    return json.loads(user.run("status", "--json").out)["unfinished"]


def test_get_continues_after_a_kill(user, offered, nginx_mirrors):
    """Killed half way, `get` goes on where it was, says so, and leaves nothing but the file."""
    root, data, sha256 = offered
    nginx = nginx_mirrors([root], rate=MIB)
    url = f"{nginx.base(0)}/data.bin"
    with user.start("get", url, "--sha256", sha256) as process:
        while not any((user.folder / ".resume-dl").glob("*.part")) or nginx_sent(user) < 2 * MIB:
            assert process.poll() is None
        with nginx.paused():
            process.kill()
    before = nginx.body_bytes()
    done = user.run("get", url, "--sha256", sha256, "--json")
    assert done.code == 0
    assert done.artifact("data.bin")["status"] == "resumed"
    assert (user.folder / "data.bin").read_bytes() == data
    assert not (user.folder / ".resume-dl").exists()
    assert nginx.body_bytes() <= len(data) + 2 * MIB
    assert before < len(data)
    again = user.run("get", url, "--sha256", sha256, "--json")
    assert again.artifact("data.bin")["status"] == "cached"


def test_status_finds_a_part_file_of_get_in_the_current_folder(user, offered, fault_server):
    """`status` and `clean` look into the current folder too; nobody works there any more, so nothing is busy."""
    server = fault_server()
    server.mount(offered[0])
    server.always(None, Quota(MIB))
    with user.start("get", f"{server.base()}/data.bin") as process:
        while not any(row["busy"] for row in unfinished(user)):
            assert process.poll() is None
        process.kill()
    rows = unfinished(user)
    assert [(row["folder"], row["busy"]) for row in rows] == [(str(user.folder / ".resume-dl"), False)]
    said = user.run("clean").out
    assert said.startswith("removed")
    assert rows[0]["key"] in said
    assert unfinished(user) == []


def nginx_sent(user):
    """Bytes that the journal of the one unfinished file holds."""
    from resume_dl.store.part import PartStore

    return sum(part.done for part in PartStore(user.folder / ".resume-dl").unfinished())


def test_get_without_a_digest_says_so(user, offered, nginx_mirrors):
    """A file that nothing vouches for comes, with its sha256 and the word that it was not verified."""
    root, data, sha256 = offered
    done = user.run("get", f"{nginx_mirrors([root]).base(0)}/data.bin", "-o", "other.bin")
    assert done.code == 0
    assert (user.folder / "other.bin").read_bytes() == data
    assert "not verified" in done.err
    assert sha256 in done.err


def test_get_refuses_a_wrong_digest(user, offered, nginx_mirrors):
    """Wrong bytes: exit 4, no file, and both digests can be read from the report."""
    root, _, sha256 = offered
    done = user.run("get", f"{nginx_mirrors([root]).base(0)}/data.bin", "--sha256", "0" * 64, "--json")
    assert done.code == 4
    assert done.artifact("data.bin")["error"]["type"] == "DigestMismatchError"
    assert sha256 in done.err
    assert not (user.folder / "data.bin").exists()


@pytest.mark.parametrize(
    "arguments", [["ftp://h/x"], ["http://h/"], ["http://h/x", "--md5", "zz"], ["http://[::1/x"], ["a", "b", "-o", "c"]]
)
def test_get_refuses_invalid_arguments(user, arguments):
    """Addresses and digests that cannot be meant are exit 2."""
    assert user.run("get", *arguments).code == 2


def test_status_and_clean(user, tmp_path, fault_server):
    """`status` shows what an interrupted fetch left, `clean` removes it, and finished packages stay."""
    root = tmp_path / "channels"
    build_pytorch_channels(root, large=8 * MIB, medium=MIB)
    server = fault_server()
    server.mount(root)
    server.always(None, Quota(2 * MIB), path="*/pytorch-1*")
    user.mirrors(one=server.base())
    assert unfinished(user) == []
    with user.start("fetch", *user.options, "pytorch=1.7") as process:
        while not any(row["done"] and (row["filename"] or "").startswith("pytorch-1") for row in unfinished(user)):
            assert process.poll() is None  # the quota holds this one back
        process.send_signal(signal.SIGKILL)
    rows = unfinished(user)
    assert rows
    assert all(row["done"] <= row["size"] for row in rows if row["size"] is not None)  # small ones have no journal
    kept = sorted(path.name for path in user.pkgs.iterdir())
    (user.pkgs / FOLDER / f"sha256-{'ab' * 32}.lock").touch()  # of a process killed after it had published
    cleaned = json.loads(user.run("clean", "--json").out)["unfinished"]
    assert [row["key"] for row in cleaned] == [row["key"] for row in rows]
    assert unfinished(user) == []
    assert not (user.pkgs / FOLDER).exists()
    assert [name for name in kept if name != ".resume-dl"] == sorted(path.name for path in user.pkgs.iterdir())


def test_clean_keeps_files_in_use(user, tmp_path, fault_server):
    """A download that another process works on is named and not touched; it ends well."""
    root = tmp_path / "channels"
    build_pytorch_channels(root, large=8 * MIB, medium=MIB)
    server, some = fault_server(), Quota(256 * 1024)
    server.mount(root)
    server.always(None, some, path="*/pytorch-1*")
    user.mirrors(one=server.base())
    wanted = json.loads(user.fetch("pytorch=1.7", "--dry-run", "--json").out)["artifacts"]
    with user.start("fetch", *user.options, "pytorch=1.7", "--give-up-after", "600s", "--json") as process:
        others = 0
        while others < len(wanted) - 1 or not begun(user.pkgs):  # what has just ended is listed, and busy no more
            assert process.poll() is None
            time.sleep(0.01)
            others = sum((user.pkgs / each["filename"]).exists() for each in wanted)
        assert all(row["busy"] for row in unfinished(user))
        assert "kept" in user.run("clean").out
        rows = json.loads(user.run("clean", "--json").out)["unfinished"]
        assert rows
        assert all(row["busy"] for row in rows)
        some.lift()
        out, err = process.communicate(timeout=TIMEOUT)
        assert process.returncode == 0, err
        assert json.loads(out)["ok"]


def test_mirrors_list(user):
    """The table names each mirror, what it carries for conda and for pip, and says which are gone."""
    lines = user.run("mirrors", "list").out.splitlines()
    shown = {line.split()[0]: [each.strip() for each in lines[at : at + 3]] for at, line in enumerate(lines)}
    assert shown["tuna"][1].startswith("conda: pkgs/main, ")
    assert shown["tuna"][2] == "pip: package index, its files"
    assert shown["aliyun"][2] == "pip: package index, its files, pytorch's wheels"
    assert "[retired: use tuna" in shown["douban"][0]
    assert shown["douban"][1] == "pip: package index"
    names = [row["name"] for row in json.loads(user.run("mirrors", "list", "--json").out)["mirrors"]]
    assert names[0] == "tuna"


def test_get_replaces_only_regular_files(user, offered, nginx_mirrors):
    """Devices, pipes, folders, read-only files and, unless named by -o, files that are there stay as they are."""
    root, data, sha256 = offered
    url = f"{nginx_mirrors([root]).base(0)}/data.bin"
    os.mkfifo(user.folder / "pipe")
    (user.folder / "folder").mkdir()
    (user.folder / "precious").write_text("mine")
    (user.folder / "precious").chmod(0o444)
    for name in ("pipe", "precious", "missing/x", "x" * 300, "/dev/null", "precious/"):
        assert user.run("get", url, "-o", name).code == 5, name
    assert (user.folder / "pipe").is_fifo()
    assert (user.folder / "precious").read_text() == "mine"
    assert not Path("/dev/null").is_file()
    (user.folder / "data.bin").write_text("mine too")
    assert user.run("get", url, "--sha256", sha256).code == 5
    assert (user.folder / "data.bin").read_text() == "mine too"
    (user.folder / "link").symlink_to("target")
    done = user.run("get", url, "-o", "link", "--json")
    assert done.code == 0
    assert (user.folder / "link").is_symlink()
    assert (user.folder / "target").read_bytes() == data
    assert done.report["totals"]["bytes"] == len(data)


def test_get_two_addresses_of_one_name(user, offered, nginx_mirrors):
    """Two files that would have one name are refused before anything is downloaded."""
    nginx = nginx_mirrors([offered[0]])
    assert user.run("get", f"{nginx.base(0)}/data.bin", f"{nginx.base(0)}/x/data.bin").code == 2
    assert nginx.requests() == []


def test_get_offline_of_an_existing_file(user, offered):
    """A file that is there and right needs no line."""
    _, data, sha256 = offered
    (user.folder / "data.bin").write_bytes(data)
    done = user.run("get", "http://127.0.0.1:9/data.bin", "--sha256", sha256, "--offline", "--json")
    assert (done.code, done.artifact("data.bin")["status"]) == (0, "cached")
    assert user.run("get", "http://127.0.0.1:9/other.bin", "--offline").code == 1


def test_an_ignored_ctrl_c_stays_ignored(tmp_path, fault_server):
    """In a script's background the shell has SIGINT ignored: it is no word to us."""
    server = fault_server()
    server.put("/file.bin", bytes(range(256)) * 8192)
    server.always(0, Rate(1 << 20), path="/file.bin")
    user = User(tmp_path / "user")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a child inherits it
    try:
        process = user.start("get", f"{server.base()}/file.bin")
    finally:
        signal.signal(signal.SIGINT, before)
    with process:
        while not server.requests():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert (user.folder / "file.bin").stat().st_size == 256 * 8192


def test_quiet_does_not_hide_a_condarc_that_cannot_be_read(user, tmp_path):
    """Its channels are not the default ones: the run says so before it fails or fetches anything."""
    broken = tmp_path / "condarc"
    broken.write_bytes("channels: [https://镜像.example]\n".encode("gbk") + b"\xff\n")
    done = user.run("fetch", "--quiet", "--offline", "--dry-run", "pytorch", env={"CONDARC": str(broken)})
    assert done.code != 0
    assert f"error: some conda settings could not be read: {broken} is not text in UTF-8" in done.err

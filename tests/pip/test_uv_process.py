"""What other users of this machine can read of the uv that we run."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from faults.behaviours import NeverAnswer
from support.fetching import User
from support.pip_index import build_wheel, write_find_links, write_index

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def words(pid: int, name: str) -> list[str]:
    return os.fsdecode(Path(f"/proc/{pid}/{name}").read_bytes()).split("\0")


@pytest.fixture
def user(tmp_path):
    found = User(tmp_path / "user")
    found.options = ["--mirrors", str(found.write_mirrors({})), "--give-up-after", "60s"]
    return found


def test_the_gateways_path_is_in_no_argument_list(tmp_path, fault_server, user):
    """Anybody may read /proc/PID/cmdline; the environment, where the path is, only uv's owner."""
    server = fault_server()
    server.always(None, NeverAnswer(), path="/simple/*")
    with user.start("fetch", *user.options, "--pip", "app", "--index-url", f"{server.base()}/simple") as process:
        try:
            while not server.requests():
                assert process.poll() is None
            uv = [pid for pid in children(process.pid) if Path(words(pid, "cmdline")[0]).stem == "uv"]
            assert len(uv) == 1
            assert "compile" in words(uv[0], "cmdline")
            assert not re.search(r"127\.0\.0\.1|https?:", " ".join(words(uv[0], "cmdline")))
            found = [word for word in words(uv[0], "environ") if word.startswith("UV_DEFAULT_INDEX=")]
            assert re.fullmatch(r"UV_DEFAULT_INDEX=http://127\.0\.0\.1:\d+/[\w-]{32}/index/\d+/", found[0])
        finally:
            process.kill()


def test_several_indexes_and_pages_arrive(tmp_path, nginx_mirrors, user):
    """The extra indexes are asked first, each in its place, and every page of links is read."""
    built, root = tmp_path / "built", tmp_path / "www"
    for number, name in enumerate(("one", "two", "three")):
        write_index(root / name, [build_wheel(built / name, f"in-{name}", f"{number}.0")])
    for name in ("four", "five"):
        write_find_links(root / name, [build_wheel(built / name, f"in-{name}", "9.0")])
    nginx = nginx_mirrors([root])
    given = ["--index-url", f"{nginx.base()}/one/simple"]
    for name in ("two", "three"):
        given += ["--extra-index-url", f"{nginx.base()}/{name}/simple"]
    for name in ("four", "five"):
        given += ["--find-links", f"{nginx.base()}/{name}/whl/torch_stable.html"]
    wanted = [f"in-{name}" for name in ("one", "two", "three", "four", "five")]
    pip = [word for name in wanted for word in ("--pip", name)]
    done = user.run("fetch", *user.options, *pip, *given, "--json")
    assert done.code == 0, done.err
    assert sorted(each["name"] for each in done.report["artifacts"]) == sorted(wanted)

"""What others wrote reaches the screen without anything that a terminal obeys: of headers, records, names and pages."""

from __future__ import annotations

import json
import re

import pytest

from faults.behaviours import Headers
from resume_dl.progress.console import presentable
from support.fetching import CHANNELS, User
from support.plugin import use_mirrors

_TITLE = "\x1b]0;x\x07"
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffe]")


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


def assert_harmless(*outputs: str) -> None:
    for output in outputs:
        assert not _FORBIDDEN.search(output.replace("\r\n", "\n")), ascii(output)


def test_a_header(user, fault_server):
    """Its value is quoted by the error, which is shown, with a mark in the place of each escape."""
    server = fault_server()
    server.put("/f.bin", b"x" * 100)
    server.always(0, Headers({"Content-Encoding": f"{_TITLE}\x9b2Jodd"}))
    done = user.run("get", f"{server.base()}/f.bin", "--give-up-after", "10s")
    assert done.code != 0
    assert "odd" in done.err
    assert_harmless(done.out, done.err)
    reported = user.run("get", f"{server.base()}/f.bin", "--give-up-after", "10s", "--json", "--progress", "json")
    assert "odd" in reported.out
    assert_harmless(reported.out, reported.err)
    assert _TITLE not in json.dumps(reported.report["artifacts"][0]["error"]["message"], ensure_ascii=False)


@pytest.mark.parametrize("escape", [_TITLE, "\u202e", "\x9b31m"])
def test_a_record(user, fault_server, escape):
    """The solver's explanation names what a package depends on."""
    server = fault_server()
    name = "app-1-0.tar.bz2"
    record = {"name": "app", "version": "1", "build": "0", "build_number": 0, "size": 9, "sha256": "0" * 64}
    record |= {"depends": [f"gone {escape}odd"], "subdir": "linux-64"}
    for channel in CHANNELS:
        for subdir in ("linux-64", "noarch"):
            packages = {name: record} if (channel, subdir) == (CHANNELS[0], "linux-64") else {}
            index = json.dumps({"info": {"subdir": subdir}, "packages": packages, "packages.conda": {}})
            server.put(f"/{channel}/{subdir}/repodata.json", index.encode())
    user.mirrors(one=server.base())
    done = user.fetch("app")
    assert done.code != 0
    assert "gone" in done.err
    assert_harmless(done.out, done.err)


def test_an_encoded_index_page_is_refused(user, fault_server):
    """A page that comes in another encoding is refused, and says in which."""
    server = fault_server()
    server.put("/simple/app/", b"<html></html>")
    server.always(0, Headers({"Content-Type": "text/html", "Content-Encoding": f"{_TITLE}odd"}))
    index = ["--index-url", f"{server.base()}/simple", "--mirrors", user.write_mirrors({})]
    done = user.run("fetch", "--pip", "app", "--give-up-after", "10s", *index)
    assert done.code != 0
    assert "odd" in done.err
    assert_harmless(done.out, done.err)


def test_the_url_of_the_user(user):
    """An argument with an escape, as a script may pass on what it read elsewhere."""
    done = user.run("get", "htp://\x1bc\u202eodd/f")
    assert done.code == 2
    assert "odd" in done.err
    assert_harmless(done.out, done.err)


@pytest.mark.conda
def test_the_plugin(test_conda, offer, fault_server):
    """Nothing of ours is fetched, why is said in one line, and conda continues on its own."""
    server = fault_server()
    server.mount(offer.root)
    for path in ("*.conda", "*.tar.bz2"):
        server.always(0, Headers({"Content-Encoding": f"{_TITLE}odd"}), path=path)
    use_mirrors(test_conda, server.base(), [])
    done = test_conda.run("create", "-p", test_conda.folder / "env", "libuv")
    (ours,) = [line for line in done.stderr.splitlines() if "resume-dl: " in line and "odd" in line]
    assert "conda continues on its own" in ours
    assert_harmless(ours)


def test_presentable():
    """Line feeds and tabs of our own messages stay, also letters of any language; half a character is shown as one."""
    assert presentable("a\n\tb é 日本 עברית") == "a\n\tb é 日本 עברית"
    assert ascii(presentable("\r\x1b[2J\u202e\ud8ff\U000e0041x")) == ascii("��[2J���x")

"""Mirrors that block us and networks that want a login, as a user meets them: real processes, a server that counts."""

from __future__ import annotations

import json
import os
import sys
import time

import pytest

from faults.behaviours import Headers, Latency, Ok, Page, Status
from resume_dl.engine.job import Outcome, SourceReport
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.choose import choose
from resume_dl.settings.blocks import Block, read_blocks
from resume_dl.transfer.blocks import Blocks
from support.conda_cache import build_large_offer
from support.fetching import User
from support.processes import Run

WANTED = "pytorch=1.7"
DAY = 86400.0
BLOCK_PAGE = Page(403, "<html><body>Your address is blocked for too many downloads</body></html>")
LOGIN_PAGE = Page(200)


@pytest.fixture
def user(user, server):
    user.mirrors(good=server.base(0), strict=server.base(1))
    return user


def remembered(user):
    blocks = read_blocks(user.own["state"] / "blocks.json", now=time.time(), lasting=DAY)
    return {block.mirror for block in blocks.values()}


def set_back(user, seconds):
    """The file, as if it had been written earlier."""
    path = user.own["state"] / "blocks.json"
    document = json.loads(path.read_text())
    for entry in document["blocks"].values():
        entry["since"] -= seconds
    path.write_text(json.dumps(document))


def run_blocked(user, server):
    """A run in which the second mirror blocks us."""
    server.always(1, BLOCK_PAGE)
    done = user.fetch(WANTED, "--json")
    assert done.code == 0, done.err
    assert server.requests(1)
    return done


def test_a_blocked_mirror_is_not_contacted_for_a_day(user, server, offer):
    """The first run survives and says so; the next makes no request to it, and says which, since and until when."""
    first = run_blocked(user, server)
    assert "strict" in first.err
    assert "--mirror strict" in first.err
    user.assert_complete(offer.wanted)
    assert remembered(user) == {"strict"}
    before = len(server.requests(1))
    second = user.fetch(WANTED, "--json")
    assert second.code == 0, second.err
    assert len(server.requests(1)) == before
    for word in ("strict", "since", "until", "--mirror strict"):
        assert word in second.err
    set_back(user, DAY)
    server.always(1, Ok())
    third = user.fetch(WANTED, "--json", "--pkgs-dir", user.folder / "other")
    assert third.code == 0, third.err
    assert len(server.requests(1)) > before
    assert "--mirror strict" not in third.err


def test_mirrors_list_shows_the_block(user, server):
    """`mirrors list` says of the blocked mirror, and of no other, that and until when it is left out."""
    run_blocked(user, server)
    table = ("--mirrors", user.folder / "mirrors.toml")
    rows = json.loads(user.run("mirrors", "list", *table, "--json").out)["mirrors"]
    assert {row["name"]: row["blocked"] is not None for row in rows} == {"good": False, "strict": True}
    assert user.run("mirrors", "list", *table).out.count("has blocked this machine since") == 1


def test_mirror_option_retries_a_blocked_mirror(user, server):
    """--mirror NAME asks a mirror whatever was remembered; when it serves us, the block is forgotten."""
    run_blocked(user, server)
    again = user.fetch(WANTED, "--mirror", "strict", "--pkgs-dir", user.folder / "second")
    assert again.code != 0
    assert remembered(user) == {"strict"}
    server.always(1, Ok())
    before = len(server.requests(0))
    well = user.fetch(WANTED, "--mirror", "strict", "--pkgs-dir", user.folder / "third")
    assert well.code == 0, well.err
    assert len(server.requests(0)) == before
    assert remembered(user) == set()


def test_without_another_source_the_error_says_what_to_do(user, server):
    """Where the blocked mirror is the only place, it is still not asked, and the error names the way to ask it."""
    run_blocked(user, server)
    before = len(server.requests())
    user.mirrors(strict=server.base(1))
    done = user.fetch(WANTED)
    assert done.code in {1, 6}
    assert len(server.requests()) == before
    assert "--mirror strict" in done.err.partition("error:")[2]


@pytest.mark.parametrize(
    "answer",
    [
        (BLOCK_PAGE, Headers({"Via": "1.1 gate"})),
        (BLOCK_PAGE, Headers({"X-Squid-Error": "ERR_ACCESS_DENIED 0"})),
        (BLOCK_PAGE, Headers({"Content-Type": "application/xml"})),
        (Status(403),),
    ],
    ids=["via", "squid", "xml", "plain"],
)
def test_other_refusals_are_not_remembered(user, server, answer):
    """A proxy's page, a bucket's XML for a missing file and a bare 403 say nothing about the mirror."""
    server.always(1, *answer)
    done = user.fetch(WANTED)
    assert done.code == 0, done.err
    assert server.requests(1)
    assert remembered(user) == set()


def test_two_mirrors_that_refuse_alike_mean_the_network(tmp_path, offer, fault_server):
    """Two hosts with a block page in one run: it is the network between, and no mirror is remembered."""
    server = fault_server(ports=3)
    server.mount(offer.root)
    user = User(tmp_path / "user")
    user.mirrors(one=server.base(0), two=server.base(1), good=server.base(2))
    for port in (0, 1):
        server.always(port, BLOCK_PAGE)
    # the good one is slow, so that both of the others are asked in any case
    server.always(2, Latency(0.3))
    done = user.fetch(WANTED)
    assert done.code == 0, done.err
    assert server.requests(0)
    assert server.requests(1)
    assert remembered(user) == set()


def test_one_refused_file_is_not_a_block(user, server):
    """A mirror that serves other files has not blocked us: one file there has wrong permissions."""
    server.always(1, BLOCK_PAGE, path="*mkl*")
    server.always(0, Latency(0.2))
    done = user.fetch(WANTED)
    assert done.code == 0, done.err
    assert remembered(user) == set()


@pytest.mark.parametrize("served", [True, False])
def test_a_304_counts_as_an_answer(tmp_path, served):
    """A mirror that says 304 to a question for its index has not blocked us, whatever it says of one file."""
    url = RedactedUrl("http://strict.example/f")
    artifact = Artifact(kind="file", filename="f", url=url, sources=(Source("strict", url),))
    blocks = Blocks(tmp_path, MirrorTable({}, (Mirror("strict"),)), lasting=DAY)
    if served:
        blocks.record([Outcome(artifact, "failed", reason="unchanged")])
    blocks.record([Outcome(artifact, "failed", sources=(SourceReport("strict", 0, {"blocked": 1}),))])
    blocks.save(choose("none", sys.stderr, quiet=True, verbose=False))
    assert bool(read_blocks(tmp_path / "blocks.json", now=time.time(), lasting=DAY)) is not served


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema": 1, "blocks": 5}', '{"schema": 9, "blocks": {}}', "\0" * 64]
)
def test_a_damaged_blocks_file_is_ignored(user, server, text):
    """Whatever lies in the file, a run goes on as if nothing were remembered, and the next block is kept."""
    user.own["state"].mkdir(parents=True)
    (user.own["state"] / "blocks.json").write_text(text)
    run_blocked(user, server)
    assert remembered(user) == {"strict"}


def test_invalid_entries_are_skipped(tmp_path):
    """Single entries of another form, or from the future, do not hide the others."""
    path = tmp_path / "blocks.json"
    entries = {
        "a": {"mirror": "a", "since": 900},
        "b": {"mirror": "b"},
        "c": 7,
        "d": {"mirror": "d", "since": "soon"},
        "e": {"mirror": "e", "since": 2000},
        "f": {"mirror": "f", "since": 1},
    }
    path.write_text(json.dumps({"schema": 1, "blocks": entries}))
    assert read_blocks(path, now=1000.0, lasting=500.0) == {"a": Block("a", "a", 900.0)}


WRITER = """
import sys
from pathlib import Path
from resume_dl.transfer.blocks import Blocks
from resume_dl.engine.job import Outcome, SourceReport
from resume_dl.model.artifact import Artifact, Source
from resume_dl.model.mirror import Mirror, MirrorTable
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.choose import choose
for number in range(20):
    name = f"{sys.argv[2]}{number}"
    url = RedactedUrl(f"http://{name}.example/f")
    artifact = Artifact(kind="file", filename="f", url=url, sources=(Source(name, url),))
    blocks = Blocks(Path(sys.argv[1]), MirrorTable({}, (Mirror(name),)), lasting=86400.0)
    blocks.record([Outcome(artifact, "failed", sources=(SourceReport(name, 0, {"blocked": 1}),))])
    blocks.save(choose("none", sys.stderr, quiet=True, verbose=False))
"""


def test_two_processes_keep_each_others_entries(tmp_path):
    """Two runs that learn of blocks at the same moment: the file holds what both have learnt."""
    one, two = (Run([sys.executable, "-c", WRITER, str(tmp_path), name]) for name in ("a", "b"))
    with one, two:
        assert [writer.wait(timeout=60) for writer in (one, two)] == [0, 0]
    kept = read_blocks(tmp_path / "blocks.json", now=time.time(), lasting=DAY)
    assert {block.mirror for block in kept.values()} == {f"{name}{number}" for name in "ab" for number in range(20)}
    assert {path.name for path in tmp_path.iterdir()} == {"blocks.json", "blocks.lock"}


# --- captive portals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [LOGIN_PAGE, Page(511)], ids=["200", "511"])
def test_a_captive_portal_is_named(user, server, page):
    """When everybody answers with web pages, the index's error says login page and browser; exit 1, nothing written."""
    server.always(None, page)
    done = user.fetch(WANTED, "--json")
    assert done.code == 1, done.err
    error = done.report["error"]
    assert error["type"] == "CaptivePortalError"
    assert error["retryable"] is True
    assert "login page" in error["message"]
    assert "browser" in error["hint"]
    assert user.archives() == set()
    assert remembered(user) == set()


def test_a_login_page_keeps_bytes_on_disk(tmp_path, fault_server):
    """Bytes of an earlier run stay behind a portal, and go on once the user has signed in."""
    big = build_large_offer(tmp_path / "big", large=12 << 20)
    package = big.package("pytorch")
    server = fault_server(ports=1)
    server.mount(big.root)
    user = User(tmp_path / "user")
    url = f"{server.base(0)}/pytorch/{package.url_path}"
    wanted = ("get", url, "--sha256", package.sha256, "--json", "--give-up-after", "1s")
    from faults.behaviours import Drop

    server.script(0, [Drop(after=4 << 20), Page(200)])
    done = user.run(*wanted)
    assert done.code == 1, done.err
    error = done.artifact(package.filename)["error"]
    assert error["type"] in {"CaptivePortalError", "SourcesExhaustedError"}
    assert error["resumable_bytes"] >= 3 << 20
    server.always(0, Page(200))
    behind = user.run(*wanted)
    assert behind.code == 1
    error = behind.artifact(package.filename)["error"]
    assert error["type"] == "CaptivePortalError"
    assert error["resumable_bytes"] >= 3 << 20
    assert not (user.folder / package.filename).exists()
    server.always(0, Ok())
    before = server.body_bytes()
    well = user.run(*wanted)
    assert well.code == 0, well.err
    assert well.artifact(package.filename)["status"] == "resumed"
    assert server.body_bytes() - before <= package.size - (3 << 20)


def test_one_mirror_with_pages_is_not_the_network(user, server, offer):
    """One mirror that answers with web pages only is passed over; nobody speaks of a portal."""
    server.always(1, LOGIN_PAGE)
    done = user.fetch(WANTED)
    assert done.code == 0, done.err
    assert "captive" not in done.err
    user.assert_complete(offer.wanted)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX alone has pipes by name")
def test_a_pipe_in_the_place_of_the_file_is_an_empty_list(tmp_path):
    """It is not waited for: there would be no end of it."""
    os.mkfifo(tmp_path / "blocks.json")
    assert read_blocks(tmp_path / "blocks.json", now=time.time(), lasting=DAY) == {}

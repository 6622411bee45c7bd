"""``mirrors test`` against real servers that do everything wrong: a row each, in bounded time."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from html.parser import HTMLParser

import pytest

from faults.behaviours import Drop, Headers, IgnoreRange, NeverAnswer, Page, Rate, Redirect, Stall, Status
from resume_dl.cli.main import main
from resume_dl.diagnosis.mirror_row import MirrorReport, MirrorRow, Place
from resume_dl.diagnosis.mirror_screen import lines_of
from resume_dl.model.artifact import Source
from resume_dl.model.url import RedactedUrl
from resume_dl.progress.text_width import width

NEWEST = 1_700_000_000
DAY = 86400
FILE = "/linux-64/repodata.json"


def repodata(newest, packages=1500):
    """An index whose newest package is from ``newest`` (seconds since 1970), about 150 kB."""
    records = {
        f"p{number}-1-0.conda": {"name": f"p{number}", "timestamp": (newest - number) * 1000, "md5": "0" * 32}
        for number in range(packages)
    }
    return json.dumps({"info": {}, "packages": {}, "packages.conda": records}).encode()


@pytest.fixture(autouse=True)
def own_machine(tmp_path, monkeypatch):
    """A machine of the test's own folders only, without proxies."""
    for name, value in {
        "HOME": tmp_path,
        "USERPROFILE": tmp_path,
        "CONDARC": tmp_path / "condarc",
        "RESUME_DL_CONDA": "none",
        "RESUME_DL_CONFIG_DIR": tmp_path / "config",
        "RESUME_DL_CACHE_DIR": tmp_path / "cache",
        "RESUME_DL_STATE_DIR": tmp_path / "state",
    }.items():
        monkeypatch.setenv(name, str(value))
    for name in ("http_proxy", "https_proxy", "all_proxy", "CONDA_PREFIX", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def table(tmp_path):
    """Write a mirrors.toml of these mirrors, each with its base for conda:lab; ``upstream`` is the origin's own."""

    def write(upstream=None, status=None, **mirrors):
        lines = ["schema = 1", "[origins]"]
        lines += [f'"conda:lab" = "{upstream}"'] if upstream else []
        for name, base in mirrors.items():
            lines += ["[[mirror]]", f'name = "{name}"']
            lines += [f'sync_status = "{status[name]}"'] if name in (status or {}) else []
            lines += ["[mirror.carries]", f'"conda:lab" = "{base}"']
        path = tmp_path / "mirrors.toml"
        path.write_text("\n".join(lines))
        return path

    return write


def run(table, capsys, *more):
    """Exit code, the object, and the rows by mirror."""
    code = main(
        ["mirrors", "test", "--mirrors", str(table), "--origin", "lab", "--platform", "linux-64", "--json", *more]
    )
    said = json.loads(capsys.readouterr().out)
    assert said["exit_code"] == code
    return code, said, {row["mirror"]: row for row in said.get("rows", ())}


@pytest.fixture
def odd_mirrors(fault_server, table):
    """Mirrors of every kind: name -> row expected is in the test below."""
    server = fault_server(10)
    server.put(f"/new{FILE}", repodata(NEWEST))
    server.put(f"/old{FILE}", repodata(NEWEST - 3 * DAY))
    server.put("/tunasync.json", json.dumps([{"name": "anaconda", "last_update_ts": int(time.time()) - 7200}]).encode())
    server.put("/huge.json", b"[" * 3_000_000)
    server.always(2, IgnoreRange())
    server.always(3, Redirect(f"{server.base(0)}/new{FILE}"))
    server.close_port(5)
    server.always(6, Status(404))
    server.always(7, Page(403, "<html>\x1b]0;owned\x07blocked"))
    server.always(8, Page(200, "<html>please \x1b[2J log in</html>"))
    server.always(9, Drop(after=20_000, how="rst"))
    names = ["origin", "good", "rangeless", "redirecting", "stale", "dead", "lacking", "blocking", "portal", "dropping"]
    bases = {name: f"{server.base(number)}/{'old' if name == 'stale' else 'new'}" for number, name in enumerate(names)}
    origin = bases.pop("origin")
    status = {"good": f"{server.base(1)}/tunasync.json", "stale": f"{server.base(4)}/huge.json"}
    return server, table(origin, status, **bases)


def test_each_mirror_is_a_row_with_what_it_does(odd_mirrors, capsys):
    server, path = odd_mirrors
    code, said, rows = run(path, capsys)
    assert (code, said["schema"], said["command"], said["ok"]) == (0, 1, "mirrors test", True)
    good = rows["good"]
    assert (good["ok"], good["status"], good["ranges"], good["failure"]) == (True, 206, True, None)
    assert (good["behind_seconds"], good["behind_by"], good["redirect_host"]) == (0, "timestamps", None)
    assert 7200 <= good["synced_seconds_ago"] < 7200 + DAY
    assert good["speed"] > 0
    assert good["first_byte"] >= 0
    assert (rows["rangeless"]["ok"], rows["rangeless"]["ranges"]) == (True, False)
    assert rows["redirecting"]["redirect_host"] == server.base(0).removeprefix("http://")
    assert (rows["stale"]["behind_seconds"], rows["stale"]["synced_seconds_ago"]) == (3 * DAY, None)
    failures = {name: row["failure"] for name, row in rows.items() if not row["ok"]}
    assert failures == {
        "dead": "unreachable",
        "lacking": "lacks the file",
        "blocking": "blocked",
        "portal": "login page",
        "dropping": "broken",
    }
    assert all(row["text"] for row in rows.values() if not row["ok"])
    assert "\x1b" not in json.dumps(said, ensure_ascii=False)
    assert server.body_bytes(path="/huge.json") < 2_000_000


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_the_screen_fits(odd_mirrors, capsys, monkeypatch, columns):
    _, path = odd_mirrors
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["mirrors", "test", "--mirrors", str(path), "--origin", "lab", "--platform", "linux-64"]) == 0
    page = capsys.readouterr().out
    assert all(len(line) < columns for line in page.splitlines())
    assert page.isascii()
    assert "\x1b" not in page
    for text in ("lab, linux-64", "good", "up to date", "3 days behind", "status 404", "redirects to"):
        assert text in " ".join(page.split())


def test_a_sample_is_bounded(fault_server, table, capsys):
    server = fault_server(2)
    server.put(FILE, b"{" + b" " * 8_000_000 + b"}")
    server.always(1, IgnoreRange())
    _, _, rows = run(
        table(ranged=server.base(0), rangeless=server.base(1)), capsys, "--sample", "200kB", "--no-upstream"
    )
    assert rows["ranged"]["bytes"] == 200_000
    assert server.body_bytes(0) <= 200_001
    assert server.body_bytes(1) < 4_000_000
    assert rows["rangeless"]["ok"]


def test_slow_and_silent_mirrors_end_with_the_time_given(fault_server, table, capsys):
    server = fault_server(3)
    server.put(FILE, repodata(NEWEST))
    server.always(1, NeverAnswer())
    server.always(2, Rate(2000))
    started = time.monotonic()
    path = table(good=server.base(0), silent=server.base(1), slow=server.base(2))
    _, _, rows = run(path, capsys, "--within", "3s", "--no-upstream")
    assert time.monotonic() - started < 60
    assert rows["good"]["ok"]
    assert not rows["silent"]["ok"]
    assert rows["slow"]["speed"] is None or rows["slow"]["speed"] < rows["good"]["speed"]


def test_if_nothing_answers_the_exit_code_is_1(fault_server, table, capsys, tmp_path):
    server = fault_server(1)
    base = server.base(0)
    server.close_port(0)
    code, said, rows = run(table(base, dead=base), capsys)
    assert (code, said["ok"], rows["dead"]["ok"]) == (1, False, False)
    assert not (tmp_path / "state" / "mirror-speeds.json").exists()


def test_an_unknown_origin_is_refused(table, capsys):
    code = main(["mirrors", "test", "--mirrors", str(table(a="http://127.0.0.1:9/x")), "--origin", "nowhere"])
    assert code == 2
    assert "nowhere" in capsys.readouterr().err


def test_ctrl_c_ends_it_while_servers_are_silent(fault_server, table, capsys):
    """The test would last ten minutes otherwise."""
    server = fault_server(1)
    server.put(FILE, repodata(NEWEST))
    server.always(0, Stall(after=100))
    path = table(lab=server.base())
    ended = threading.Event()

    def press():
        while not server.requests() and not ended.wait(0.05):
            pass
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    started = time.monotonic()
    try:
        code, said, _ = run(path, capsys, "--within", "600s", "--no-upstream")
    finally:
        ended.set()
        thread.join()
    assert (code, said["error"]["type"]) == (130, "Interrupted")
    assert time.monotonic() - started < 300


LONG = "实验室的镜像-" * 30


@pytest.mark.parametrize("columns", [39, 79, 199])
def test_long_and_wide_words_do_not_break_the_screen(columns):
    place = Place("conda:" + LONG, "linux-64", Source(LONG, RedactedUrl("https://m.example/x")))
    fast = MirrorRow(place, 206, ranges=True, speed=1e6, first_byte=0.1, host="a" * 300, synced=NEWEST)
    failed = MirrorRow(place, failure="broken", text="\x1b[2J" + "b" * 300)
    lines = [*lines_of(MirrorReport((fast, failed), NEWEST), columns)]
    assert max(map(width, lines)) <= columns
    assert "\x1b" not in "".join(lines)


def test_last_modified_tells_the_age_of_a_large_index(fault_server, table, capsys):
    server = fault_server(2)
    server.put(FILE, b"{" + b" " * 300_000 + b"}")
    server.always(0, Headers({"Last-Modified": "Wed, 04 Jan 2023 00:00:00 GMT"}))
    server.always(1, Headers({"Last-Modified": "Tue, 03 Jan 2023 00:00:00 GMT"}))
    _, _, rows = run(table(server.base(0), behind=server.base(1)), capsys, "--sample", "100kB")
    assert (rows["behind"]["behind_seconds"], rows["behind"]["behind_by"]) == (DAY, "last-modified")


def test_downloads_ask_the_fastest_mirror_first(fault_server, tmp_path, capsys):
    """The table has the slow mirror first; after the test the other one is asked, and it alone."""
    server = fault_server(3)
    server.put(FILE, repodata(NEWEST))
    server.put("/linux-64/small-1-0.conda", b"PK\x03\x04" + b"x" * 1000)
    server.always(0, Rate(60_000), path=FILE)
    config = tmp_path / "config"
    config.mkdir()
    (config / "mirrors.toml").write_text(
        f'schema = 1\n[origins]\n"conda:lab" = "{server.base(2)}"\n'
        + "".join(
            f'[[mirror]]\nname = "{name}"\n[mirror.carries]\n"conda:lab" = "{server.base(number)}"\n'
            for number, name in enumerate(("first", "second"))
        )
    )
    digest = hashlib.sha256(b"PK\x03\x04" + b"x" * 1000).hexdigest()

    def ports_asked(name):
        """The ports that one download of a small file asks."""
        before = len(server.requests(path="*.conda"))
        url = f"{server.base(2)}/linux-64/small-1-0.conda"
        assert main(["get", url, "-o", str(tmp_path / name), "--sha256", digest, "--quiet"]) == 0
        return [request.port for request in server.requests(path="*.conda")[before:]]

    assert ports_asked("before")[0] == 0
    assert main(["mirrors", "test", "--origin", "lab", "--platform", "linux-64", "--no-upstream"]) == 0
    assert "fastest: second" in capsys.readouterr().out
    assert ports_asked("after")[0] == 1


def test_a_mirror_that_blocks_us_is_left_alone(odd_mirrors, tmp_path, capsys):
    server, path = odd_mirrors
    run(path, capsys)
    asked = len(server.requests(7))
    assert asked
    _, _, rows = run(path, capsys)
    assert len(server.requests(7)) == asked
    assert "--mirror blocking" in rows["blocking"]["text"]
    run(path, capsys, "--mirror", "blocking")
    assert len(server.requests(7)) > asked


def test_the_page_is_whole_in_itself_and_escapes_every_name(odd_mirrors, tmp_path, capsys):
    _, path = odd_mirrors
    hostile = "<img/src=x&onerror='\\\"u202E"
    path.write_text(path.read_text().replace('"stale"', json.dumps(hostile)))
    target = tmp_path / "new" / "mirrors.html"
    code, _, _ = run(path, capsys, "--html", str(target))
    assert code == 0
    page = Markup()
    page.feed(target.read_text(encoding="utf-8"))
    assert {"script", "img", "link", "iframe", "object"} & page.tags == set()
    assert {"src", "href", "srcset", "onerror"} & page.attributes == set()
    assert hostile in page.text
    assert "url(" not in target.read_text()
    assert "default-src 'none'" in target.read_text()
    assert "\x1b" not in target.read_text()
    for words in ("good", "3 days behind", "status 404", "Fastest:"):
        assert words in page.text


class Markup(HTMLParser):
    """The texts, tags and attributes of a page."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), ""

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.text += data


@pytest.mark.skipif(os.name == "nt", reason="links and devices of POSIX")
def test_a_page_is_written_over_no_link_and_no_device(odd_mirrors, tmp_path, capsys):
    server, path = odd_mirrors
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    code, said, _ = run(path, capsys, "--html", str(link))
    assert (code, said["error"]["type"]) == (5, "NotWritableError")
    assert not (tmp_path / "elsewhere").exists()
    assert server.requests() == []


def test_real_servers_one_slow_one_without_ranges(nginx_mirrors, table, tmp_path, capsys):
    root = tmp_path / "root"
    (root / "linux-64").mkdir(parents=True)
    (root / "linux-64" / "repodata.json").write_bytes(repodata(NEWEST))
    mirrors = nginx_mirrors([root, root, root], send_buffer=None)
    mirrors.change(0, rate=20_000)
    mirrors.change(1, max_ranges=0)
    path = table(mirrors.base(2), slow=mirrors.base(0), rangeless=mirrors.base(1))
    code, said, rows = run(path, capsys)
    assert (code, said["rows"][-1]["mirror"]) == (0, "slow")
    assert {name: row["ranges"] for name, row in rows.items()} == {"slow": True, "rangeless": False, "upstream": True}
    assert all(row["ok"] and row["status"] in {200, 206} for row in rows.values())

"""Traces of real runs: their numbers, and the picture that is drawn of them."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from faults.behaviours import Drop, Flip, Ok, Rate, Status
from resume_dl.trace.__main__ import main
from resume_dl.trace.lanes import assign
from resume_dl.trace.trace_file import read_trace
from support.fetching import User

MIB = 1 << 20
DATA = random.Random(11).randbytes(12 * MIB)
SHA256 = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def user(tmp_path):
    return User(tmp_path / "user")


@pytest.fixture
def trace(tmp_path):
    return tmp_path / "run.jsonl"


@pytest.fixture
def server(fault_server):
    server = fault_server(ports=3)
    server.put("/data.bin", DATA)
    return server


def get(user, server, trace, *more):
    """One file from three sources."""
    others = [word for port in (1, 2) for word in ("--mirror-url", f"{server.base(port)}/data.bin")]
    url = f"{server.base(0)}/data.bin"
    return user.run("get", url, *others, "--sha256", SHA256, "--json", "--debug-trace", trace, *more)


def lines(trace: Path) -> list[dict]:
    return [json.loads(line) for line in trace.read_text().splitlines()]


def drawn(trace: Path) -> ET.Element:
    """The picture that the command makes."""
    picture = trace.with_suffix(".svg")
    assert main([str(trace), "-o", str(picture)]) == 0
    root = ET.fromstring(picture.read_bytes())
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return root


def shapes(picture: ET.Element) -> Counter[str]:
    """How many of each class there are, by the first word of it."""
    return Counter(element.get("class", "").split(" ")[0] for element in picture.iter())


def texts(picture: ET.Element) -> str:
    return "\n".join(element.text or "" for element in picture.iter())


def assert_agrees(done, trace):
    """Kept bytes, failures and waste are what --json says; every connection is a bar and every failure a mark."""
    artifact, totals = done.artifact("data.bin"), done.report["totals"]
    (file,) = read_trace(trace).files
    told = Counter()
    for each in artifact["sources"]:
        told[each["mirror"]] += each["bytes"]
    kept = Counter()
    for index, count in file.kept.items():
        kept[file.sources[index]] += count
    assert +kept == +told
    assert sum(kept.values()) == totals["downloaded"]
    assert sum(file.received.values()) == totals["downloaded"] + totals["wasted"]
    assert file.holdings.resumed == totals["resumed"]
    opened = sum(line.get("kind") == "open_range" for line in lines(trace))
    failed = sum(line.get("kind") == "note_failure" for line in lines(trace))
    found = shapes(drawn(trace))
    assert found["bar"] == opened > 0
    assert found["failure"] == failed
    return artifact, found, file


def test_a_run_with_failures_agrees_with_its_json(user, server, trace):
    """One source drops connections, one answers 503 and 404: bytes and failures of each are those of --json."""
    server.always(0, Rate(4_000_000))
    server.script(1, [Drop(after=700_000, how="rst"), Drop(after=300_000), Ok()])
    server.script(2, [Status(503, retry_after=0), Status(404)])
    done = get(user, server, trace)
    assert done.code == 0, done.err
    artifact, found, file = assert_agrees(done, trace)
    assert found["failure"] == sum(len(each["failures"]) for each in artifact["sources"]) >= 1
    assert {mark.kind for mark in file.marks} == {kind for each in artifact["sources"] for kind in each["failures"]}
    assert file.digest[-1][1] == file.frontier[-1][1] == len(DATA)
    assert found["digest"] == found["frontier"] == 1
    assert found["path"] == found["bar"]


def test_a_repair_agrees_with_its_json(user, server, trace):
    """What a liar brought counts as received and not as kept, once the core has forgotten it."""
    for port in range(3):
        server.always(port, Rate(8_000_000))
    server.script(1, [(Rate(8_000_000), Flip(*range(1000, len(DATA), MIB)))])
    done = get(user, server, trace)
    assert done.code == 0, done.err
    _, found, file = assert_agrees(done, trace)
    assert found["forgotten"] > 0
    assert file.kept[1] < file.received[1]
    assert file.kept[1] < sum(count for _, _, source, count in file.gained if source == 1)


def test_a_killed_run_and_the_one_after_it(user, server, trace):
    """A trace that ends in the middle of a line is drawn as far as it goes; the next run's shows what was there."""
    server.always(0, Rate(2_000_000))
    for port in (1, 2):
        server.always(port, Rate(1_000_000))
    words = ["get", f"{server.base(0)}/data.bin", "--sha256", SHA256, "--debug-trace", trace]
    with user.start(*words) as process:
        while not trace.exists() or trace.read_text().count("bytes_written") < 20:
            assert process.poll() is None
        process.kill()
    with trace.open("a") as file:
        file.write('{"t":1.5,"file":"sha')
    assert "abruptly" in texts(drawn(trace))
    story = read_trace(trace)
    assert (story.whole, story.unread) == (False, 1)
    assert sum(story.files[0].kept.values()) > 0
    server.always(0, Ok())
    done = get(user, server, trace)
    assert done.code == 0, done.err
    _, found, file = assert_agrees(done, trace)
    assert file.holdings.resumed > 0
    assert found["resumed"] > 0


def test_any_cut_of_a_trace_is_drawn(user, server, trace, tmp_path):
    """Wherever a trace ends behind its first line, there is a picture of what it holds."""
    server.script(1, [Drop(after=100_000)])
    assert get(user, server, trace).code == 0
    (file,) = read_trace(trace).files
    assert file.marks
    assert {(mark.source, file.connections[mark.connection].source) for mark in file.marks} == {(1, 1)}
    whole = trace.read_bytes()
    assert whole.endswith(b'"kind":"end"}\n')
    first = whole.index(b"\n")
    cut = tmp_path / "cut.jsonl"
    for end in sorted(random.Random(3).sample(range(first, len(whole)), 25)):
        cut.write_bytes(whole[:end])
        assert shapes(drawn(cut))["title"] == 1


def test_many_files_share_their_lanes(user, fault_server, trace):
    """Beyond a dozen files there is one group of lanes, and no plot of offsets for small ones."""
    server = fault_server(ports=1)
    names = [f"{number}.bin" for number in range(30)]
    for name in names:
        server.put(f"/{name}", DATA[:30_000])
    done = user.run("get", *[f"{server.base(0)}/{name}" for name in names], "--json", "--debug-trace", trace)
    assert done.code == 0, done.err
    picture = drawn(trace)
    found = shapes(picture)
    assert found["bar"] == 30
    assert found["path"] == 0
    assert "30 files" in texts(picture)
    assert float(picture.get("height")) < 700


def test_no_secret_reaches_trace_or_picture(user, fault_server, trace):
    """Neither a login nor a token of an address is written, where it works and where it fails."""
    server = fault_server(ports=2)
    server.put("/t/tk-secret/data.bin", DATA[: 2 * MIB])
    server.script(1, [Status(403)])
    bases = [server.base(port).replace("http://", "http://anna:hunter2@") for port in (0, 1)]
    urls = [f"{base}/t/tk-secret/data.bin?token=s3cr3t" for base in bases]
    done = user.run("get", urls[0], "--mirror-url", urls[1], "--json", "--debug-trace", trace)
    assert done.code == 0, done.err
    drawn(trace)
    for path in (trace, trace.with_suffix(".svg")):
        text = path.read_text()
        assert not any(secret in text for secret in ("hunter2", "anna", "tk-secret", "s3cr3t"))


def test_a_trace_that_cannot_be_written_ends_the_run_before_it_begins(user, server, tmp_path):
    """Exit 5, and no server was asked for anything."""
    done = get(user, server, tmp_path / "nowhere" / "run.jsonl")
    assert done.code == 5
    assert "--debug-trace" in done.err
    assert server.requests() == []


@pytest.mark.parametrize(
    "content",
    [b"", b"PK\x03\x04\x00\xff", b"[1, 2]\n", b'{"event": "plan"}\n', b'{"trace": 99}\n', b"[" * 100_000],
    ids=["empty", "binary", "list", "progress", "newer", "deep"],
)
def test_what_is_no_trace_is_refused(tmp_path, capsys, content):
    """Exit 2 with a sentence, and no picture."""
    path = tmp_path / "other"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    assert "trace" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [path]


def test_no_file_and_no_place_for_the_picture(tmp_path, capsys):
    """A trace that is not there is 2, a picture that cannot be written is 5."""
    path = tmp_path / "run.jsonl"
    assert main([str(path)]) == 2
    path.write_text('{"trace": 1, "version": "1", "started": ""}\n')
    assert main([str(path), "-o", str(tmp_path / "nowhere" / "a.svg")]) == 5
    assert "Traceback" not in capsys.readouterr().err


def test_lines_without_sense_are_passed_over(tmp_path):
    """Wrong types and unknown kinds cost their own lines; characters that XML has not are replaced."""
    path = tmp_path / "run.jsonl"
    rows = [
        {"trace": 1, "version": "1", "started": ""},
        {"t": 0, "file": "k", "kind": "begin", "filename": "a\x07<b>", "size": 9, "sources": ["x"]},
        {"t": 1, "file": "k", "kind": "bytes_written", "connection": 7, "position": 3, "received": 3},
        {"t": "soon", "file": "k", "kind": "finish"},
        {"t": 2, "file": "k", "kind": "not_known_yet", "more": 1},
        {"t": 3, "file": "k", "kind": "open_range"},
        5,
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    picture = drawn(path)
    assert "a\ufffd<b>" in texts(picture)
    assert "4 unreadable lines" in texts(picture)


def test_each_stroke_is_drawn(tmp_path):
    """A cut lease, a silence, a duplicate that wins and one that loses, a comparison: each in its own way."""
    path = tmp_path / "run.jsonl"
    opening = {"kind": "open_range", "source": 0, "mode": "write", "whole": False, "size": 100, "if_range": None}
    rows = [
        {"trace": 1, "version": "1", "started": ""},
        {"t": 0, "kind": "begin", "filename": "a", "size": 100, "sources": ["x", "y"]},
        {"t": 0, **opening, "connection": 1, "start": 0, "end": 80, "gaps": [[0, 80]]},
        {"t": 0.1, "kind": "response_started", "connection": 1, "size": 100, "validator": None, "final_host": "h"},
        {"t": 0.2, "kind": "bytes_written", "connection": 1, "position": 10, "received": 10},
        {"t": 3.0, "kind": "lease_shortened", "connection": 1, "end": 40},
        {"t": 3.1, **opening, "connection": 2, "source": 1, "start": 40, "end": 60, "gaps": [[40, 60]], "mode": "hold"},
        {"t": 3.1, **opening, "connection": 3, "source": 1, "start": 60, "end": 80, "gaps": [[60, 80]], "mode": "hold"},
        {"t": 3.2, "kind": "bytes_written", "connection": 1, "position": 45, "received": 45},
        {"t": 3.2, "kind": "connection_closed", "connection": 1, "position": 45, "received": 45, "failure": None,
         "size": None},
        {"t": 3.3, "kind": "range_held", "connection": 2, "received": 20},
        {"t": 3.3, "kind": "write_held", "connection": 2, "gaps": [[40, 60]]},
        {"t": 3.4, "kind": "connection_closed", "connection": 2, "position": 60, "received": 20, "failure": None,
         "size": None},
        {"t": 3.4, "kind": "close_connection", "connection": 3},
        {"t": 3.4, "kind": "bytes_received", "connection": 3, "received": 5},
        {"t": 3.5, "kind": "connection_closed", "connection": 3, "position": 60, "received": 7, "failure": None,
         "size": None},
        {"t": 3.6, **opening, "connection": 4, "source": 1, "start": 0, "end": 10, "gaps": [[0, 10]],
         "mode": "compare"},
        {"t": 3.7, "kind": "record_progress", "mark": 1},
        {"t": 3.8, "kind": "end"},
    ]  # fmt: skip
    path.write_text("".join(json.dumps({"file": "k", **row}) + "\n" for row in rows))
    picture = drawn(path)
    found = shapes(picture)
    assert "unreadable" not in texts(picture)
    modes = Counter(e.get("class") for e in picture.iter() if (e.get("class") or "").startswith("bar "))
    assert modes == {"bar write": 1, "bar hold": 2, "bar compare": 1}
    strokes = {name: found[name] for name in ("shortened", "stall", "won", "durable", "failure")}
    assert strokes == {"shortened": 1, "stall": 1, "won": 1, "durable": 1, "failure": 0}
    (file,) = read_trace(path).files
    assert file.kept == {0: 40, 1: 20}
    assert file.received == {0: 45, 1: 27}
    lanes = assign([(file, number, one) for number, one in file.connections.items()])
    assert [[number for _, number, _ in lane] for lane in lanes] == [[1, 4], [2], [3]]


def test_it_is_a_program(tmp_path):
    """`python -m resume_dl.trace` writes beside the trace and says where."""
    path = tmp_path / "run.jsonl"
    path.write_text('{"trace": 1, "version": "1", "started": ""}\n')
    words = [sys.executable, "-m", "resume_dl.trace", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == f"{path}.svg"
    ET.parse(f"{path}.svg")

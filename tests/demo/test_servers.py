"""The demo's three mirrors are bad in the way that they say, and count it."""

from __future__ import annotations

import http.client
import time
from urllib.parse import urlsplit

import pytest

from resume_dl.demo.servers import FlakyMirror, Flaws

DATA = bytes(range(256)) * 2000


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "a.conda").write_bytes(DATA)
    (tmp_path / "repodata.json").write_text("{}")
    running = []

    def start(**flaws):
        running.append(FlakyMirror("m", tmp_path, Flaws(**flaws)))
        running[-1].start()
        return running[-1]

    yield start
    for one in running:
        one.stop()


def connect(mirror):
    return http.client.HTTPConnection(urlsplit(mirror.base).netloc, timeout=60)


def ask(connection, path="/a.conda", start=0, end=None, method="GET"):
    headers = {} if end is None else {"Range": f"bytes={start}-{end - 1}"}
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def test_without_flaws_it_serves_ranges_on_one_connection(mirror):
    """Whole files, ranges, HEAD, 404 and 416 as they should be; only archives are counted."""
    mirror = mirror()
    connection = connect(mirror)
    assert ask(connection)[2] == DATA
    status, headers, body = ask(connection, start=5, end=9)
    assert (status, headers["Content-Range"], body) == (206, f"bytes 5-8/{len(DATA)}", DATA[5:9])
    assert ask(connection, method="HEAD")[1]["Content-Length"] == str(len(DATA))
    assert ask(connection, start=len(DATA), end=len(DATA) + 1)[0] == 416
    assert ask(connection, "/repodata.json")[2] == b"{}"
    assert ask(connection, "/../secret")[0] == 404
    connection.close()
    assert (mirror.counts.requests, mirror.counts.body_bytes) == (2, len(DATA) + 4)


def test_a_server_that_drops_connections(mirror):
    """A connection ends after its allowance, in the middle of a body; the next one goes on from there."""
    mirror = mirror(drop_after=200_000)
    connection = connect(mirror)
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(connection)
    got = caught.value.partial
    connection.close()
    assert got == DATA[: len(got)]
    assert 200_000 <= len(got) < 200_000 + 16_384
    assert (mirror.counts.dropped, mirror.counts.dropped_bytes) == (1, len(got))
    connection = connect(mirror)
    assert ask(connection, start=len(got), end=len(got) + 1000)[2] == DATA[len(got) : len(got) + 1000]
    connection.close()


def until(is_so):
    ends = time.monotonic() + 60.0
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.005)


def test_it_damages_one_byte_in_an_interval(mirror):
    """These bytes are wrong each time, all others right; what comes beside them counts as damaged, and no more."""
    mirror = mirror(damage={"a.conda": 100_000})
    connection = connect(mirror)
    whole = ask(connection)[2]
    assert [i for i, byte in enumerate(whole) if byte != DATA[i]] == list(range(99_999, len(DATA), 100_000))
    until(lambda: mirror.counts.damaged == {"a.conda": len(DATA)})  # counted once the answer is sent
    assert ask(connection, start=99_999, end=100_001)[2] == bytes([DATA[99_999] ^ 0xFF, DATA[100_000]])
    until(lambda: mirror.counts.damaged == {"a.conda": len(DATA) + 2})
    assert ask(connection, start=100_000, end=199_999)[2] == DATA[100_000:199_999]
    connection.close()
    assert mirror.counts.damaged == {"a.conda": len(DATA) + 2}


def test_a_server_with_a_limited_rate(mirror):
    """The rate holds for the connection."""
    mirror = mirror(rate=500_000)
    connection = connect(mirror)
    started = time.monotonic()
    ask(connection, start=0, end=100_000)
    connection.close()
    assert time.monotonic() - started >= 0.19

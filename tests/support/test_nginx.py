"""The nginx mirrors count what they send."""

from __future__ import annotations

import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import pytest


def get(url: str, **headers: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.fixture
def served(tmp_path, nginx_mirrors):
    root = tmp_path / "root" / "linux-64"
    root.mkdir(parents=True)
    (root / "a-1-0.conda").write_bytes(bytes(range(256)) * 4096)
    (root / "repodata.json").write_text("{}")
    return nginx_mirrors([tmp_path / "root"] * 3)


def test_counts_requests_a_mirror_and_resets(served):
    """Each mirror's requests are listed with status, body bytes and range, until the log is reset."""
    assert get(served.base(0) + "/linux-64/a-1-0.conda", Range="bytes=0-9") == (206, bytes(range(10)))
    assert get(served.base(2) + "/linux-64/repodata.json")[0] == 200
    assert get(served.base(1) + "/linux-64/none.conda")[0] == 404
    rows = {row.mirror: row for row in served.requests()}
    assert (rows[0].status, rows[0].bytes, rows[0].range, rows[0].is_archive) == (206, 10, "bytes=0-9", True)
    assert [row.status for row in served.archive_requests(1)] == [404]
    assert not rows[2].is_archive
    assert served.body_bytes(0) == 10
    assert served.body_bytes(2) == 0
    assert served.body_bytes(2, archives=False) == 2
    served.reset_log()
    assert served.requests() == []


def test_bytes_sent_to_a_client_that_goes_away_are_close_to_what_it_read(served):
    """With a rate limit nothing large waits in socket buffers when a client is gone."""
    served.set_rate(0, 300_000)
    with socket.create_connection(("127.0.0.1", served.port(0))) as client:
        client.sendall(b"GET /linux-64/a-1-0.conda HTTP/1.1\r\nHost: x\r\n\r\n")
        received = 0
        while received < 320_000:
            received += len(client.recv(65536))
    (row,) = served.requests()
    assert not row.complete
    assert received <= row.sent <= received + 128 * 1024


def test_changes_hold_for_one_mirror(served):
    """A mirror can be made to fail, or to ignore ranges, while the others go on."""
    served.change(1, status=503)
    served.change(2, max_ranges=0)
    url = "/linux-64/a-1-0.conda"
    assert [get(served.base(i) + url, Range="bytes=0-0")[0] for i in range(3)] == [206, 503, 200]
    served.change(1, status=None)
    assert get(served.base(1) + url, Range="bytes=0-0")[0] == 206


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have only 127.0.0.1 unless told")
def test_mirrors_at_addresses_of_their_own(tmp_path, nginx_mirrors):
    """Each mirror answers at its own address, and says when an answer ended."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a.conda").write_bytes(b"x" * 1000)
    before = time.time()
    mirrors = nginx_mirrors([tmp_path / "root"] * 2, addresses=["127.0.0.2", "127.0.0.3"])
    for index, address in enumerate(("127.0.0.2", "127.0.0.3")):
        assert urlsplit(mirrors.base(index)).hostname == address
        assert get(mirrors.base(index) + "/a.conda") == (200, b"x" * 1000)
    assert [row.mirror for row in mirrors.requests()] == [0, 1]
    assert all(before - 1 < row.ended < time.time() + 1 for row in mirrors.requests())


def test_while_paused_nothing_is_sent_and_all_of_it_was_read(tmp_path, nginx_mirrors):
    """A client that reads slowly: the pause begins once it has read what the kernel held, and ends with the rest."""
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "f").write_bytes(bytes(4 << 20))
    nginx = nginx_mirrors([tmp_path / "www"])
    read = [0]

    def slowly(answer):
        while data := answer.read(4096):
            read[0] += len(data)

    with urllib.request.urlopen(f"{nginx.base()}/f", timeout=60) as answer:
        reader = threading.Thread(target=slowly, args=(answer,))
        reader.start()
        with nginx.paused():
            assert nginx._in_the_kernel() == 0
        reader.join(timeout=60)
    assert read == [4 << 20]

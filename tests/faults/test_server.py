"""The fault server does what it is told: otherwise the tests that trust it would prove nothing."""

from __future__ import annotations

import gc
import gzip
import http.client
import random
import socket
import threading
import time
from email.utils import parsedate_to_datetime

import pytest

from faults.behaviours import (
    ChangingETag,
    Drop,
    Flip,
    Gzip,
    Headers,
    IgnoreRange,
    Latency,
    Multipart,
    NeverAnswer,
    Ok,
    Page,
    Quota,
    RangeNotSatisfiable,
    Rate,
    Redirect,
    RefuseRange,
    Stall,
    Status,
    Truncate,
    WrongContentLength,
    WrongContentRange,
    times,
)

DATA = random.Random(1).randbytes(300_000)


@pytest.fixture
def server(fault_server):
    server = fault_server(ports=2)
    server.put("/a.conda", DATA)
    return server


def ask(server, *, port=0, path="/a.conda", start=None, end=None, timeout=60.0, method="GET", **headers):
    """Status, headers and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port(port), timeout=timeout)
    if start is not None:
        headers["Range"] = f"bytes={start}-{'' if end is None else end - 1}"
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def read_until_error(server, **headers):
    """All body bytes that came before the connection's end, and how it ended."""
    ends, before = time.monotonic() + 60, len(server.requests())
    with socket.create_connection(("127.0.0.1", server.port(0)), timeout=0.3) as sock:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        sock.sendall(f"GET /a.conda HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        data, how = b"", "fin"
        while how == "fin":
            said_its_last = any(one.ended in {"stall", "silent"} for one in server.requests()[before:])
            try:
                part = sock.recv(65536)
            except TimeoutError:  # of a busy machine, until the server has done what it was to do
                how = "stall" if said_its_last or time.monotonic() > ends else "fin"
                continue
            except ConnectionResetError:
                how = "rst"
                break
            data += part
            if not part:
                break
    return data.partition(b"\r\n\r\n")[2], how


def test_a_good_mirror(server):
    """Without a script: ranges, open ranges, If-Range, HEAD, 404, 416, and one connection for several requests."""
    assert ask(server)[2] == DATA
    status, headers, body = ask(server, start=10, end=20)
    assert (status, headers["Content-Range"], body) == (206, "bytes 10-19/300000", DATA[10:20])
    assert ask(server, start=299_990)[2] == DATA[-10:]
    assert ask(server, start=0, end=5, **{"If-Range": '"other"'})[0] == 200
    assert ask(server, start=0, end=5, **{"If-Range": headers["ETag"]})[0] == 206
    assert ask(server, method="HEAD")[2] == b""
    assert ask(server, path="/none")[0] == 404
    assert ask(server, start=300_000)[0] == 416
    connection = http.client.HTTPConnection("127.0.0.1", server.port(0))
    for _ in range(2):
        connection.request("GET", "/a.conda")
        assert connection.getresponse().read() == DATA
    connection.close()
    first, second = server.requests()[-2:]
    assert first.connection == second.connection
    assert (second.sent, second.status, second.ended) == (300_000, 200, "complete")


@pytest.mark.parametrize("how", ["fin", "rst"])
def test_the_connection_drops_after_an_exact_number_of_bytes(server, how):
    """Every byte before the drop arrives, none after it."""
    server.always(0, Drop(after=100_001, how=how))
    body, ended = read_until_error(server)
    assert (body, ended) == (DATA[:100_001], how)
    assert server.requests()[0].ended == how


def test_stalls_and_silence(server):
    """A stall leaves the connection open with nothing more; a silent server does not even answer."""
    server.script(0, [Stall(after=7), NeverAnswer()])
    assert read_until_error(server) == (DATA[:7], "stall")
    assert read_until_error(server) == (b"", "stall")
    assert [one.ended for one in server.requests()] == ["stall", "silent"]


def test_connections_drop_though_nobody_reads(fault_server):
    """What the kernel does not take is thrown away: a client that stopped reading holds nobody up."""
    server = fault_server(send_buffer=4096)
    server.put("/large", bytes(20_000_000))
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.port()))
        client.sendall(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(8) == b"HTTP/1.1"
        server.drop_connections()
        while client.recv(1 << 20):
            pass
    assert server.body_bytes(path="/large") < 20_000_000


def test_wrong_ranges(server):
    """200 for 206, shifted starts (header only, or bytes too), another total, 416 always, multipart."""
    steps = [
        IgnoreRange(),
        WrongContentRange(shift=5),
        WrongContentRange(shift=5, body=True),
        WrongContentRange(total=7),
        RangeNotSatisfiable(),
        Multipart(),
    ]
    server.script(0, steps)
    answers = [ask(server, start=10, end=20) for _ in steps]
    assert [(status, headers["Content-Range"]) for status, headers, _ in answers] == [
        (200, None),
        (206, "bytes 15-24/300000"),
        (206, "bytes 15-24/300000"),
        (206, "bytes 10-19/7"),
        (416, "bytes */300000"),
        (206, None),
    ]
    assert answers[0][2] == DATA
    assert [body for _, _, body in answers[1:4]] == [DATA[10:20], DATA[15:25], DATA[10:20]]
    assert DATA[10:20] in answers[5][2]


def test_ranges_refused_and_the_whole_given(server):
    """416 concerns ranges only; the whole file comes, and breaks where it is told to."""
    server.always(0, RefuseRange(), Drop(after=70))
    status, headers, _ = ask(server, start=10, end=20)
    assert (status, headers["Content-Range"]) == (416, "bytes */300000")
    assert read_until_error(server) == (DATA[:70], "fin")


def test_wrong_bodies(server):
    """Pages, encodings, flipped bytes, other lengths."""
    server.script(0, [Page(), Page(403), Gzip(), Flip(0, 15), WrongContentLength(-3), Truncate(12)])
    portal, block, packed, flipped, short, truncated = (ask(server, start=10, end=20) for _ in range(6))
    assert (portal[0], portal[1]["Content-Type"], portal[2][:9]) == (200, "text/html; charset=utf-8", b"<!DOCTYPE")
    assert block[0] == 403
    assert (packed[1]["Content-Encoding"], gzip.decompress(packed[2])) == ("gzip", DATA[10:20])
    assert [i for i in range(10) if flipped[2][i] != DATA[10 + i]] == [5]
    assert (short[1]["Content-Length"], short[2]) == ("7", DATA[10:17])
    assert (truncated[1]["Content-Range"], truncated[2]) == ("bytes 10-11/12", DATA[10:12])


def test_scripts_advance_separately_for_each_port_and_path(server):
    """k times then fine; a port's script does not concern another port; Retry-After as seconds and as a date."""
    server.put("/b", b"b")
    server.script(0, [*times(2, Status(503, retry_after=2)), Status(429, retry_after=30, as_date=True), Ok()])
    server.always(None, Status(404), path="/b")
    assert ask(server, port=1)[0] == 200
    answers = [ask(server) for _ in range(5)]
    assert [status for status, _, _ in answers] == [503, 503, 429, 200, 200]
    assert answers[0][1]["Retry-After"] == "2"
    assert 20 < parsedate_to_datetime(answers[2][1]["Retry-After"]).timestamp() - time.time() < 31
    assert [ask(server, port=i, path="/b")[0] for i in range(2)] == [404, 404]
    assert len(server.requests(0)) == 6
    assert len(server.requests(path="/b")) == 2


def test_headers_redirects_and_etags(server):
    """Redirects go anywhere, ETags change, headers can be added and taken away."""
    server.script(0, [Redirect("ftp://127.0.0.1/x"), ChangingETag(), ChangingETag()])
    server.always(1, Headers({"Via": "1.1 squid", "ETag": None}))
    assert ask(server)[1]["Location"] == "ftp://127.0.0.1/x"
    assert len({ask(server)[1]["ETag"] for _ in range(2)}) == 2
    headers = ask(server, port=1)[1]
    assert (headers["Via"], headers["ETag"]) == ("1.1 squid", None)


def test_slow_answers(server):
    """Behaviours compose: late, and then slow."""
    server.always(0, Latency(0.2), Rate(50_000))
    started = time.monotonic()
    assert len(ask(server, start=0, end=10_000)[2]) == 10_000
    assert time.monotonic() - started >= 0.35


def test_a_quota_is_of_all_answers_and_can_be_lifted(server):
    """Two answers share it; both wait where it ends, and come whole once it is lifted."""
    quota, bodies = Quota(100_000), []
    server.always(None, quota)
    threads = [threading.Thread(target=lambda port=port: bodies.append(ask(server, port=port)[2])) for port in (0, 1)]
    for thread in threads:
        thread.start()
    while server.body_bytes() < 100_000 or len(server.requests()) < 2:
        time.sleep(0.001)
    time.sleep(0.05)  # time in which more would come, were it not held
    assert (server.body_bytes(), bodies) == (100_000, [])
    quota.lift()
    for thread in threads:
        thread.join(60)
    assert bodies == [DATA, DATA]


def test_a_closed_port_refuses(server):
    """A closed port refuses connections and can be opened again; the other goes on."""
    server.close_port(0)
    with pytest.raises(ConnectionRefusedError):
        ask(server)
    assert ask(server, port=1)[0] == 200
    server.open_port(0)
    assert ask(server)[0] == 200


def test_a_connection_of_the_last_moment_is_closed(fault_server):
    """pytest sees a socket that is not."""
    for _ in range(20):
        server = fault_server()
        with socket.create_connection(("127.0.0.1", server.port()), timeout=60) as client:
            server.close_port(0)
            server.drop_connections()
            assert client.recv(1) == b""
        gc.collect()

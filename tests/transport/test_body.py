"""Bodies of announced length are read past the HTTP library: the same bytes, errors and connections as through it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator

import h11
import pytest

from resume_dl.errors import NetworkError, StalledError
from resume_dl.transport.announced_body import MAX_READ
from transport.asking import ask, body_of
from transport.tiny import Request, TinyHttpProxy, TinyServer, TinySocks, answer

pytestmark = pytest.mark.usefixtures("either_system")

BODY = bytes(range(251)) * 8354  # 2 MiB; a prime period: an offset that slips shows


def send_body(conn: socket.socket, request: Request) -> None:
    conn.sendall(answer(BODY))


def read_into(got: bytearray, chunks: Iterator[bytes], at_end: Callable[[], None] = lambda: None) -> None:
    """Collect a body, what came before an error too; ``at_end`` is called when BODY is there."""
    for chunk in chunks:
        got += chunk
        if len(got) == len(BODY):
            at_end()


@pytest.fixture
def parsed(monkeypatch) -> list[int]:
    """Sizes of all that h11 was given to parse."""
    seen: list[int] = []
    receive = h11.Connection.receive_data

    def counted(self: h11.Connection, data: bytes) -> None:
        seen.append(len(data))
        receive(self, data)

    monkeypatch.setattr(h11.Connection, "receive_data", counted)
    return seen


@pytest.mark.parametrize("way", ["plain", "tls", "forwarded", "tunnel", "socks", "socks with tls"])
def test_most_of_a_body_does_not_pass_through_h11(run, transport, tls, parsed, way):
    """On every way to a server h11 is given the head alone."""
    secure = way in {"tls", "tunnel", "socks with tls"}
    server = run(TinyServer(send_body, tls.server if secure else None))
    settings = {"verify": tls.ca_file}
    if way in {"forwarded", "tunnel"}:
        settings["proxies"] = {"all": f"http://localhost:{run(TinyHttpProxy()).port}"}
    elif way.startswith("socks"):
        settings["proxies"] = {"all": f"socks5://localhost:{run(TinySocks()).port}"}
    assert body_of(transport(**settings), f"{server.base}/f") == BODY
    assert sum(parsed) < 1024


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_large_bodies_share_one_connection(run, transport, tls, secure):
    """A body read to its end gives its connection back in the state that the next request needs."""
    server = run(TinyServer(send_body, tls.server if secure else None))
    shared = transport(verify=tls.ca_file)
    for _ in range(3):
        assert body_of(shared, f"{server.base}/f") == BODY
    assert server.connections == 1


def test_a_body_not_read_to_its_end_closes_its_connection(run, transport):
    """What was not read is never taken for the next answer."""
    server = run(TinyServer(send_body))
    shared = transport()
    response = shared.exchange(ask(f"{server.base}/f")).open()
    chunks = response.chunks()
    assert len(next(chunks)) + len(next(chunks)) < len(BODY)
    response.close()
    assert body_of(shared, f"{server.base}/f") == BODY
    assert server.connections == 2


def test_bytes_after_the_body_reach_no_reader(run, transport):
    """More than was announced is neither in this body nor the head of the next answer."""
    forged = answer(b"forged")
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(BODY) + forged)))
    shared = transport()
    for _ in range(2):
        assert body_of(shared, f"{server.base}/f") == BODY


def test_a_truncated_body_raises_after_its_bytes(run, transport):
    """All bytes that came are handed out, then the break is told as it is for a short body."""

    def part(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(BODY, length=len(BODY) + 1))
        conn.close()

    server = run(TinyServer(part))
    got = bytearray()
    response = transport().exchange(ask(f"{server.base}/f")).open()
    with pytest.raises(NetworkError, match="before the body did"):
        read_into(got, response.chunks())
    assert got == BODY


def test_a_reset_in_the_middle_is_named(run, transport):
    """A connection that is reset below the library's reads is still named as reset, and as worth another try."""
    read = threading.Event()

    def reset(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(BODY, length=1 << 40))
        read.wait(5)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.close()

    server = run(TinyServer(reset))
    got = bytearray()
    response = transport().exchange(ask(f"{server.base}/f")).open()
    with pytest.raises(NetworkError, match="reset") as caught:
        read_into(got, response.chunks(), read.set)
    assert got == BODY
    assert caught.value.retryable


def test_a_stalled_body_times_out_once(run, transport):
    """One read time-out ends the body, also where the rest would have come during a second one."""
    given_up = threading.Event()

    def late(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(BODY, length=2 * len(BODY)))
        given_up.wait(3.5)
        conn.sendall(BODY)

    server = run(TinyServer(late))
    got = bytearray()
    response = transport(read_timeout=2.0).exchange(ask(f"{server.base}/f")).open()
    with pytest.raises(StalledError, match=r"no data for 2 s"):
        read_into(got, response.chunks())
    given_up.set()
    response.close()  # or the server's thread waits for the client's end, where shutdown wakes no reader
    assert got == BODY


def test_chunked_bodies_and_bodies_until_the_end_of_the_connection_come_whole(run, transport):
    """Without a Content-Length, or with a transfer coding over it, the library frames the body (RFC 9112 6.3)."""
    pieces = [BODY[at : at + 100_000] for at in range(0, len(BODY), 100_000)]
    coded = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    chunked = b"HTTP/1.1 200 ok\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + coded
    until_end = b"HTTP/1.0 200 ok\r\n\r\n" + BODY

    def send(conn: socket.socket, request: Request) -> None:
        conn.sendall(chunked if request.path == "/chunked" else until_end)
        if request.path != "/chunked":
            conn.close()

    server = run(TinyServer(send))
    shared = transport()
    for path in ("chunked", "end", "chunked"):
        assert body_of(shared, f"{server.base}/{path}") == BODY


def test_no_chunk_is_larger_than_the_port_says(run, transport):
    """256 KiB at most, however much is waiting."""
    server = run(TinyServer(send_body))
    chunks = [*transport().exchange(ask(f"{server.base}/f")).open().chunks()]
    assert max(map(len, chunks)) <= MAX_READ == 256 * 1024
    assert b"".join(chunks) == BODY

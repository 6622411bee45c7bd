"""What is taken out of a connection's bytes is the body that h11 would have found there, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.transport.announced_body import MAX_HEAD, MAX_READ, AnnouncedBody, announced_length

Answer = tuple[list[tuple[int, list[tuple[bytes, bytes]]]], bytes, str]
"""Status and fields of each head, the body, and how it ended: ``done``, ``open`` or the kind of an error."""


def receiver(pieces: Iterable[bytes]) -> Callable[[], bytes]:
    """Reads as a socket does: one piece after another, then b""."""
    waiting = iter(pieces)
    return lambda: next(waiting, b"")


def parsed(pieces: Iterable[bytes]) -> Answer:
    """One answer, by h11 alone."""
    parser = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
    parser.send(h11.Request(method="GET", target="/", headers=[("Host", "h")]))
    parser.send(h11.EndOfMessage())
    receive = receiver(pieces)
    heads, body = [], b""
    try:
        while True:
            event = parser.next_event()
            if event is h11.NEED_DATA:
                more = receive()
                if not more and parser.their_state is h11.SEND_RESPONSE:
                    return heads, body, "open"
                parser.receive_data(more)
            elif isinstance(event, (h11.Response, h11.InformationalResponse)):
                heads.append((event.status_code, list(event.headers)))
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            else:
                return heads, body, "done"
    except h11.RemoteProtocolError:
        return heads, body, "error"


def taken_out(pieces: list[bytes]) -> tuple[Answer, AnnouncedBody]:
    """The same answer, with its body taken out if it is one that is."""
    received = AnnouncedBody()
    received.sent(b"GET / HTTP/1.1\r\n\r\n")
    receive = receiver(pieces)
    first = received.head(receive)
    if received.length is None:
        return parsed([first, *iter(receive, b"")]), received
    heads, nothing, ended = parsed([first])
    assert nothing == b""
    if ended == "error":  # the head itself is refused
        return (heads, b"", ended), received
    body = b""
    rest = b""

    def at_most(count: int) -> bytes:
        nonlocal rest
        rest = rest or receive()
        data, rest = rest[:count], rest[count:]
        return data

    while data := received.read(at_most):
        body += data
    status, fields = heads[0]
    length = str(received.length).encode()
    fields = [(name, length if name == b"content-length" else value) for name, value in fields]
    return ([(status, fields)], body, "error" if received.left else "done"), received


LINES = st.sampled_from(
    [
        *(b"Content-Length: 5", b"content-length:5 ", b"Content-Length: 0", b"Content-Length: 005", b"X: 1"),
        *(b"Content-Length: 5, 5", b"Content-Length: +5", b"Content-Length : 5", b"Content-Length: 50000"),
        *(b"Transfer-Encoding: chunked", b" folded", b"\tContent-Length: 7", b"X-Content-Length: 9", b": no name"),
        *(b"Connection: close", b"Content-Length: 5\nX: 2", b"X: 1\r", b"Content-Length: \xc2\xb2", b"X: \x00"),
    ]
)
HEADS = st.builds(
    lambda status, lines, ending: ending.join([status, *lines, b"", b""]),
    st.sampled_from(
        [b"HTTP/1.1 200 OK", b"HTTP/1.1 206", b"HTTP/1.0 200 OK", b"HTTP/1.1 404 no", b"HTTP/1.1 100 c", b"220 mail"]
    ),
    st.lists(LINES, max_size=4),
    st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n"]),
)
BODIES = st.sampled_from([b"", b"abc", b"abcde", b"abcdefgh", b"5\r\nabcde\r\n0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"])


@given(HEADS, BODIES, st.lists(st.integers(0, 120), max_size=6))
def test_the_length_is_the_one_that_h11_finds(head: bytes, body: bytes, cuts: list[int]) -> None:
    """Whatever the head says and wherever the packets begin: the same heads, bytes and end."""
    whole = head + body
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    pieces = [piece for start, end in pairwise(places) if (piece := whole[start:end])]
    found, _ = taken_out(pieces)
    assert found == parsed(pieces)


def test_an_ordinary_body_is_read_past_httpcore() -> None:
    """Also one that comes byte by byte, with a long body, a short one or none."""
    for size in (0, 5, 2 * MAX_READ + 1):
        head = b"HTTP/1.1 206 Partial Content\r\nServer: x\r\nContent-Length: %d\r\nETag: y\r\n\r\n" % size
        for pieces in ([head + bytes(size)], [head[at : at + 1] for at in range(len(head))] + [bytes(size)]):
            (_, body, ended), received = taken_out([piece for piece in pieces if piece])
            assert received.length == size
            assert (body, ended) == (bytes(size), "done")
            assert not received.has_surplus


def test_more_than_was_announced_is_a_surplus() -> None:
    """It is no part of the body, and the connection must not serve another request."""
    (_, body, ended), received = taken_out([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 forged\r\n"])
    assert (body, ended) == (b"abc", "done")
    assert received.has_surplus


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 404 no\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: 1\r\n Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: 1\nContent-Length: 5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\n",
    ],
)
def test_any_other_head_goes_to_the_library(head: bytes) -> None:
    """Unchanged: what else may frame the body, or is in doubt, is for it to judge."""
    assert announced_length(head) is None
    received = AnnouncedBody()
    assert received.head(receiver([head + b"rest"])) == head + b"rest"
    assert received.read(lambda _: pytest.fail("nothing is read")) == b""


@pytest.mark.parametrize("first", [b"SSH-2.0-x\r\n", b"\x15\x03\x01", b"HTTQ", b"\r\n"])
def test_data_that_is_not_http_is_passed_on_at_once(first: bytes) -> None:
    """A blank line may never come: the library says at once what it is."""
    assert AnnouncedBody().head(receiver([first, b"more"])) == first


def test_an_endless_head_is_bounded() -> None:
    """A little over the bound at most, then the library refuses it."""
    received = AnnouncedBody()
    assert len(received.head(lambda: b"HTTP/1.1 200 OK\r\nX: " + bytes(999))) < MAX_HEAD + 2000


def test_only_responses_to_get_are_examined() -> None:
    """A proxy's answer to CONNECT has no body whatever it announces; SOCKS messages are no HTTP."""
    received = AnnouncedBody()
    for data, awaits in {
        b"CONNECT h:1 HTTP/1.1\r\n": False,
        b"GET / HTTP/1.1\r\n": True,
        b"": True,
        b"\x05": False,
    }.items():
        received.sent(data)
        assert received.awaits_head is awaits

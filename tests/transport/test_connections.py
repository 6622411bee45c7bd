"""Which connections end, which are used again, and which request is sent once more."""

from __future__ import annotations

import contextlib
import errno
import socket
import ssl
import threading
from collections.abc import Callable

import httpcore
import pytest

from resume_dl.errors import NetworkError, StalledError
from resume_dl.ports import Exchange
from resume_dl.transport.abortable_stream import AbortableBackend
from resume_dl.transport.cancel_handle import CancelHandle
from transport.asking import ask, body_of
from transport.tiny import Request, TinyServer, answer

GUARD = 60.0
"""Seconds; only a test that would hang needs them."""


class Ending(TinyServer):
    """Answers one request on each connection and notes when the client has ended it."""

    def __init__(self, sent: Callable[[Request], bytes], **options: object) -> None:
        self.ended = threading.Event()
        self._sent = sent
        super().__init__(lambda conn, request: None, **options)

    def serve(self, conn: socket.socket, number: int) -> None:
        try:
            while data := conn.recv(65536):
                self.requests.append(Request(data.decode("latin-1").partition("\r\n")[0], {}, number))
                conn.sendall(self._sent(self.requests[-1]))
        finally:  # a reset is an end too
            self.ended.set()


def test_a_body_that_is_left_ends_its_connection_at_once(run, transport):
    """Not only when the response is forgotten: a server with few places is waited for by others."""
    server = run(Ending(lambda _: answer(b"some", length=1 << 40)))
    response = transport().exchange(ask(f"{server.base}/f")).open()
    assert next(response.chunks()) == b"some"
    response.close()
    assert server.ended.wait(GUARD)
    response.close()


def test_a_refused_redirect_ends_its_connection_at_once(run, transport):
    """Its body is still on the way, and is not read."""
    server = run(Ending(lambda _: answer(b"some", 302, length=1 << 40, Location="file:///etc/passwd")))
    exchange = transport().exchange(ask(f"{server.base}/f"))
    with pytest.raises(NetworkError, match="neither http nor https") as caught:
        exchange.open()
    assert server.ended.wait(GUARD)
    assert caught.value.source == f"{server.base}/f"


def test_a_failed_tls_handshake_ends_its_connection_at_once(run, transport):
    """Also while the error that tells of it is kept."""
    server = run(Ending(lambda _: b"HTTP/1.1 400 x\r\n\r\n"))
    with pytest.raises(NetworkError, match="TLS") as caught:
        body_of(transport(), f"https://localhost:{server.port}/f")
    assert server.ended.wait(GUARD)
    assert caught.value.retryable


@pytest.mark.parametrize("garbage", [b"HTTP/1.1 400 x\r\n\r\n", b"\x05\x00garbage"])
def test_a_server_that_is_not_a_socks_proxy_is_closed_at_once(run, transport, garbage):
    """The library leaves such a connection open."""
    server = run(Ending(lambda _: garbage))
    shared = transport(proxies={"all": f"socks5://localhost:{server.port}"})
    with pytest.raises(NetworkError, match="proxy") as caught:
        body_of(shared, "http://example.invalid/f")
    assert server.ended.wait(GUARD)
    assert caught.value.retryable


def test_closing_the_transport_ends_idle_connections(run, transport):
    """A connection kept for another request is closed with all others."""
    server = run(Ending(lambda _: answer(b"body")))
    shared = transport()
    assert body_of(shared, f"{server.base}/f") == b"body"
    assert not server.ended.is_set()
    shared.close()
    assert server.ended.wait(GUARD)


def test_an_abort_after_the_end_leaves_the_idle_connection_alone(run, transport):
    """The body was read to its end and nothing was closed by hand: the connection serves the next request."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"body"))))
    shared = transport()
    for _ in range(3):
        exchange = shared.exchange(ask(f"{server.base}/f"))
        response = exchange.open()
        assert b"".join(response.chunks()) == b"body"
        exchange.abort()
    assert server.connections == 1


def test_the_rest_of_a_redirects_long_body_is_not_read(run, transport):
    """Beyond 64 KiB the connection ends, however fast the rest would come."""
    sent: list[int] = []
    gone = threading.Event()

    def flood(conn: socket.socket, request: Request) -> None:
        if request.path != "/f":
            conn.sendall(answer(b"the file"))
            return
        conn.sendall(answer(b"", 302, length=1 << 28, Location="/there"))
        try:
            for _ in range(1 << 10):
                conn.sendall(bytes(1 << 18))
                sent.append(1 << 18)
        finally:
            gone.set()

    server = run(TinyServer(flood))
    assert body_of(transport(), f"{server.base}/f") == b"the file"
    assert gone.wait(GUARD)
    assert sum(sent) < 1 << 27


@pytest.mark.parametrize(("length", "connections"), [(64 << 10, 1), ((64 << 10) + 1, 2)])
def test_a_redirects_body_of_at_most_64_kib_is_read_for_its_connection(run, transport, length, connections):
    """To the last byte: what is asked next goes over the same connection."""

    def lead(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(bytes(length), 302, Location="/there") if request.path == "/f" else answer(b"the file"))

    server = run(TinyServer(lead))
    assert body_of(transport(), f"{server.base}/f") == b"the file"
    assert server.connections == connections


def test_a_connection_that_comes_too_late_is_closed():
    """Both handles of it, also while the error that tells of it is kept: the server is not left waiting."""
    handle = CancelHandle()
    handle.cancel()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with handle.attached(), pytest.raises(httpcore.ReadError, match="stopped") as caught:
            AbortableBackend(GUARD).connect_tcp(*listener.getsockname(), timeout=GUARD)
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(GUARD)
            assert conn.recv(1) == b""
    assert caught.value.__traceback__ is not None, "it keeps both"


def test_a_connection_without_a_second_handle_is_closed(monkeypatch):
    """Where this process may open no more files; the source's other connections go on."""

    def none_left(_: socket.socket) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(socket.socket, "dup", none_left)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(httpcore.ConnectError, match="Too many open files") as caught:
            AbortableBackend(GUARD).connect_tcp(*listener.getsockname(), timeout=GUARD)
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(GUARD)
            assert conn.recv(1) == b""
    assert caught.value.__traceback__ is not None, "it keeps the connection"


def test_a_failed_tls_handshake_closes_both_handles():
    """At once, also while the error is kept: nothing is left for the garbage collector."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = AbortableBackend(GUARD).connect_tcp(*listener.getsockname(), timeout=GUARD)
        conn, _ = listener.accept()
        with conn:
            conn.settimeout(GUARD)
            conn.sendall(b"HTTP/1.1 400 x\r\n\r\n")
            with pytest.raises(httpcore.ConnectError):
                stream.start_tls(ssl.create_default_context(), "localhost", GUARD)
            with contextlib.suppress(ConnectionResetError):  # an end too
                while conn.recv(65536):
                    pass


def test_a_kept_connection_that_broke_inside_an_answer_is_an_error(run, transport):
    """Only where no byte of the answer came was the connection closed for being idle; else it is told."""

    def once(conn: socket.socket, request: Request) -> None:
        if len(server.requests) == 1:
            conn.sendall(answer(b"fine"))
        else:
            conn.sendall(b"HTTP/1.1 200 ok\r\nContent-")
            conn.close()

    server = run(TinyServer(once))
    shared = transport()
    assert body_of(shared, f"{server.base}/f") == b"fine"
    with pytest.raises(NetworkError, match="without an answer") as caught:
        body_of(shared, f"{server.base}/f")
    assert caught.value.retryable
    assert len(server.requests) == 2


def test_a_request_can_have_its_own_time_out(run, transport):
    """For the head and for the body, where it is less than the settings'; more than theirs it never gets."""
    silent = run(TinyServer(lambda conn, _: None))
    begun = run(TinyServer(lambda conn, _: conn.sendall(answer(b"some", length=99))))
    patient = transport(first_byte_timeout=GUARD, read_timeout=GUARD)
    with pytest.raises(StalledError, match=r"no answer within 0\.2 s"):
        body_of(patient, f"{silent.base}/f", patience=0.2)
    with pytest.raises(StalledError, match=r"no data for 2 s"):
        body_of(patient, f"{begun.base}/f", patience=2.0)  # within which the head comes on a busy machine too
    with pytest.raises(StalledError, match=r"no answer within 0\.2 s"):
        body_of(transport(first_byte_timeout=0.2), f"{silent.base}/f", patience=GUARD)


def test_a_page_may_come_packed(run, transport):
    """Only where the caller says so is gzip accepted."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x"))))
    body_of(transport(), f"{server.base}/f", packed=True)
    assert server.requests[0].headers["accept-encoding"] == "gzip"
    assert server.requests[0].headers["accept"] == "*/*"


@pytest.fixture
def during_lookup(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """``during_lookup(f)``: ``f()`` is called while the system looks a host up, which nothing can wake."""
    real = socket.getaddrinfo

    def put(call: Callable[[], object]) -> None:
        def looked_up(*args: object, **options: object) -> object:
            call()
            return real(*args, **options)

        monkeypatch.setattr(socket, "getaddrinfo", looked_up)

    return put


def aborted_at_lookup(exchange: Exchange, during_lookup: Callable[[Callable[[], object]], None]) -> NetworkError:
    during_lookup(exchange.abort)
    with pytest.raises(NetworkError) as caught:
        exchange.open()
    return caught.value


def test_an_abort_during_the_connect_sends_nothing(run, transport, during_lookup):
    """It is seen as soon as there is a connection, which ends at once."""
    server = run(Ending(lambda _: answer(b"x")))
    error = aborted_at_lookup(transport().exchange(ask(f"{server.base}/f")), during_lookup)
    assert "the request was stopped" in error.message
    assert server.ended.wait(GUARD)
    assert server.requests == []


def test_an_unresolved_name_is_reported_even_after_an_abort(transport, during_lookup):
    """What the lookup has said meanwhile counts for the line 'none of the hosts resolves'."""
    host = f"{'x' * 70}.invalid"
    error = aborted_at_lookup(transport().exchange(ask(f"http://{host}/f")), during_lookup)
    assert error.unresolved == host
    assert "stopped" not in error.message


def test_an_abort_is_reported_as_one(run, transport):
    """Whatever the connection says when it is shut down."""
    asked = threading.Event()
    server = run(TinyServer(lambda conn, _: asked.set()))
    exchange = transport(first_byte_timeout=GUARD).exchange(ask(f"{server.base}/f"))
    errors: list[NetworkError] = []

    def read() -> None:
        try:
            exchange.open()
        except NetworkError as error:
            errors.append(error)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert asked.wait(GUARD)
    exchange.abort()
    reader.join(GUARD)
    assert [error.message for error in errors] == ["the request was stopped"]
    assert errors[0].source == f"{server.base}/f"


def test_an_unresolved_host_is_named_only_where_it_was_asked_for(run, transport):
    """Where a mirror redirects to a name without an address, that mirror was reached; a fragment is no other host."""
    host = f"{'x' * 70}.invalid"
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"", 302, Location=f"http://{host}/f"))))
    for url, unresolved in {f"http://{host}/f#part": host, f"{server.base}/f": ""}.items():
        with pytest.raises(NetworkError, match="cannot resolve host name") as caught:
            body_of(transport(), url)
        assert caught.value.unresolved == unresolved


def test_a_fragment_makes_no_other_address(run, transport):
    """It is not sent, and the answer is that of the address asked for."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x"))))
    response = transport().exchange(ask(f"{server.base}/f#part")).open()
    response.close()
    assert response.head.final_url is None
    assert server.requests[0].path == "/f"


def test_without_a_warning_function_warnings_are_logged(transport, tmp_path, caplog):
    """A netrc file with an error in it is one line of this package's logger."""
    (tmp_path / "netrc").write_text("machine\n")
    transport(netrc_path=tmp_path / "netrc")
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "is not in netrc format" in caplog.text


@pytest.mark.parametrize("secure", [False, True])
def test_certificates_are_not_read_for_plain_connections(run, transport, tls, monkeypatch, secure):
    """Reading them takes longer than a small request; the library would do it by itself where it is given none."""
    read: list[object] = []
    real = ssl.SSLContext.load_verify_locations
    monkeypatch.setattr(
        ssl.SSLContext, "load_verify_locations", lambda *args, **options: read.append(args) or real(*args, **options)
    )
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x")), tls.server if secure else None))
    assert body_of(transport(verify=tls.ca_file if secure else True), f"{server.base}/f") == b"x"
    assert bool(read) is secure

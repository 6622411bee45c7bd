"""What is sent, what comes back, and which connections serve it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from resume_dl.errors import ConfigurationError, NetworkError, StalledError
from transport.asking import ask, body_of
from transport.tiny import Request, TinyServer, answer

BODY = bytes(range(256)) * 1000


def send_body(conn: socket.socket, request: Request) -> None:
    conn.sendall(answer(BODY))


def test_a_range_is_asked_for_as_one_closed_range_of_raw_bytes(run, transport):
    """Range is bytes=a-(b-1), with If-Range beside it, and no encoding is accepted."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x", 206))))
    body_of(transport(), f"{server.base}/f", start=10, end=20, if_range='"tag"')
    body_of(transport(), f"{server.base}/f", start=0)
    body_of(transport(), f"{server.base}/f", whole=True, if_range='"tag"')
    first, second, third = (request.headers for request in server.requests)
    assert (first["range"], first["if-range"], first["accept-encoding"]) == ("bytes=10-19", '"tag"', "identity")
    assert second["range"] == "bytes=0-"
    assert "range" not in third
    assert "if-range" not in third


def test_the_callers_headers_are_sent_but_cannot_request_an_encoding(run, transport):
    """Conditional headers are sent as given; Accept-Encoding stays ours; the user agent is the settings'."""
    server = run(TinyServer(send_body))
    headers = {"If-None-Match": '"t"', "Accept-Encoding": "gzip"}
    body_of(transport(user_agent="resume-dl/9"), f"{server.base}/f", headers=headers)
    sent = server.requests[0].headers
    assert (sent["if-none-match"], sent["accept-encoding"], sent["user-agent"]) == ('"t"', "identity", "resume-dl/9")


def test_the_head_has_lower_case_names_and_the_host_that_answered(run, transport):
    """A head is status, headers and final host, whatever the status."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"no", 404, X_Thing="1"))))
    head = transport().exchange(ask(f"{server.base}/f")).open().head
    assert head.status == 404
    assert head.headers["x-thing"] == "1"
    assert head.final_host == f"localhost:{server.port}"


def test_an_encoded_body_is_not_decoded(run, transport):
    """What the server sends is what comes, also where it names a Content-Encoding."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"\x1f\x8bnot gzip", Content_Encoding="gzip"))))
    assert body_of(transport(), f"{server.base}/f") == b"\x1f\x8bnot gzip"


def test_a_connection_is_used_again_after_a_whole_body(run, transport):
    """Five bodies read to their ends need one connection; one that is left early costs a new one."""
    server = run(TinyServer(send_body))
    shared = transport()
    for _ in range(5):
        body_of(shared, f"{server.base}/f")
    assert server.connections == 1
    response = shared.exchange(ask(f"{server.base}/f")).open()
    next(response.chunks())
    response.close()
    body_of(shared, f"{server.base}/f")
    assert server.connections == 2


def test_a_late_abort_does_not_touch_the_connection_of_the_next_exchange(run, transport):
    """Once a body has ended its exchange has no hold on the connection that others use now."""
    aborted = threading.Event()

    def halves(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(b"first ", length=12))
        assert request.path == "/first" or aborted.wait(5)
        conn.sendall(b"second")

    server = run(TinyServer(halves))
    shared = transport()
    first = shared.exchange(ask(f"{server.base}/first"))
    assert b"".join(first.open().chunks()) == b"first second"
    second = shared.exchange(ask(f"{server.base}/f")).open()
    first.abort()
    aborted.set()
    assert b"".join(second.chunks()) == b"first second"
    assert server.connections == 1


def test_a_kept_alive_connection_that_the_server_closed_is_replaced_silently(run, transport):
    """A server that closes each connection at the second request is asked again on a fresh one."""

    def once(conn: socket.socket, request: Request) -> None:
        if sum(1 for one in server.requests if one.connection == request.connection) == 1:
            conn.sendall(answer(b"fine"))
        else:
            conn.close()

    server = run(TinyServer(once))
    shared = transport()
    assert [body_of(shared, f"{server.base}/f") for _ in range(3)] == [b"fine"] * 3
    assert server.connections == 3
    assert len(server.requests) == 5


def test_a_fresh_connection_that_closes_without_an_answer_is_an_error(run, transport):
    """Only a kept-alive connection may be the reason; a server that always closes is not asked twice."""
    server = run(TinyServer(lambda conn, _: conn.close()))
    with pytest.raises(NetworkError, match="without an answer"):
        body_of(transport(), f"{server.base}/f")
    assert len(server.requests) == 1


def test_a_body_that_ends_early_is_a_network_error_after_its_bytes(run, transport):
    """The bytes that came are handed out, then the break is told."""

    def half(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(b"half", length=8))
        conn.close()

    server = run(TinyServer(half))
    got = []
    response = transport().exchange(ask(f"{server.base}/f")).open()
    with pytest.raises(NetworkError, match="before the body did") as caught:
        got.extend(response.chunks())
    assert got == [b"half"]
    assert caught.value.retryable
    assert caught.value.reached


def test_a_server_without_a_head_stalls_after_the_first_byte_time_out(run, transport):
    """No head in time is a StalledError."""
    server = run(TinyServer(lambda conn, _: None))
    with pytest.raises(StalledError, match=r"within 0\.2 s"):
        body_of(transport(first_byte_timeout=0.2), f"{server.base}/f")


def test_a_body_has_its_own_time_out(run, transport):
    """A body that stops is given up after the read time-out, not after the one for the first byte."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"some", length=99))))
    response = transport(first_byte_timeout=60.0, read_timeout=0.2).exchange(ask(f"{server.base}/f")).open()
    with pytest.raises(StalledError, match=r"no data for 0\.2 s"):
        b"".join(response.chunks())


def test_a_closed_port_counts_as_not_reached(transport):
    """A refused connection and an unknown name are NetworkErrors that say that no source was reached."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NetworkError, match="refused") as refused:
        body_of(transport(), f"http://127.0.0.1:{port}/f")
    with pytest.raises(NetworkError, match="cannot resolve host name") as unknown:
        body_of(transport(), f"http://{'x' * 70}.invalid/f")
    assert not refused.value.reached
    assert not unknown.value.reached
    assert refused.value.retryable


@pytest.mark.parametrize("url", ["ftp://h/f", "http://h:99999/f", "http://[bad/f", "nothing", "http:///f"])
def test_an_address_that_cannot_be_requested_is_not_tried_again(transport, url):
    """Bad addresses are refused as not retryable."""
    with pytest.raises(NetworkError) as caught:
        body_of(transport(), url)
    assert not caught.value.retryable


def test_a_header_with_a_line_break_is_refused(run, transport):
    """A validator that a hostile server gave cannot smuggle a header into the next request."""
    server = run(TinyServer(send_body))
    with pytest.raises(NetworkError) as caught:
        body_of(transport(), f"{server.base}/f", start=0, if_range='"a"\r\nX-Evil: 1')
    assert not caught.value.retryable
    assert server.requests == []


def test_something_that_is_not_http_is_a_network_error(run, transport):
    """An SSH server's greeting is no answer."""
    server = run(TinyServer(lambda conn, _: conn.sendall(b"SSH-2.0-x\r\n\r\n")))
    with pytest.raises(NetworkError, match=r"HTTP/1\.1"):
        body_of(transport(), f"{server.base}/f")


def test_cookies_are_not_kept(run, transport):
    """What one answer sets, the next request does not carry."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"x", Set_Cookie="a=b; Path=/"))))
    shared = transport()
    body_of(shared, f"{server.base}/f")
    body_of(shared, f"{server.base}/f")
    assert "cookie" not in server.requests[1].headers


def test_tls_with_our_own_authority(run, transport, tls):
    """The settings' file of trusted certificates is used, and connections are kept alive under TLS too."""
    server = run(TinyServer(send_body, tls.server))
    shared = transport(verify=tls.ca_file)
    assert body_of(shared, f"{server.base}/f") == BODY
    assert body_of(shared, f"{server.base}/f") == BODY
    assert server.connections == 1


def test_an_untrusted_certificate_is_final_and_says_so(run, transport, tls):
    """A certificate that does not verify is not retryable and has a hint."""
    server = run(TinyServer(send_body, tls.server))
    with pytest.raises(NetworkError, match="certificate is not trusted") as caught:
        body_of(transport(), f"{server.base}/f")
    assert not caught.value.retryable
    assert "ssl_verify" in caught.value.hint
    assert body_of(transport(verify=False), f"{server.base}/f") == BODY


def test_verification_is_skipped_for_the_configured_host_only(run, transport, tls):
    """pip's ``--trusted-host``: by name, at every port or one; where a redirect leads is another question."""
    server = run(TinyServer(send_body, tls.server))
    other = server.base.replace("localhost", "127.0.0.1")
    for named in ("localhost", f"localhost:{server.port}"):
        shared = transport(trusted_hosts=(named,))
        assert body_of(shared, f"{server.base}/f") == BODY
        with pytest.raises(NetworkError, match="not trusted"):
            body_of(shared, f"{other}/f")
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(transport(trusted_hosts=("localhost:1",)), f"{server.base}/f")
    away = run(TinyServer(lambda conn, _: conn.sendall(answer(b"", 302, Location=f"{other}/f")), tls.server))
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(transport(trusted_hosts=("localhost",)), f"{away.base}/f")


@pytest.mark.parametrize("kind", ["folder", "system"])
def test_other_certificate_stores(run, transport, tls, tmp_path, kind):
    """An OpenSSL folder without our authority, and the system's store, are used and do not trust it."""
    server = run(TinyServer(send_body, tls.server))
    settings = {"verify": tmp_path} if kind == "folder" else {"system_store": True}
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(transport(**settings), f"{server.base}/f")


def test_tls_to_a_plain_port_is_a_network_error(run, transport):
    """A server that does not speak TLS is named as such and may be tried again."""

    class Hasty(TinyServer):
        def serve(self, conn: socket.socket, number: int) -> None:
            conn.recv(1)
            conn.sendall(answer(b"x"))

    server = run(Hasty(send_body))
    with pytest.raises(NetworkError, match=r"cannot connect \(TLS: wrong version number\)") as caught:
        body_of(transport(verify=False), f"https://localhost:{server.port}/f")
    assert caught.value.retryable


def test_a_client_certificate_is_shown(run, transport, tls, tmp_path):
    """A server that demands one gets it, from one PEM file with its key."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.ca.issue_cert("localhost").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    tls.ca.configure_trust(context)
    server = run(TinyServer(send_body, context))
    mine = tmp_path / "client.pem"
    tls.ca.issue_cert("client.example").private_key_and_cert_chain_pem.write_to_path(str(mine))
    assert body_of(transport(verify=tls.ca_file, client_cert=mine), f"{server.base}/f") == BODY
    with pytest.raises(NetworkError):
        body_of(transport(verify=tls.ca_file), f"{server.base}/f")


def test_certificates_are_read_only_for_tls(run, transport, tls, tmp_path):
    """Without TLS the trusted certificates are not looked at; a redirect into it is where a wrong file is told."""
    secure = run(TinyServer(send_body, tls.server))
    location = f"{secure.base}/f"
    plain = run(
        TinyServer(lambda conn, one: conn.sendall(answer(BODY, 302 if one.path == "/go" else 200, Location=location)))
    )
    wrong = transport(verify=tmp_path / "missing.pem")
    assert body_of(wrong, f"{plain.base}/f") == BODY
    with pytest.raises(ConfigurationError, match=r"missing\.pem"):
        body_of(wrong, f"{plain.base}/go")
    assert body_of(transport(verify=tls.ca_file), f"{plain.base}/go") == BODY
    with pytest.raises(NetworkError, match="certificate is not trusted"):
        body_of(transport(), f"{plain.base}/go")


@pytest.mark.parametrize("setting", ["verify", "client_cert"])
@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificate_files_that_cannot_be_used_are_a_configuration_error(transport, tmp_path, setting, content):
    """A missing or wrong file is named, with exit code 2."""
    path: Path = tmp_path / "c.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match=r"c\.pem"):
        body_of(transport(**{setting: path}), "https://localhost:1/f")


def test_after_close_nothing_is_sent(run, transport):
    """A closed transport starts no exchange and closing twice is fine."""
    server = run(TinyServer(send_body))
    shared = transport()
    body_of(shared, f"{server.base}/f")
    shared.close()
    shared.close()
    with pytest.raises(NetworkError, match="stopped"):
        body_of(shared, f"{server.base}/f")
    assert len(server.requests) == 1

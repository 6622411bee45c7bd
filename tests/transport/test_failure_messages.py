"""What each failure of a connection is called, and what the engine may make of it."""

from __future__ import annotations

import errno
import socket
import ssl

import httpx
import pytest

from resume_dl.engine.worker import failure_of
from resume_dl.errors import NetworkError, SourceError, StalledError
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.failures import to_ours
from transport.asking import body_of
from transport.tiny import TinyServer, answer

PROXY = "http://proxy.example:3128"
UNRESOLVED = socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def ours(error: Exception, **more: object) -> SourceError:
    options = {"host": "h", "source": "http://h/f", "network": NetworkSettings()} | more
    return to_ours(error, **options)


def because(error: Exception, cause: BaseException) -> Exception:
    error.__cause__ = cause
    return error


def alert(kind: type[ssl.SSLError], reason: str | None) -> ssl.SSLError:
    error = kind(1, "x")
    error.reason = reason
    return error


TOLD = [
    (httpx.ConnectTimeout("x"), "no connection{} within 5 s"),
    (httpx.ReadTimeout("x"), "no answer{} within 60 s"),
    (because(httpx.ConnectError("x"), UNRESOLVED), "cannot resolve host name{}"),
    (
        because(httpx.ConnectError("x"), ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")),
        "cannot connect{} (connection refused)",
    ),
    (httpx.ConnectError("x"), "cannot connect{} (closed)"),
    (
        because(httpx.ConnectError("x"), alert(ssl.SSLEOFError, "EOF")),
        "cannot connect{} (it ended in the TLS handshake)",
    ),
    (because(httpx.ConnectError("x"), alert(ssl.SSLError, None)), "cannot connect{} (TLS: failed)"),
    (because(httpx.ReadError("x"), OSError(errno.ECONNRESET, "x")), "the connection broke{} (reset)"),
    (
        because(httpx.ReadError("x"), OSError(errno.EHOSTUNREACH, "No route")),
        "the connection broke{} (no route)",
    ),
    (because(httpx.ReadError("x"), UNRESOLVED), "the connection broke{} (name or service not known)"),
    (OSError("without a number"), "the connection broke{} (oserror)"),
    (httpx.ReadError("x"), "the connection broke{} (closed)"),
    (httpx.DecodingError("x"), "the exchange failed{} (DecodingError)"),
    (because(ValueError("x"), OSError(errno.EIO, "x")), "the exchange failed{} (ValueError)"),
    (httpx.RemoteProtocolError("illegal status line"), "does not answer in HTTP/1.1{}"),
]


@pytest.mark.parametrize(("error", "text"), TOLD, ids=[text for _, text in TOLD])
def test_messages_of_each_failure(error, text):
    """Host and trouble, and where a proxy is on the way, that it was through it. Trying again may help."""
    for proxy, way in {"": "", PROXY: f" through the proxy {PROXY}"}.items():
        told = ours(error, proxy=proxy)
        assert told.message == f"h: {text.format(way)}"
        assert isinstance(told, StalledError) or told.retryable


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (httpx.UnsupportedProtocol("x"), "begin with http"),
        (httpx.LocalProtocolError("x"), "odd characters"),
        (because(httpx.ConnectError("x"), ssl.SSLCertVerificationError(1, "x")), "ssl_verify"),
    ],
)
def test_permanent_failures_have_a_hint(error, hint):
    """An address, a header, a certificate: the user has to change something."""
    error_of_ssl = error.__cause__
    if error_of_ssl is not None:
        error_of_ssl.verify_message = "self-signed"
    told = ours(error)
    assert isinstance(told, NetworkError)
    assert not told.retryable
    assert hint in told.hint
    assert told.reached


def test_a_proxys_refusal_is_its_own():
    """It was not the source that was reached; without a proxy there is nothing to name."""
    refused = ours(httpx.ProxyError("407"), proxy=PROXY)
    assert refused.message == f"h: refused by the proxy {PROXY}"
    assert not refused.reached
    assert "login" in refused.hint
    assert ours(httpx.ProxyError("x")).message == "h: the exchange failed (ProxyError)"


@pytest.mark.parametrize("number", [errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH])
def test_a_literal_address_without_a_route(number):
    """The system's own word, of an address that was asked for or its proxy's; a name may have other addresses."""
    error = because(httpx.ConnectError("x"), OSError(number, "no"))
    for host in ("192.0.2.1", "192.0.2.1:8080", "[2001:db8::1]:8080"):
        assert failure_of(ours(error, host=host)).no_route
        assert not ours(error, host=host, asked=False).no_route
        assert not ours(error, host=host, proxy=PROXY).no_route
    assert ours(error, proxy="http://192.0.2.1:3128").no_route
    assert not ours(error, host="localhost:80").no_route
    assert not ours(because(httpx.ConnectError("x"), OSError(errno.ETIMEDOUT, "no")), host="192.0.2.1").no_route
    assert not ours(httpx.ConnectTimeout("x"), host="192.0.2.1").no_route


def test_an_unresolved_name_is_that_of_the_host_asked_for():
    """Or of the proxy that stands for it; a host that a redirect led to says nothing of the network."""
    error = because(httpx.ConnectError("x"), UNRESOLVED)
    assert ours(error).unresolved == "h"
    assert ours(error, proxy=PROXY).unresolved == "proxy.example"
    assert ours(error, proxy="proxy").unresolved == "proxy"
    assert ours(error, asked=False).unresolved == ""
    assert ours(httpx.ConnectError("x")).unresolved == ""
    assert ours(because(httpx.ReadError("x"), UNRESOLVED)).unresolved == ""
    assert not ours(error).reached


def test_without_a_host_only_the_failure_is_described():
    """An address that cannot be read has none."""
    assert ours(httpx.InvalidURL("x"), host="").message == "this address cannot be requested"


def test_a_circular_chain_of_causes_terminates():
    """Libraries have raised an error from itself."""
    error, cause = httpx.ReadError("x"), OSError(errno.ECONNRESET, "x")
    error.__context__, cause.__context__ = cause, error
    assert ours(error).message == "h: the connection broke (reset)"


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (answer(b"some", length=99), "the connection ended before the body did"),
        (b"HTTP/1.1 200 ok\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nso", "the connection ended before the body did"),
        (b"", "closed the connection without an answer"),
        (b"HTTP/1.1 200 ok\r\nContent-Le", "closed the connection without an answer"),
        (b"220 mail.example ESMTP\r\n\r\n", "does not answer in HTTP/1.1"),
    ],
)
def test_servers_that_disconnect_or_do_not_speak_http(run, transport, sent, told):
    """By what the library says of real connections; where its words change, this fails."""

    def send(conn: socket.socket, _: object) -> None:
        conn.sendall(sent)
        conn.close()

    server = run(TinyServer(send))
    with pytest.raises(NetworkError, match=told) as caught:
        body_of(transport(), f"{server.base}/f")
    assert caught.value.retryable
    assert caught.value.reached


def test_the_cause_is_kept_where_it_can_quote_no_secret(run, transport):
    """A traceback shows what the system said; not what the library says of headers and addresses, which it quotes."""
    server = run(TinyServer(lambda conn, _: conn.close()))
    with pytest.raises(NetworkError, match="without an answer") as broken:
        body_of(transport(), f"{server.base}/f")
    assert isinstance(broken.value.__cause__, httpx.RemoteProtocolError)
    with pytest.raises(NetworkError, match="cannot be written as HTTP") as refused:
        body_of(transport(), f"{server.base}/f", headers={"X-Token": "hush\r\nX-Evil: 1"})
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__

"""Every foreign exception becomes one of ours, and none of ours shows a secret."""

from __future__ import annotations

import inspect
import socket
import ssl

import httpcore
import pytest

from resume_dl.errors import NetworkError, SourceError, StalledError
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.failures import FOREIGN, to_ours
from resume_dl.transport.request_address import InvalidAddressError
from transport.asking import ask, body_of
from transport.tiny import Request, TinyServer, answer

SECRET = "hush-hush"
HTTPCORE_ERRORS = sorted(
    (one for _, one in inspect.getmembers(httpcore, inspect.isclass) if issubclass(one, Exception)),
    key=lambda one: one.__name__,
)


def ours(error: Exception, proxy: str = "") -> SourceError:
    return to_ours(error, host="h", source="http://h/f", network=NetworkSettings(), proxy=proxy)


def test_httpcore_has_the_classes_that_we_think_it_has():
    """The walk below is not empty."""
    assert len(HTTPCORE_ERRORS) >= 15


@pytest.mark.parametrize("proxy", ["", "http://proxy:1"])
@pytest.mark.parametrize("kind", [*HTTPCORE_ERRORS, InvalidAddressError, UnicodeError, OSError])
def test_each_exception_of_httpcore_is_mapped(kind, proxy):
    """It is caught where requests are sent, becomes a SourceError, and its own text is not shown."""
    assert issubclass(kind, FOREIGN)
    mapped = ours(kind(SECRET), proxy)
    assert isinstance(mapped, SourceError)
    assert mapped.source == "http://h/f"
    assert mapped.message.startswith("h: ")
    assert SECRET not in repr(mapped) + mapped.message + mapped.hint


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "reached"),
    [
        (httpcore.ConnectTimeout("x"), NetworkError, True, False),
        (httpcore.ConnectError("x"), NetworkError, True, False),
        (httpcore.ReadError("x"), NetworkError, True, True),
        (httpcore.RemoteProtocolError("x"), NetworkError, True, True),
        (httpcore.LocalProtocolError("x"), NetworkError, False, True),
        (InvalidAddressError("x"), NetworkError, False, True),
        (httpcore.UnsupportedProtocol("x"), NetworkError, False, True),
        (ConnectionResetError(104, "reset"), NetworkError, True, True),
        (UnicodeEncodeError("ascii", "é", 0, 1, "x"), NetworkError, False, True),
    ],
)
def test_what_trying_again_can_mend_is_retryable(error, kind, retryable, reached):
    """And only what never made a connection counts as not reached."""
    mapped = ours(error)
    assert type(mapped) is kind
    assert (mapped.retryable, mapped.reached) == (retryable, reached)


@pytest.mark.parametrize("kind", [httpcore.ReadTimeout, httpcore.WriteTimeout, httpcore.PoolTimeout])
def test_waiting_too_long_is_a_stall(kind):
    """Time-outs after the connect are StalledErrors."""
    assert type(ours(kind("x"))) is StalledError


def test_the_systems_own_reason_is_found_below_the_wrappers():
    """A name that DNS does not know, a TLS alert and a certificate are told apart."""

    def wrapped(cause: Exception) -> Exception:
        error = httpcore.ConnectError("x")
        error.__cause__ = httpcore.NetworkError("y")
        error.__cause__.__context__ = cause
        return error

    assert "cannot resolve host name" in str(ours(wrapped(socket.gaierror(-2, "Name or service not known"))))
    alert = ssl.SSLError(1, "x")
    alert.reason = "TLSV1_ALERT_PROTOCOL_VERSION"
    assert "TLS: tlsv1 alert protocol version" in str(ours(wrapped(alert)))
    untrusted = ssl.SSLCertVerificationError(1, "x")
    untrusted.verify_message = "self-signed certificate"
    mapped = ours(wrapped(untrusted))
    assert "self-signed certificate" in str(mapped)
    assert not mapped.retryable


@pytest.mark.parametrize(
    "url",
    [
        f"http://user:{SECRET}@localhost:{{port}}/f",
        f"http://localhost:{{port}}/t/{SECRET}/f",
        f"http://localhost:{{port}}/f?token={SECRET}",
        f"http://user:{SECRET}@localhost:99999/f",
        f"http://user:{SECRET}@[localhost/f",
        f"ftp://user:{SECRET}@localhost/f",
        f"file:///a%00b?token={SECRET}",
    ],
)
def test_no_error_and_no_repr_shows_a_secret(run, transport, caplog, url):
    """Messages, sources, representations, their causes' texts and the debug log are clean."""
    caplog.set_level("DEBUG")
    server = run(TinyServer(lambda conn, _: conn.close()))
    shared = transport()
    url = url.format(port=server.port)
    exchange = shared.exchange(ask(url))
    with pytest.raises(NetworkError) as caught:
        body_of(shared, url)
    shown = [repr(exchange), repr(shared), repr(shared.logins), caught.value.source, caught.value.hint, caplog.text]
    error: BaseException | None = caught.value
    while error is not None:
        shown.append(repr(error))
        error = error.__cause__
    assert SECRET not in "".join(shown)


def test_a_debug_log_of_everything_shows_no_secret(run, transport, caplog):
    """Not even where a redirect leads, nor the request's own login."""
    caplog.set_level("DEBUG")

    def signed(conn: socket.socket, request: Request) -> None:
        if "signature" in request.path:
            conn.sendall(answer(b"x"))
        else:
            conn.sendall(answer(b"", 302, Location=f"/f?signature={SECRET}"))

    server = run(TinyServer(signed))
    assert body_of(transport(), f"http://user:{SECRET}@localhost:{server.port}/t/{SECRET}/f") == b"x"
    assert SECRET not in caplog.text

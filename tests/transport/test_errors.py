"""Every foreign exception becomes one of ours, and none of ours shows a secret."""

from __future__ import annotations

import inspect
import socket
import ssl
from types import ModuleType

import httpcore
import httpx
import pytest

from resume_dl.errors import NetworkError, SourceError, StalledError
from resume_dl.model.network import NetworkSettings
from resume_dl.transport.abortable_stream import AbortableBackend
from resume_dl.transport.failures import FOREIGN, to_ours
from resume_dl.transport.pooled_transport import TRANSLATIONS, PooledTransport, translated
from transport.asking import ask, body_of
from transport.tiny import Request, TinyServer, answer

SECRET = "hush-hush"


def exceptions_of(library: ModuleType) -> list[type[Exception]]:
    """Public ones."""
    found = (one for _, one in inspect.getmembers(library, inspect.isclass) if issubclass(one, Exception))
    return sorted(found, key=lambda one: one.__name__)


HTTPX_ERRORS = exceptions_of(httpx)
HTTPCORE_ERRORS = exceptions_of(httpcore)


def example(kind: type[Exception]) -> Exception:
    request = httpx.Request("GET", "http://h/f")
    if kind is httpx.HTTPStatusError:
        return kind(SECRET, request=request, response=httpx.Response(500, request=request))
    if kind in {httpx.StreamConsumed, httpx.ResponseNotRead, httpx.RequestNotRead, httpx.StreamClosed}:
        return kind()
    return kind(SECRET)


def ours(error: Exception, proxy: str = "") -> SourceError:
    return to_ours(error, host="h", source="http://h/f", network=NetworkSettings(), proxy=proxy)


def test_the_libraries_have_the_classes_that_we_think_they_have():
    """The walks below are not empty."""
    assert len(HTTPX_ERRORS) > 20
    assert len(HTTPCORE_ERRORS) >= 15


@pytest.mark.parametrize("kind", HTTPCORE_ERRORS)
def test_each_exception_of_httpcore_becomes_one_of_httpx(kind):
    """The one of the same name; its text stays, as messages are chosen by it, and it stays the cause."""
    with pytest.raises(httpx.TransportError, match=SECRET) as caught, translated():
        raise kind(SECRET)
    assert type(caught.value) is TRANSLATIONS[kind]
    assert type(caught.value).__name__ in {kind.__name__, "TransportError"}
    assert isinstance(caught.value.__cause__, kind)
    assert {base.__name__ for base in kind.__mro__ if base in HTTPCORE_ERRORS} <= {
        base.__name__ for base in type(caught.value).__mro__
    } | {"ConnectionNotAvailable"}


@pytest.mark.parametrize("kind", [OSError, ValueError, UnicodeError])
@pytest.mark.parametrize("proxied", [False, True])
def test_errors_of_the_system_pass_the_transport(kind, proxied):
    with pytest.raises(kind) as caught, translated(proxied=proxied):
        raise kind(SECRET)
    assert type(caught.value) is kind


def test_what_a_parser_of_socks_raises_is_the_proxys_failure():
    """Its answers are parsed with assertions and indices; without a proxy such an error is a bug, and stays one."""
    with pytest.raises(httpx.ProxyError, match="cannot be read"), translated(proxied=True):
        raise IndexError(SECRET)
    with pytest.raises(IndexError), translated():
        raise IndexError(SECRET)


def test_the_transport_is_one_that_httpx_takes(run):
    """By httpx's own client: GET and POST, the announced length, a whole and an empty body."""

    def served(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(b"x" * 100_000 if request.line.startswith("GET ") else b""))

    server = run(TinyServer(served))
    transport = PooledTransport(httpcore.ConnectionPool(network_backend=AbortableBackend(10)))
    with httpx.Client(transport=transport) as client:
        for _ in range(2):
            got = client.get(f"{server.base}/f")
            assert got.content == b"x" * 100_000
            assert got.headers["content-length"] == "100000"
            assert client.post(f"{server.base}/f").content == b""
        with pytest.raises(httpx.ConnectError):
            client.get("http://127.0.0.1:1/")


@pytest.mark.parametrize("proxy", ["", "http://proxy:1"])
@pytest.mark.parametrize("kind", HTTPX_ERRORS)
def test_each_exception_of_httpx_is_mapped(kind, proxy):
    """It is caught where requests are sent, becomes a SourceError, and its own text is not shown."""
    assert issubclass(kind, FOREIGN)
    mapped = ours(example(kind), proxy)
    assert isinstance(mapped, SourceError)
    assert mapped.source == "http://h/f"
    assert mapped.message.startswith("h: ")
    assert SECRET not in repr(mapped) + mapped.message + mapped.hint


@pytest.mark.parametrize(
    ("error", "kind", "retryable", "reached"),
    [
        (httpx.ConnectTimeout("x"), NetworkError, True, False),
        (httpx.ConnectError("x"), NetworkError, True, False),
        (httpx.ReadError("x"), NetworkError, True, True),
        (httpx.RemoteProtocolError("x"), NetworkError, True, True),
        (httpx.LocalProtocolError("x"), NetworkError, False, True),
        (httpx.InvalidURL("x"), NetworkError, False, True),
        (httpx.UnsupportedProtocol("x"), NetworkError, False, True),
        (ConnectionResetError(104, "reset"), NetworkError, True, True),
        (UnicodeEncodeError("ascii", "é", 0, 1, "x"), NetworkError, False, True),
    ],
)
def test_transient_errors_are_retryable(error, kind, retryable, reached):
    """And only what never made a connection counts as not reached."""
    mapped = ours(error)
    assert type(mapped) is kind
    assert (mapped.retryable, mapped.reached) == (retryable, reached)


@pytest.mark.parametrize("kind", [httpx.ReadTimeout, httpx.WriteTimeout, httpx.PoolTimeout])
def test_waiting_too_long_is_a_stall(kind):
    """Time-outs after the connect are StalledErrors."""
    assert type(ours(kind("x"))) is StalledError


def test_the_systems_own_reason_is_found_below_the_wrappers():
    """A name that DNS does not know, a TLS alert and a certificate are told apart."""

    def wrapped(cause: Exception) -> Exception:
        error = httpx.ConnectError("x")
        error.__cause__ = httpx.NetworkError("y")
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

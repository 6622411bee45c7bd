"""A thread that waits for bytes is woken from another one, and what it was handed is the file's or nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable

import pytest

from resume_dl.errors import NetworkError, SourceError
from resume_dl.ports import Exchange
from transport.asking import ask, body_of
from transport.tiny import Request, SilentListener, TinyHttpProxy, TinyServer, TinySocks, answer

pytestmark = pytest.mark.usefixtures("either_system")

PATTERN = bytes(range(251)) * 4177  # a prime period: an offset that slips shows
LONG = 600.0  # a time-out that would fail the join below if nothing woke the thread


class Reader(threading.Thread):
    """Opens and reads in its own thread, and remembers what it saw."""

    def __init__(self, exchange: Exchange, enough: int = len(PATTERN)) -> None:
        super().__init__(daemon=True)
        self.exchange = exchange
        self._enough = enough
        self.got = bytearray()
        self.full = threading.Event()
        """Set once ``enough`` bytes came: with all that was sent, the thread waits in a read from then on."""
        self.error: Exception | None = None
        self.ended = False

    def run(self) -> None:
        try:
            response = self.exchange.open()
            for chunk in response.chunks():
                self.got += chunk
                if len(self.got) >= self._enough:
                    self.full.set()
            response.close()
            self.ended = True
        except SourceError as error:
            self.error = error

    def wake(self) -> None:
        time.sleep(0.05)  # let it get from what the test saw to the read itself
        self.exchange.abort()
        self.join(timeout=60)
        assert not self.is_alive(), "abort did not wake the reader"


def trickle(conn: socket.socket, request: Request) -> None:
    """Announce much, send some, then keep the connection open without a word."""
    conn.sendall(answer(PATTERN, length=1 << 40))


@pytest.fixture(params=["plain", "tls"])
def secure(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "tls")


@pytest.fixture
def patient(transport, tls) -> Callable[..., object]:
    """A transport whose time-outs are far away."""
    return lambda **more: transport(verify=tls.ca_file, first_byte_timeout=LONG, read_timeout=LONG, **more)


def test_abort_wakes_a_reader_in_the_body_without_a_foreign_byte(run, patient, tls, secure):
    """The reader ends silently; every byte that it was handed is the body's, in order."""
    server = run(TinyServer(trickle, tls.server if secure else None))
    reader = Reader(patient().exchange(ask(f"{server.base}/f")))
    reader.start()
    assert reader.full.wait(5)
    reader.wake()
    assert reader.ended
    assert reader.got == PATTERN


def test_abort_during_a_fast_body_yields_no_foreign_byte(run, patient, tls, secure):
    """Also where data keeps coming while the socket is shut down, twenty times over."""

    def flood(conn: socket.socket, request: Request) -> None:
        conn.sendall(answer(b"", length=1 << 40))
        while True:
            conn.sendall(PATTERN)

    server = run(TinyServer(flood, tls.server if secure else None))
    shared = patient()
    for _ in range(20):
        reader = Reader(shared.exchange(ask(f"{server.base}/f")), enough=1)
        reader.start()
        assert reader.full.wait(5)
        reader.wake()
        assert reader.ended
        repeated = PATTERN * (len(reader.got) // len(PATTERN) + 1)
        assert repeated.startswith(reader.got)


def test_abort_wakes_a_reader_before_the_head(run, patient, tls, secure):
    """A server that never answers holds nobody."""
    asked = threading.Event()
    server = run(TinyServer(lambda conn, _: asked.set(), tls.server if secure else None))
    reader = Reader(patient().exchange(ask(f"{server.base}/f")))
    reader.start()
    assert asked.wait(5)
    reader.wake()
    assert isinstance(reader.error, NetworkError)


def test_abort_wakes_a_reader_before_the_head_on_a_kept_alive_connection(run, patient, tls, secure):
    """The connection was opened for another exchange; the one that waits on it now can be woken all the same."""
    asked = threading.Event()

    def once(conn: socket.socket, request: Request) -> None:
        if request.path == "/first":
            conn.sendall(answer(b"x"))
        else:
            asked.set()

    server = run(TinyServer(once, tls.server if secure else None))
    shared = patient()
    body_of(shared, f"{server.base}/first")
    reader = Reader(shared.exchange(ask(f"{server.base}/second")))
    reader.start()
    assert asked.wait(5)
    assert server.connections == 1
    reader.wake()
    assert isinstance(reader.error, NetworkError)
    assert len(server.requests) == 2, "a stopped request is not sent again"


def test_abort_wakes_a_tls_handshake(run, patient):
    """A server that accepts and says nothing is left in the middle of the handshake."""
    silent = run(SilentListener())
    reader = Reader(patient(connect_timeout=LONG).exchange(ask(f"https://localhost:{silent.port}/f")))
    reader.start()
    assert silent.heard.wait(5)
    reader.wake()
    assert isinstance(reader.error, NetworkError)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_abort_wakes_a_wait_for_a_silent_proxy(run, patient, scheme):
    """Also in a proxy's own handshake."""
    silent = run(SilentListener())
    shared = patient(connect_timeout=LONG, proxies={"all": f"{scheme}://localhost:{silent.port}"})
    reader = Reader(shared.exchange(ask("https://example.invalid/f")))
    reader.start()
    assert silent.heard.wait(5)
    reader.wake()
    assert isinstance(reader.error, NetworkError)


@pytest.fixture(params=["http", "https", "socks5"])
def proxy(request: pytest.FixtureRequest, run, tls) -> str:
    made = {
        "http": TinyHttpProxy,
        "https": lambda: TinyHttpProxy(tls=tls.server),
        "socks5": TinySocks,
    }[request.param]()
    return f"{request.param}://localhost:{run(made).port}"


def test_abort_wakes_a_reader_behind_a_proxy(run, patient, tls, proxy):
    """TLS through each kind of proxy (through an https one it is TLS in TLS)."""
    server = run(TinyServer(trickle, tls.server))
    reader = Reader(patient(proxies={"all": proxy}).exchange(ask(f"{server.base}/f")))
    reader.start()
    assert reader.full.wait(5)
    reader.wake()
    assert reader.ended
    assert reader.got == PATTERN


def test_abort_before_open_sends_nothing(run, patient):
    """An exchange that is stopped before it began does not begin."""
    server = run(TinyServer(trickle))
    exchange = patient().exchange(ask(f"{server.base}/f"))
    exchange.abort()
    exchange.abort()
    with pytest.raises(NetworkError, match="stopped"):
        exchange.open()
    assert server.connections == 0


def test_closing_the_transport_wakes_all_readers(run, patient):
    """At the end of a run no reader is left, whatever its server does."""
    server = run(TinyServer(trickle))
    shared = patient()
    readers = [Reader(shared.exchange(ask(f"{server.base}/f"))) for _ in range(4)]
    for reader in readers:
        reader.start()
    for reader in readers:
        assert reader.full.wait(5)
    shared.close()
    for reader in readers:
        reader.join(timeout=60)
    assert [reader.is_alive() for reader in readers] == [False] * 4

"""The smallest servers that do what a test says, byte by byte: raw HTTP, an HTTP proxy, a SOCKS5 proxy."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import trustme


class Request(NamedTuple):
    """One request as it came; header names in lower case."""

    line: str
    headers: dict[str, str]
    connection: int

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]


Handler = Callable[[socket.socket, Request], None]


class TinyServer:
    """Threads on a loopback port; ``handler`` answers each request on the bare (or TLS) connection.

    The connection stays open for further requests until the handler closes it or the client does.
    """

    def __init__(self, handler: Handler, tls: ssl.SSLContext | None = None) -> None:
        self._handler = handler
        self._tls = tls
        self.requests: list[Request] = []
        self.connections = 0
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    @property
    def base(self) -> str:
        return f"{'https' if self._tls else 'http'}://localhost:{self.port}"

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for conn in self._open:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(conn, socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(timeout=60)

    def _accept(self) -> None:
        while True:
            try:
                conn, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(conn)
            thread = threading.Thread(target=self._talk, args=(conn, self.connections), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _talk(self, raw: socket.socket, number: int) -> None:
        conn = raw
        with contextlib.suppress(OSError, ssl.SSLError), contextlib.ExitStack() as stack:
            stack.callback(raw.close)
            if self._tls is not None:
                conn = stack.enter_context(self._tls.wrap_socket(raw, server_side=True))
                self._open.append(conn)
            self.serve(conn, number)

    def serve(self, conn: socket.socket, number: int) -> None:
        while (request := read_request(conn, number)) is not None:
            self.requests.append(request)
            self._handler(conn, request)


def read_request(conn: socket.socket, number: int = 1) -> Request | None:
    """The next request without a body, or None when the client is gone."""
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        byte = conn.recv(1)
        if not byte:
            return None
        data += byte
    line, *rest = data.decode("latin-1").strip().split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in rest)}
    return Request(line, headers, number)


def answer(body: bytes, status: int = 200, length: int | None = None, **headers: str) -> bytes:
    """A whole answer; ``length`` lies about the body's."""
    lines = [f"HTTP/1.1 {status} x", f"Content-Length: {len(body) if length is None else length}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


class SilentListener:
    """Accepts connections and says nothing; ``accepted`` is set at the first."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heard = threading.Event()
        self._conn: socket.socket | None = None
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            self._conn, _ = self._listener.accept()
            if self._conn.recv(1):
                self.heard.set()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(timeout=60)
        if self._conn is not None:
            self._conn.close()


def pump(one: socket.socket, other: socket.socket) -> None:
    """Copy both ways until either side ends."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for sock in (source, target):
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    back = threading.Thread(target=copy, args=(other, one), daemon=True)
    back.start()
    copy(one, other)
    back.join(timeout=60)
    other.close()


class TinyHttpProxy(TinyServer):
    """CONNECT tunnels and forwarded plain requests; ``login`` is the Basic value that it asks for."""

    def __init__(self, login: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._login = login
        super().__init__(self._pass_on, tls)

    def _pass_on(self, conn: socket.socket, request: Request) -> None:
        if self._login is not None and request.headers.get("proxy-authorization") != self._login:
            conn.sendall(answer(b"", 407))
            return
        self.pass_on(conn, request)
        conn.close()

    def pass_on(self, conn: socket.socket, request: Request) -> None:
        """To the server, and its answer back; a tunnel until either side ends it."""
        method, target, _ = request.line.split(" ")
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            upstream = socket.create_connection((host, int(port)))
            conn.sendall(b"HTTP/1.1 200 ok\r\n\r\n")
            pump(conn, upstream)
            return
        host_port, _, path = target.removeprefix("http://").partition("/")
        host, _, port = host_port.partition(":")
        with socket.create_connection((host, int(port))) as upstream:
            lines = [f"GET /{path} HTTP/1.1", *(f"{k}: {v}" for k, v in request.headers.items()), "connection: close"]
            upstream.sendall("\r\n".join([*lines, "", ""]).encode())
            upstream.shutdown(socket.SHUT_WR)
            while data := upstream.recv(65536):
                conn.sendall(data)


class TinySocks(TinyServer):
    """SOCKS5 (RFC 1928), with a user name and password (RFC 1929) where ``login`` is given."""

    def __init__(self, login: tuple[bytes, bytes] | None = None) -> None:
        self._login = login
        self.asked: list[tuple[bytes, int]] = []
        super().__init__(lambda conn, request: None)

    def serve(self, conn: socket.socket, number: int) -> None:
        stream = conn.makefile("rb")
        _, count = stream.read(2)
        methods = stream.read(count)
        wanted = 0 if self._login is None else 2
        if wanted not in methods:
            conn.sendall(b"\x05\xff")
            return
        conn.sendall(bytes([5, wanted]))
        if self._login is not None:
            stream.read(1)
            given = tuple(stream.read(stream.read(1)[0]) for _ in range(2))
            conn.sendall(b"\x01" + (b"\x00" if given == self._login else b"\x01"))
            if given != self._login:
                return
        _, _, _, kind = stream.read(4)
        assert kind == 3, "the proxy resolves names"
        host = stream.read(stream.read(1)[0])
        port = int.from_bytes(stream.read(2), "big")
        self.asked.append((host, port))
        upstream = socket.create_connection((host.decode(), port))
        conn.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        pump(conn, upstream)


class Authority(NamedTuple):
    """A CA of our own, its file, and a server's side for localhost."""

    ca_file: Path
    server: ssl.SSLContext
    ca: trustme.CA


@contextlib.contextmanager
def authority(folder: Path) -> Iterator[Authority]:
    ca = trustme.CA()
    ca_file = folder / "ca.pem"
    ca.cert_pem.write_to_path(str(ca_file))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", "127.0.0.1").configure_cert(server)
    yield Authority(ca_file, server, ca)

"""pip's settings of the network, from its variables to a real index behind TLS, a login or a proxy."""

from __future__ import annotations

import base64
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from support.fetching import User
from support.pip_index import BuiltFile, build_wheel, write_index
from transport.tiny import Authority, Request, TinyHttpProxy, TinyServer, TinySocks, answer, authority

LOGIN = "Basic " + base64.b64encode(b"me:hush").decode()


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authority]:
    with authority(tmp_path_factory.mktemp("tls")) as made:
        yield made


@pytest.fixture
def wheel(tmp_path: Path) -> BuiltFile:
    made = build_wheel(tmp_path / "built", "demo", "1.0")
    write_index(tmp_path / "root", [made])
    return made


@pytest.fixture
def serve(tmp_path: Path, wheel: BuiltFile) -> Iterator[Callable[..., Any]]:
    """An index that serves ``wheel``, by TLS or not, to whoever has the login; or another server."""
    with ExitStack() as stack:

        def start(tls: ssl.SSLContext | None = None, *, login: str | None = None, other: Any = None) -> Any:
            def handle(conn: socket.socket, request: Request) -> None:
                place = tmp_path / "root" / request.path.lstrip("/")
                place = place / "index.html" if place.is_dir() else place
                if login is not None and request.headers.get("authorization") != login:
                    conn.sendall(answer(b"", 401))
                elif place.is_file():
                    kind = "text/html" if place.suffix == ".html" else "application/octet-stream"
                    conn.sendall(answer(place.read_bytes(), Content_Type=kind))
                else:
                    conn.sendall(answer(b"", 404))

            server = other or TinyServer(handle, tls)
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Nobody but the servers of the test can be reached, and nothing else has a say in how."""
    return User(tmp_path / "user")


def base_of(server: TinyServer) -> str:
    return server.base.replace("localhost", "127.0.0.1")


def gets(user: User, index: str, wheel: BuiltFile, **env: str) -> bool:
    """Whether ``fetch --pip`` with these variables brings the wheel; no password is told in either case."""
    place = user.folder / f"wheels-{len([*user.folder.glob('wheels-*')])}"
    place.mkdir()
    table = user.write_mirrors({})
    call = ("fetch", "--pip", "demo", "--index-url", index, "--mirrors", table, "--wheel-dir", place)
    done = user.run(*call, "--give-up-after", "2s", "--verbose", env=env)
    assert done.code in {0, 6}, done.err
    assert "hush" not in done.out + done.err
    assert done.code or (place / wheel.filename).read_bytes() == wheel.path.read_bytes()
    return done.code == 0


def test_cert(user, serve, tls, wheel) -> None:
    """An authority of one's own."""
    index = f"{base_of(serve(tls.server))}/simple"
    assert not gets(user, index, wheel)
    assert gets(user, index, wheel, PIP_CERT=str(tls.ca_file))


def test_trusted_host(user, serve, tls, wheel) -> None:
    """One host, by its name and port."""
    server = serve(tls.server)
    assert not gets(user, f"{base_of(server)}/simple", wheel, PIP_TRUSTED_HOST="127.0.0.1:1 other.example")
    assert gets(user, f"{base_of(server)}/simple", wheel, PIP_TRUSTED_HOST=f"other.example 127.0.0.1:{server.port}")


def test_client_cert(user, serve, tls, wheel, tmp_path) -> None:
    """A server that demands one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.ca.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    tls.ca.configure_trust(context)
    index = f"{base_of(serve(context))}/simple"
    mine = tmp_path / "me.pem"
    tls.ca.issue_cert("me@h.example").private_key_and_cert_chain_pem.write_to_path(str(mine))
    assert not gets(user, index, wheel, PIP_CERT=str(tls.ca_file))
    assert gets(user, index, wheel, PIP_CERT=str(tls.ca_file), PIP_CLIENT_CERT=str(mine))


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_proxy(user, serve, wheel, scheme: str) -> None:
    """For every host, whatever NO_PROXY says; with its login."""
    proxy = serve(other=TinyHttpProxy(LOGIN) if scheme == "http" else TinySocks((b"me", b"hush")))
    server = serve()
    address = f"{scheme}://me:hush@localhost:{proxy.port}"
    assert gets(user, f"{server.base}/simple", wheel, PIP_PROXY=address, NO_PROXY="localhost")
    assert proxy.connections
    assert not gets(user, f"{server.base}/simple", wheel, PIP_PROXY=address.replace("hush", "hushed"))


def test_a_login_in_the_address_or_in_netrc(user, serve, wheel) -> None:
    """The index's own; without one it is not to be had."""
    server = serve(login=LOGIN)
    assert gets(user, f"{base_of(server).replace('//', '//me:hush@')}/simple", wheel)
    assert not gets(user, f"{base_of(server)}/simple", wheel)
    netrc = user.home / ".netrc"
    netrc.write_text("machine 127.0.0.1 login me password hush\n", encoding="utf-8")
    netrc.chmod(0o600)
    assert gets(user, f"{base_of(server)}/simple", wheel)

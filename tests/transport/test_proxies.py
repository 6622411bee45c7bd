"""Real proxies in the way: HTTP, HTTPS and SOCKS5, with logins, and hosts that go around them."""

from __future__ import annotations

import base64
import socket

import pytest

from resume_dl.errors import ConfigurationError, NetworkError
from transport.asking import ask, body_of
from transport.tiny import TinyHttpProxy, TinyServer, TinySocks, answer

pytestmark = pytest.mark.usefixtures("either_system")

LOGIN = "Basic " + base64.b64encode(b"me:hush").decode()


@pytest.fixture
def file(run) -> TinyServer:
    return run(TinyServer(lambda conn, _: conn.sendall(answer(b"the file"))))


@pytest.fixture
def safe_file(run, tls) -> TinyServer:
    return run(TinyServer(lambda conn, _: conn.sendall(answer(b"the file")), tls.server))


def test_plain_http_is_forwarded(run, transport, file):
    """The proxy sees the whole address."""
    proxy = run(TinyHttpProxy(LOGIN))
    shared = transport(proxies={"http": f"http://me:hush@localhost:{proxy.port}"})
    assert body_of(shared, f"{file.base}/f") == b"the file"
    assert proxy.requests[0].line == f"GET {file.base}/f HTTP/1.1"


def test_https_goes_through_a_tunnel(run, transport, tls, safe_file):
    """The proxy sees host and port, and the connection inside is kept alive."""
    proxy = run(TinyHttpProxy(LOGIN))
    shared = transport(verify=tls.ca_file, proxies={"https": f"me:hush@localhost:{proxy.port}"})
    assert [body_of(shared, f"{safe_file.base}/f") for _ in range(2)] == [b"the file"] * 2
    assert [request.line for request in proxy.requests] == [f"CONNECT localhost:{safe_file.port} HTTP/1.1"]
    assert "authorization" not in safe_file.requests[0].headers


def test_a_proxy_that_speaks_tls_itself(run, transport, tls, safe_file):
    """TLS to the proxy, trusted by the same settings, and TLS inside of it."""
    proxy = run(TinyHttpProxy(tls=tls.server))
    shared = transport(verify=tls.ca_file, proxies={"all": f"https://localhost:{proxy.port}"})
    assert body_of(shared, f"{safe_file.base}/f") == b"the file"
    assert proxy.connections == 1


def test_skipping_verification_of_a_host_does_not_skip_its_proxys(run, transport, tls, safe_file):
    """The proxy's own certificate is checked as ever."""
    proxy = run(TinyHttpProxy(tls=tls.server))
    shared = transport(trusted_hosts=("localhost",), proxies={"all": f"https://127.0.0.1:{proxy.port}"})
    with pytest.raises(NetworkError, match="not trusted"):
        body_of(shared, f"{safe_file.base}/f")
    assert not safe_file.requests


@pytest.mark.parametrize("scheme", ["socks5", "socks5h"])
@pytest.mark.parametrize("login", [None, (b"me", b"hush")])
def test_socks5(run, transport, tls, safe_file, file, scheme, login):
    """Plain and TLS, with and without a login; the proxy resolves the name."""
    proxy = run(TinySocks(login))
    userinfo = "" if login is None else "me:hush@"
    shared = transport(verify=tls.ca_file, proxies={"all": f"{scheme}://{userinfo}localhost:{proxy.port}"})
    assert body_of(shared, f"{file.base}/f") == b"the file"
    assert body_of(shared, f"{safe_file.base}/f") == b"the file"
    assert proxy.asked == [(b"localhost", file.port), (b"localhost", safe_file.port)]


def test_hosts_in_no_proxy_are_reached_directly(run, transport, file):
    """The choice is made anew for the target of a redirect."""
    proxy = run(TinyHttpProxy())
    around = file.base.replace("localhost", "127.0.0.1")
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"", 302, Location=f"{around}/f"))))
    shared = transport(proxies={"all": f"http://localhost:{proxy.port}"}, no_proxy=("127.0.0.0/8",))
    assert body_of(shared, f"{server.base}/f") == b"the file"
    assert [request.line.split()[1] for request in proxy.requests] == [f"{server.base}/f"]


@pytest.mark.parametrize("scheme", ["http", "socks5"])
def test_a_wrong_login_names_the_proxy_without_it(run, transport, safe_file, scheme):
    """The message shows which proxy refused, never with what login."""
    proxy = run(TinyHttpProxy(LOGIN) if scheme == "http" else TinySocks((b"me", b"hush")))
    shared = transport(proxies={"all": f"{scheme}://me:secret@localhost:{proxy.port}"})
    with pytest.raises(NetworkError, match=f"proxy {scheme}://.*localhost:{proxy.port}") as caught:
        body_of(shared, f"{safe_file.base}/f")
    assert "secret" not in repr(caught.value) + caught.value.hint
    assert not caught.value.reached


@pytest.mark.parametrize("garbage", [b"", b"\x05", b"HTTP/1.1 400 x\r\n\r\n", b"\x05\x00garbage"])
def test_a_server_that_is_not_a_socks_proxy_is_an_error(run, transport, garbage):
    """Whatever answers there, it is an error of ours and no connection stays open."""

    class Odd(TinyServer):
        def serve(self, conn: socket.socket, number: int) -> None:
            conn.recv(100)
            conn.sendall(garbage)

    odd = run(Odd(lambda conn, _: None))
    with pytest.raises(NetworkError, match="proxy"):
        body_of(transport(proxies={"all": f"socks5://localhost:{odd.port}"}), "http://example.invalid/f")


def test_an_unreachable_proxy_is_an_error(transport):
    """The message says that it is the proxy which cannot be reached."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    shared = transport(proxies={"all": f"http://me:secret@127.0.0.1:{port}"})
    with pytest.raises(NetworkError, match=f"through the proxy .*127.0.0.1:{port}") as caught:
        shared.exchange(ask("http://example.invalid/f")).open()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("proxy", ["socks4://me:secret@h:1", "http://me:secret@h:port", "http://me:secret@[h"])
def test_a_proxy_that_cannot_be_used_is_a_configuration_error(transport, proxy):
    """Exit code 2, and no password shown."""
    with pytest.raises(ConfigurationError) as caught:
        body_of(transport(proxies={"all": proxy}), "http://example.invalid/f")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None

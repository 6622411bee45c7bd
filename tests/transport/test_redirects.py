"""Redirects are followed by hand: who is asked next, and with which headers."""

from __future__ import annotations

import socket

import pytest

from resume_dl.errors import NetworkError
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.redirects import RedirectRefusedError, headers_for, target_of
from transport.asking import ask, body_of
from transport.tiny import Request, TinyServer, answer


def redirect_to(location: str, status: int = 302):
    return lambda conn, request: conn.sendall(answer(b"gone there", status, Location=location))


def give(conn: socket.socket, request: Request) -> None:
    conn.sendall(answer(b"the file"))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_followed_and_the_final_host_is_named(run, transport, status):
    """The range goes along, and the head's final host is the other one."""
    file = run(TinyServer(give))
    server = run(TinyServer(redirect_to(f"{file.base}/there", status)))
    response = transport().exchange(ask(f"{server.base}/f", start=3, end=9, if_range='"v"')).open()
    assert b"".join(response.chunks()) == b"the file"
    assert response.head.final_host == f"localhost:{file.port}"
    assert (file.requests[0].headers["range"], file.requests[0].headers["if-range"]) == ("bytes=3-8", '"v"')
    assert file.requests[0].path == "/there"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://CDN.example:443/a", "https://u:p@cdn.example/b", True),
        ("http://cdn.example:80/a", "http://cdn.example/b", True),
        ("http://[::1]:80/a", "http://[::1]/b", True),
        ("http://cdn.example:443/a", "http://cdn.example/b", False),
        ("https://cdn.example:8443/a", "https://cdn.example:443/b", False),
    ],
)
def test_a_host_has_one_name_however_its_port_is_written(one, other, same):
    """Final hosts are compared with the hosts of sources: the scheme's own port makes no other host."""
    assert (RedactedUrl(one).host == RedactedUrl(other).host) is same


def test_headers_and_login_are_not_sent_to_another_origin(run, transport):
    """Another port is another origin: no Authorization, no token header, no condition of the caller's goes there."""
    file = run(TinyServer(give))
    server = run(TinyServer(redirect_to(f"{file.base}/there")))
    url = server.base.replace("://", "://user:secret@") + "/f"
    headers = {"X-Token": "secret", "Authorization": "Bearer secret", "If-None-Match": '"x"'}
    body_of(transport(), url, headers=headers)
    body_of(transport(), url)
    assert server.requests[0].headers["authorization"] == "Bearer secret"
    assert server.requests[1].headers["authorization"] == "Basic dXNlcjpzZWNyZXQ="
    for request in file.requests:
        assert set(request.headers) == {"host", "user-agent", "accept", "accept-encoding"}


@pytest.mark.parametrize("absolute", [False, True])
def test_headers_and_login_are_sent_again_to_the_same_origin(run, transport, absolute):
    """A redirect there keeps everything, however it is written, and uses the connection again."""

    def step(conn: socket.socket, request: Request) -> None:
        (redirect_to(f"{server.base}/a/{there}" if absolute else there) if request.path == "/a/f" else give)(
            conn, request
        )

    there = "there?x=1"
    server = run(TinyServer(step))
    url = server.base.replace("://", "://user:secret@") + "/a/f"
    assert body_of(transport(), url, headers={"X-Token": "t"}) == b"the file"
    first, second = server.requests
    assert second.path == "/a/there?x=1"
    assert second.headers == first.headers
    assert server.connections == 1


def test_another_login_on_the_same_origin_is_used(run, transport):
    """The redirect's own address says it; the first one's stays behind."""

    def step(conn: socket.socket, request: Request) -> None:
        location = server.base.replace("://", "://a:b@") + "/there"
        (redirect_to(location) if request.path == "/f" else give)(conn, request)

    server = run(TinyServer(step))
    body_of(transport(), server.base.replace("://", "://user:secret@") + "/f")
    assert [request.headers["authorization"] for request in server.requests] == ["Basic dXNlcjpzZWNyZXQ=", "Basic YTpi"]


def test_a_login_in_the_redirects_own_address_is_used(run, transport):
    """Signed addresses of that kind exist; the login is for that host alone."""
    file = run(TinyServer(give))
    location = file.base.replace("://", "://a:b@") + "/there"
    server = run(TinyServer(redirect_to(location)))
    body_of(transport(), f"{server.base}/f")
    assert file.requests[0].headers["authorization"] == "Basic YTpi"


def refused(run, transport, handler) -> NetworkError:
    server = run(TinyServer(handler))
    with pytest.raises(NetworkError) as caught:
        body_of(transport(), f"{server.base}/f")
    assert not caught.value.retryable
    assert caught.value.hint
    return caught.value


def test_a_redirect_loop_is_refused(run, transport):
    """The same address twice ends the chase at once."""
    assert "loop" in str(refused(run, transport, redirect_to("/f")))


def test_ten_redirects_are_followed_and_not_an_eleventh(run, transport):
    """A chain of ever new addresses ends after ten."""

    def on(conn: socket.socket, request: Request) -> None:
        number = int(request.path[2:] or 0)
        (give if number == 10 and "stop" in request.headers else redirect_to(f"/f{number + 1}"))(conn, request)

    server = run(TinyServer(on))
    assert body_of(transport(), f"{server.base}/f", headers={"stop": "1"}) == b"the file"
    with pytest.raises(NetworkError, match="more than 10 times"):
        body_of(transport(), f"{server.base}/f")


def test_from_https_to_http_is_refused(run, transport, tls):
    """Nobody is led out of TLS; the plain server is not even asked."""
    plain = run(TinyServer(give))
    server = run(TinyServer(redirect_to(f"{plain.base}/f"), tls.server))
    with pytest.raises(NetworkError, match="from https to plain http"):
        body_of(transport(verify=tls.ca_file), f"{server.base}/f")
    assert plain.connections == 0


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://h/f", "javascript:1", "http://[bad/", "http:///f"])
def test_other_schemes_and_broken_addresses_are_refused(run, transport, location):
    """A server cannot make us read a local file."""
    assert "it redirects " in str(refused(run, transport, redirect_to(location)))


@pytest.mark.parametrize("status", [300, 304, 305])
def test_other_3xx_are_answers(run, transport, status):
    """What is not a redirect to follow is for the core to judge."""
    server = run(TinyServer(redirect_to("/there", status)))
    assert transport().exchange(ask(f"{server.base}/f")).open().head.status == status


def test_a_redirect_without_a_location_is_an_answer(run, transport):
    """It is handed out with its status."""
    server = run(TinyServer(lambda conn, _: conn.sendall(answer(b"", 302))))
    assert transport().exchange(ask(f"{server.base}/f")).open().head.status == 302


def test_a_redirects_long_body_is_not_read(run, transport):
    """A body beyond 64 KiB costs a new connection rather than its bytes."""

    def step(conn: socket.socket, request: Request) -> None:
        if request.path == "/f":
            conn.sendall(answer(b"x" * 100_000, 302, length=1 << 30, Location="/there"))
        else:
            give(conn, request)

    server = run(TinyServer(step))
    assert body_of(transport(), f"{server.base}/f") == b"the file"
    assert server.connections == 2


def test_targets_and_headers_are_pure_functions():
    """Upgrades to https are followed; ports made explicit are the same origin; messages hold no part of a URL."""
    assert target_of("http://h/a", "https://h/a#frag", {"http://h/a"}) == "https://h/a"
    headers = {"authorization": "x", "range": "bytes=0-"}
    assert headers_for("https://h:443/b", "https://H/a", headers) == headers
    assert headers_for("https://h/b", "http://h/a", headers) == {"range": "bytes=0-"}
    with pytest.raises(RedirectRefusedError) as caught:
        target_of("https://h/t/secret/a", "http://user:secret@h/t/secret/a", {"https://h/t/secret/a"})
    assert "secret" not in str(caught.value)


def test_the_schemes_own_port_is_the_same_origin():
    """Of both schemes, written or not; any other port is another origin."""
    headers = {"x-token": "t"}
    assert headers_for("http://h:80/b", "http://H/a", headers) == headers
    assert headers_for("https://h/b", "https://h:443/a", headers) == headers
    assert headers_for("http://h:443/b", "http://h/a", headers) == {}
    assert headers_for("https://h:80/b", "https://h/a", headers) == {}


@pytest.mark.parametrize(
    ("first", "second", "is_followed"),
    [
        ("http://mirror.example/f", "http://cdn.example/f", True),
        ("http://mirror.example/f", "http://10.0.0.2/f", False),
        ("http://10.0.0.1/f", "http://10.0.0.2/f", True),
    ],
)
def test_behind_a_proxy_only_host_names_decide_what_is_private(run, transport, first, second, is_followed):
    """The proxy itself is on this machine, and says nothing of where a redirect comes from or leads to."""

    def step(conn: socket.socket, request: Request) -> None:
        (redirect_to(second) if request.path == first else give)(conn, request)

    proxy = run(TinyServer(step))
    shared = transport(proxies={"all": f"http://localhost:{proxy.port}"})
    if is_followed:
        assert body_of(shared, first) == b"the file"
    else:
        with pytest.raises(NetworkError, match=r"mirror\.example: it redirects into a private network, to 10\.0\.0\.2"):
            body_of(shared, first)
    assert [request.path for request in proxy.requests] == [first, second][: 1 + is_followed]

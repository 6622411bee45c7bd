"""Logins by NTLM and Negotiate to real proxies, which compute their side: each connection, once, never in clear."""

from __future__ import annotations

import base64
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import httpcore
import pytest

if sys.platform == "win32":
    pytest.skip("there pyspnego uses Windows' own logins, which know no user of a test", allow_module_level=True)

from resume_dl import errors
from resume_dl.core.failures import FailureKind
from resume_dl.core.responses import check_head
from resume_dl.engine.worker import failure_of
from resume_dl.errors import ConfigurationError, NetworkError, StalledError
from resume_dl.model.http import ResponseHead
from resume_dl.model.proxy_auth import ProxyAuth, challenge_of, offered_schemes
from resume_dl.transport import proxy_login
from resume_dl.transport.proxy_connection import MAX_MESSAGES
from resume_dl.transport.proxy_login import ProxyLogin
from transport.asking import ask, body_of
from transport.login_proxy import LOGIN, LoginProxy, keep_users, wanted
from transport.test_abort import LONG, Reader
from transport.tiny import Request, SilentListener, TinyHttpProxy, TinyServer, answer

FILE = bytes(range(251)) * 2000
BOTH = [ProxyAuth.NTLM, ProxyAuth.NEGOTIATE]


@pytest.fixture(autouse=True)
def users(tmp_path, monkeypatch):
    keep_users(tmp_path, monkeypatch)
    monkeypatch.setattr(proxy_login, "TURN", LONG)  # a slow machine is no second attempt


@pytest.fixture
def file(run) -> TinyServer:
    return run(TinyServer(lambda conn, _: conn.sendall(answer(FILE))))


@pytest.fixture
def safe_file(run, tls) -> TinyServer:
    return run(TinyServer(lambda conn, _: conn.sendall(answer(FILE)), tls.server))


@pytest.fixture
def through(transport, tls):
    """A transport through a proxy, with a login."""

    def make(proxy, login=f"{LOGIN}@", auth=ProxyAuth.NTLM, scheme="http", **more):
        address = f"{scheme}://{login}localhost:{proxy.port}"
        more = {"connect_timeout": LONG, "first_byte_timeout": LONG, **more}
        return transport(verify=tls.ca_file, proxies={"all": address}, proxy_auth=auth, **more)

    return make


@pytest.mark.usefixtures("either_system")
@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("auth", BOTH)
def test_https_goes_through_a_tunnel(run, through, tls, safe_file, auth, scheme):
    """The login is on the connection that the tunnel is in; the next request in it has none."""
    proxy = run(LoginProxy(auth.scheme, tls=tls.server if scheme == "https" else None))
    shared = through(proxy, auth=auth, scheme=scheme)
    assert [body_of(shared, f"{safe_file.base}/f") for _ in range(2)] == [FILE] * 2
    assert {each.line for each in proxy.requests} == {f"CONNECT localhost:{safe_file.port} HTTP/1.1"}
    assert (proxy.connections, proxy.proofs, proxy.schemes) == (1, 1, {auth.scheme})
    assert "proxy-authorization" not in safe_file.requests[0].headers


@pytest.mark.usefixtures("either_system")
@pytest.mark.parametrize("auth", BOTH)
def test_plain_http_is_forwarded(run, through, file, auth):
    """The body of the answer to the last message is read past httpcore, as ever; later requests pass as they are."""
    proxy = run(LoginProxy(auth.scheme))
    shared = through(proxy, auth=auth)
    assert [body_of(shared, f"{file.base}/f") for _ in range(2)] == [FILE] * 2
    assert "proxy-authorization" not in proxy.requests[-1].headers
    assert (proxy.connections, proxy.proofs, proxy.schemes) == (1, 1, {auth.scheme})
    assert len(file.requests) == 2


def test_the_login_of_the_session_is_used_if_the_address_has_none(run, through, file):
    """Off Windows that is NTLM_USER_FILE or a Kerberos ticket."""
    proxy = run(LoginProxy())
    assert body_of(through(proxy, login=""), f"{file.base}/f") == FILE


@pytest.mark.parametrize("secure", [True, False])
@pytest.mark.parametrize("auth", BOTH)
def test_a_wrong_password_is_tried_once(run, through, file, safe_file, auth, secure):
    """Eight connections at once, and later ones: one proof reaches the proxy, so that no account is locked."""
    proxy = run(LoginProxy(auth.scheme))
    shared = through(proxy, login="DOMAIN%5Cme:wrong@", auth=auth)
    url = f"{(safe_file if secure else file).base}/f"

    def fails(_: int) -> None:
        with pytest.raises(ConfigurationError, match=f"refuses the login by {auth.scheme}") as caught:
            body_of(shared, url)
        assert "wrong" not in str(caught.value) + caught.value.hint
        assert "DOMAIN%5CUSER:PASSWORD@" in caught.value.hint

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(fails, range(8)))
    fails(9)
    assert (proxy.proofs, proxy.schemes) == (1, {auth.scheme})


def test_connections_do_not_wait_once_the_login_was_accepted(run, through, safe_file):
    """Nor for a proxy that is still connecting to a dead server."""
    reached = threading.Event()

    class Waiting(LoginProxy):
        def _forwarded(self, conn: socket.socket, request: Request) -> None:
            if "dead.invalid" in request.line:
                reached.set()
                conn.recv(1)
            else:
                super()._forwarded(conn, request)

    proxy = run(Waiting())
    shared = through(proxy)
    assert body_of(shared, f"{safe_file.base}/f") == FILE
    dead = Reader(shared.exchange(ask("https://dead.invalid/f")))
    dead.start()
    assert reached.wait(60)
    other = Reader(shared.exchange(ask("https://localhost:9/f")))  # one that has a connection of its own
    other.start()
    other.join(60)
    assert not other.is_alive()
    assert proxy.proofs == 3
    dead.wake()


@pytest.mark.parametrize("goes", [False, True])
@pytest.mark.parametrize("ends", ["it says so", "no answer", "two answers"])
def test_a_connection_that_ends_within_the_login_is_replaced_once(run, through, safe_file, goes, ends):
    """The challenge of the old one is worthless then; a second answer, to what was not asked yet, ends it too."""

    def reply(number: int, said: str) -> bytes | None:
        if number > 1 and goes:
            return None
        two = wanted(said, body=b"") + b"HTTP/1.1 200 ok\r\n\r\n"
        return {"it says so": wanted(said, close=True), "no answer": b"", "two answers": two}[ends]

    proxy = run(LoginProxy(reply=reply))
    if goes:
        assert body_of(through(proxy), f"{safe_file.base}/f") == FILE
        assert (proxy.connections, proxy.proofs) == (2, 1)
        return
    with pytest.raises(NetworkError, match="closed the connection without an answer through the proxy") as caught:
        body_of(through(proxy), f"{safe_file.base}/f")
    assert caught.value.retryable
    assert (proxy.connections, proxy.proofs) == (2, 0)


def test_a_proxy_that_closes_at_each_proof_is_asked_three_times(run, through, file):
    """A refusal without an answer must not lock an account either."""

    class Closing(LoginProxy):
        def _forwarded(self, conn: socket.socket, request: object) -> None:
            conn.close()

    proxy = run(Closing())
    shared = through(proxy)
    for _ in range(2):
        with pytest.raises(NetworkError, match="without an answer"):
            body_of(shared, f"{file.base}/f")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="does not answer the login"):
            body_of(shared, f"{file.base}/f")
    assert (proxy.proofs, proxy.connections) == (3, 3)


def test_a_proxy_that_says_nothing_gets_three_proofs(monkeypatch):
    """Not one from each connection, however long they wait."""

    class Cancelled:
        cancelled = True

    monkeypatch.setattr(proxy_login, "TURN", 0.0)
    monkeypatch.setattr(proxy_login, "current_handle", Cancelled)
    login = ProxyLogin(ProxyAuth.NTLM, shown="http://proxy", host="proxy")
    with ExitStack() as waiting:
        for _ in range(3):
            waiting.enter_context(login.turn())
        with pytest.raises(httpcore.ReadError, match="stopped"):
            waiting.enter_context(login.turn())
    with login.turn():
        pass


OTHER = {
    "not base64": ["NTLM !!!"],
    "not NTLM": ["NTLM " + base64.b64encode(b"x" * 100).decode()],
    "cut off": ["NTLM " + base64.b64encode(b"NTLMSSP\0\2\0\0\0").decode()],
    "too long": ["NTLM " + "A" * 70_000],
    "another scheme": ["Negotiate " + base64.b64encode(b"x").decode()],
    "Basic": ['Basic realm="NTLM, Negotiate"'],
    "the scheme alone": ["NTLM"],
    "none": [],
    "unprintable": ["\x9bNTLM x"],
}


@pytest.mark.parametrize("challenges", OTHER.values(), ids=OTHER)
def test_another_challenge_than_that_of_a_login_is_an_error(run, through, safe_file, challenges):
    """After one message, without a password; the password never follows in clear."""
    proxy = run(LoginProxy(reply=lambda number, said: wanted(*challenges)))
    shared = through(proxy)
    with pytest.raises(ConfigurationError, match=r"the proxy http://.*localhost:\d+ (sent|offers|refuses)") as caught:
        body_of(shared, f"{safe_file.base}/f")
    text = str(caught.value) + caught.value.hint
    assert "hush" not in text
    assert text.isprintable()
    with pytest.raises(ConfigurationError):
        body_of(shared, f"{safe_file.base}/f")
    assert (len(proxy.requests), proxy.proofs, proxy.schemes) == (1, 0, {"NTLM"})


ODD = {
    "a page": (wanted("NTLM AAAA").replace(b"Length: ", b"Length: 9999999"), b"x" * 2**16),
    "heads": (b"", b"HTTP/1.1 100 go on\r\n\r\n" * 1000),
    "a head": (b"HTTP/1.1 407 x\r\nA: ", b"x" * 2**16),
    "not HTTP": (b"\x05\x00garbage\r\n\r\n", b"\x00"),
}


@pytest.mark.parametrize(("first", "then"), ODD.values(), ids=ODD)
def test_an_answer_without_an_end_is_left(run, through, safe_file, first, then):
    """At a number of bytes, not by a time-out."""

    def odd(conn: socket.socket, _: object) -> None:
        conn.sendall(first)
        while True:
            conn.sendall(then)

    proxy = run(TinyServer(odd))
    with pytest.raises((NetworkError, ConfigurationError)) as caught:
        body_of(through(proxy, first_byte_timeout=60.0), f"{safe_file.base}/f")
    assert not isinstance(caught.value, StalledError)
    assert len(proxy.requests) <= 2


@pytest.mark.parametrize("auth", BOTH)
def test_a_challenge_after_the_proof_is_no_second_attempt(run, through, safe_file, auth):
    """Neither by another proof nor by a login that begins again."""

    class Endless(LoginProxy):
        last = ""

        def _forwarded(self, conn: socket.socket, request: object) -> None:
            conn.sendall(wanted(self.last))

    def note(_: int, said: str) -> None:
        proxy.last = said

    proxy = run(Endless(auth.scheme, reply=note))
    with pytest.raises(ConfigurationError):
        body_of(through(proxy, auth=auth), f"{safe_file.base}/f")
    assert proxy.proofs == 1
    assert len(proxy.requests) <= (2 if auth is ProxyAuth.NTLM else MAX_MESSAGES)


@pytest.mark.usefixtures("either_system")
@pytest.mark.parametrize("where", ["the answer", "its turn"])
def test_abort_wakes_a_login(run, through, where):
    """While the proxy says nothing, and while another connection tries the login."""
    silent = run(SilentListener())
    shared = through(silent)
    readers = [Reader(shared.exchange(ask("https://example.invalid/f"))) for _ in range(2)]
    readers[0].start()
    assert silent.heard.wait(60)
    woken = readers[where == "its turn"]
    if woken is not readers[0]:
        woken.start()
    woken.wake()
    assert isinstance(woken.error, NetworkError)
    shared.close()


def test_without_a_login_nothing_is_sent(run, through, monkeypatch, safe_file):
    """Neither in the address nor of the session."""
    monkeypatch.delenv("NTLM_USER_FILE")
    proxy = run(TinyHttpProxy())
    with pytest.raises(ConfigurationError, match="needs a login by NTLM") as caught:
        body_of(through(proxy, login=""), f"{safe_file.base}/f")
    assert "DOMAIN%5CUSER:PASSWORD@" in caught.value.hint
    assert not proxy.requests


def test_without_the_library_the_hint_installs_it(run, through, monkeypatch, file):
    """Only a proxy needs it: SOCKS, and hosts that are reached directly, do not."""
    monkeypatch.setattr(proxy_login, "find_spec", lambda _: None)
    proxy = run(TinyHttpProxy())
    with pytest.raises(ConfigurationError, match="pyspnego, which logs in to the proxy") as caught:
        body_of(through(proxy), f"{file.base}/f")
    assert caught.value.hint == 'install it: python -m pip install "resume-dl[proxy-login]"'
    monkeypatch.setattr(errors, "installs_all", lambda: "resume-dl.pyz self install")  # which does not bring it
    with pytest.raises(ConfigurationError) as caught:
        body_of(through(proxy), f"{file.base}/f")
    assert caught.value.hint == "install it: python -m pip install pyspnego"
    assert body_of(through(proxy, no_proxy=("localhost",)), f"{file.base}/f") == FILE


@pytest.mark.parametrize("login", [f"{LOGIN}@", ""])
@pytest.mark.parametrize(
    ("offers", "says"),
    [
        (["NTLM", "Negotiate"], "wants a login by NTLM or Negotiate: set --proxy-auth ntlm or negotiate"),
        (
            ["Negotiate, NTLM", 'Basic realm="x"'],
            'or set --proxy-auth ntlm or negotiate, after python -m pip install "r',
        ),
        (['Basic realm="NTLM"'], "http://USER:PASSWORD@HOST:PORT"),
    ],
)
def test_basic_says_what_the_proxy_wants(run, through, file, safe_file, offers, says, login):
    """By its 407, for a tunnel and for a forwarded request; the source is not asked again."""
    proxy = run(TinyServer(lambda conn, _: conn.sendall(wanted(*offers))))
    shared = through(proxy, login=login, auth=ProxyAuth.BASIC)
    with pytest.raises(NetworkError) as caught:
        body_of(shared, f"{safe_file.base}/f")
    failure = failure_of(caught.value)
    assert says in failure.message
    assert ("refuses the login" in failure.message) == (bool(login) and "Basic" in str(offers))
    assert (failure.kind, "hush" in failure.message) == (FailureKind.FATAL, False)
    request = ask(f"{file.base}/f")
    head = shared.exchange(request).open().head
    refused = check_head(request, head, None)
    assert refused.kind is FailureKind.REFUSED
    assert ("set --proxy-auth ntlm" in refused.message) == ("NTLM" in offers[0].partition('"')[0])


def test_the_lists_of_schemes():
    """RFC 9110 11.6.1: several in one header, with parameters that hold anything."""
    assert offered_schemes(['Basic realm="a, NTLM b", Negotiate', "NTLM", "Evil\x1b[0m", 'X y="\\", NTLM "']) == (
        "Basic",
        "Negotiate",
        "NTLM",
    )
    assert challenge_of(["Basic QUJD", "ntlm  QUJD "], ProxyAuth.NTLM) == b"ABC"
    assert challenge_of(["NTLM"], ProxyAuth.NTLM) == b""
    head = ResponseHead(407, {"proxy-authenticate": "Basic"})
    assert check_head(ask("http://h/f"), head, None).message == "the proxy wants a login (status 407)"


@pytest.mark.parametrize("head", ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n", ""])
def test_a_refusal_without_its_page_is_reported_at_once(run, through, head):
    """A proxy without a login setting that announces a page for its 407, sends none and keeps the connection."""
    said = f'HTTP/1.1 407 x\r\nProxy-Authenticate: Basic realm="x"\r\n{head}\r\n'.encode()
    proxy = run(TinyServer(lambda conn, _: conn.sendall(said)))
    with pytest.raises(NetworkError, match="refuses the login in its address"):
        body_of(through(proxy, auth=ProxyAuth.BASIC), "https://example.invalid/f")

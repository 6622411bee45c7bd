"""Addresses as they are sent: escaped and resolved where RFC 3986 says so, and else as they stand."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.transport import request_address
from resume_dl.transport.request_address import address_of, request_to

PIECES = st.sampled_from(
    [
        *("", ".", "..", "a", "A-1_2~3.conda", ".hidden", "%2e%2E", "%41", "%zz"),
        *("a b", "ä", "a+b", "x!1", "a;b", "?q=1", "#f", "@", ":"),
    ]
)
HOSTS = st.sampled_from(["host.example", "h:8080", "[::1]:81", "u:p@h", "a@b@h", "xn--a"])

Sent = tuple[bytes, bytes, int | None, bytes, bytes]


def sent(url: str) -> Sent:
    address = request_to(address_of(url), {}, {}).url
    host = request_to(address, {}, {}).headers["host"]
    return address.raw_scheme, address.raw_host, address.port, address.raw_path, host.encode()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://host.example", (b"http", b"host.example", None, b"/", b"host.example")),
        ("https://host.example:444/a-1.conda", (b"https", b"host.example", 444, b"/a-1.conda", b"host.example:444")),
        ("HTTP://HOST.example:80/A", (b"http", b"host.example", None, b"/A", b"host.example")),
        ("https://h:0443", (b"https", b"h", None, b"/", b"h")),
        ("http://h:443/", (b"http", b"h", 443, b"/", b"h:443")),
        ("http://user:p@h/a", (b"http", b"h", None, b"/a", b"h")),
        ("http://[::1]:81/a", (b"http", b"::1", 81, b"/a", b"[::1]:81")),
        ("http://[2001:db8::1]/a", (b"http", b"2001:db8::1", None, b"/a", b"[2001:db8::1]")),
        ("http://bücher.example/", (b"http", b"xn--bcher-kva.example", None, b"/", b"xn--bcher-kva.example")),
        ("http://straße.example/", (b"http", b"xn--strae-oqa.example", None, b"/", b"xn--strae-oqa.example")),
        ("http://h?a", (b"http", b"h", None, b"/?a", b"h")),
        ("http://h/?", (b"http", b"h", None, b"/?", b"h")),
        ("http://h/a#b?c", (b"http", b"h", None, b"/a", b"h")),
    ],
)
def test_what_is_sent(url: str, expected: Sent) -> None:
    assert sent(url) == expected


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/a b/ä/%41%zz/%2e", b"/a%20b/%C3%A4/%41%zz/%2e"),
        ("/\"<>`{}|\\^'[]", b"/%22%3C%3E%60%7B%7D|\\^'[]"),
        ('/a?b c{`}"ä', b"/a?b%20c{`}%22%C3%A4"),
        ("/a/./b/../c", b"/a/c"),
        ("/../../a", b"/a"),
        ("/a/..", b"/"),
        ("/a/b/./c/", b"/a/b/c/"),
        ("/.hidden/a..b", b"/.hidden/a..b"),
        ("//a//b", b"//a//b"),
        ("/a?/../b", b"/a?/../b"),
    ],
)
def test_paths_and_queries(path: str, target: bytes) -> None:
    """What no address may hold is escaped, once; dot segments go (RFC 3986 5.2.4); all else stays."""
    assert address_of(f"http://h{path}").raw_path == target


@pytest.mark.parametrize(
    "url",
    [
        *("", "/a", "nothing", "http://", "http:///a", "ftp://h/a", "ws://h/a", "file:///a"),
        *("http://h:99999/", "http://h:x/", "http://[::1/", "http://[::g]/", "http://[v1.a]/", "http://999.1.1.1/"),
        *("http://h:+81/", "http://h:\u0663/", " http://h/", "http://h\\/a"),
        *("http://a b/", "http://a%41/", "http://\uff11\uff12\uff17.0.0.1/", "http://ä..b/"),
        *("http://h/a\r\nX: 1", "http://h/\ta", "http://h\n/", "http://h/\ud800", f"http://h/{'a' * 65536}"),
    ],
)
def test_what_cannot_be_requested(url: str) -> None:
    """Refused before anything is sent, by an error that quotes nothing of the address."""
    with pytest.raises(httpx.InvalidURL) as caught:
        address_of(url)
    assert not url or url not in str(caught.value)


@given(st.sampled_from(["http", "https", "HTTP"]), HOSTS, st.lists(PIECES, max_size=4))
def test_every_way_of_parsing_agrees(scheme: str, host: str, pieces: list[str]) -> None:
    """The host that is asked is the one that checks and messages see; the target is ASCII without blanks."""
    url = "/".join([f"{scheme}://{host}", *pieces])
    address = address_of(url)
    assert address.raw_host.decode() == urlsplit(url).hostname
    assert address.raw_path.startswith(b"/")
    assert all(0x20 < byte < 0x7F for byte in address.raw_path)
    again = f"{scheme}://{host}{address.raw_path.decode()}"
    assert address_of(again).raw_path == address.raw_path
    assert address.raw_path == httpx.URL(url).raw_path


def test_an_origin_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of files of one mirror: only their paths are looked at, by one expression."""
    request_address._origin.cache_clear()
    parsed: list[str] = []
    real = request_address.parse
    monkeypatch.setattr(request_address, "parse", lambda url, schemes: parsed.append(url) or real(url, schemes))
    for name in ("a-1.conda", "b-1.conda"):
        address = address_of(f"https://conda.example:444/forge/linux-64/{name}")
        assert address.raw_path == f"/forge/linux-64/{name}".encode()
    assert parsed == ["https://conda.example:444"]

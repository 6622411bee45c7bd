"""Addresses are sent as httpx itself would send them, parsed by it or not."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resume_dl.transport import plain_address
from resume_dl.transport.plain_address import address_of

PIECES = st.sampled_from(
    [
        "",
        ".",
        "..",
        "a",
        "A-1_2~3.conda",
        ".hidden",
        "%2e%2E",
        "%41",
        "%zz",
        "a b",
        "ä",
        "a+b",
        "x!1",
        "a;b",
        "?q=1",
        "#f",
        "@",
        ":",
    ]
)
HOSTS = st.sampled_from(
    [
        "host.example",
        "HOST.example",
        "127.0.0.1:80",
        "h:8080",
        "h:443",
        "h:0080",
        "[::1]:81",
        "u:p@h",
        "ex-1.org",
        "xn--a",
    ]
)


def sent(url: httpx.URL) -> tuple[bytes, bytes, int | None, bytes, bytes]:
    return url.raw_scheme, url.raw_host, url.port, url.raw_path, url.netloc


@given(st.sampled_from(["http", "https", "HTTP"]), HOSTS, st.lists(PIECES, max_size=4))
def test_what_is_sent_is_what_httpx_would_send(scheme: str, host: str, pieces: list[str]) -> None:
    url = "/".join([f"{scheme}://{host}", *pieces])
    try:
        expected = httpx.URL(url)
    except httpx.InvalidURL:
        with pytest.raises(httpx.InvalidURL):
            address_of(url)
        return
    assert sent(address_of(url)) == sent(expected)


def test_a_request_goes_where_its_address_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """httpx's transport asks an address for nothing else than what is known of it without parsing."""
    parsed: list[str] = []

    def note(url: str) -> httpx.URL:
        parsed.append(url)
        return httpx.URL(url)

    monkeypatch.setattr(plain_address, "_parsed", note)
    address = address_of("https://conda.example:444/forge/linux-64/a-1.conda")
    assert parsed == ["https://conda.example:444"]
    assert sent(address) == (b"https", b"conda.example", 444, b"/forge/linux-64/a-1.conda", b"conda.example:444")
    assert httpx.Request("GET", address).headers["host"] == "conda.example:444"

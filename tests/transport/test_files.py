"""A file on this machine is an exchange like any other."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from resume_dl.errors import NetworkError
from resume_dl.model.http import ResponseHead
from resume_dl.model.url import path_from_url
from transport.asking import ask, body_of

DATA = bytes(range(256)) * 2500


@pytest.fixture
def url(tmp_path: Path) -> str:
    path = tmp_path / "a file+1.conda"
    path.write_bytes(DATA)
    return path.as_uri()


def test_the_whole_file(transport, url):
    """200 with the length, an ETag, and chunks of at most 256 KiB."""
    response = transport().exchange(ask(url)).open()
    assert response.head.status == 200
    assert response.head.headers["content-length"] == str(len(DATA))
    chunks = [*response.chunks()]
    assert max(map(len, chunks)) == 256 * 1024
    assert b"".join(chunks) == DATA


@pytest.mark.parametrize(
    ("start", "end", "shown"), [(5, 9, "5-8"), (5, None, "5-639999"), (639_990, 700_000, "639990-639999")]
)
def test_a_range(transport, url, start, end, shown):
    """206 with the range that it is, cut at the file's end."""
    response = transport().exchange(ask(url, start=start, end=end)).open()
    assert response.head.status == 206
    assert response.head.headers["content-range"] == f"bytes {shown}/{len(DATA)}"
    assert b"".join(response.chunks()) == DATA[start:end]
    assert int(response.head.headers["content-length"]) == len(DATA[start:end])


def test_a_range_beyond_the_end(transport, url):
    """416 with the size."""
    head = transport().exchange(ask(url, start=len(DATA))).open().head
    assert (head.status, head.headers["content-range"]) == (416, f"bytes */{len(DATA)}")


def test_if_range_and_if_none_match(transport, url):
    """A changed file answers 200 to If-Range; an unchanged one 304 to If-None-Match."""

    def head(**options: Any) -> ResponseHead:
        response = transport().exchange(ask(url, **options)).open()
        response.close()
        return response.head

    etag = head().headers["etag"]
    assert head(start=1, if_range=etag).status == 206
    assert head(start=1, if_range='"other"').status == 200
    assert head(headers={"If-None-Match": f'"x", {etag}'}).status == 304


def test_what_is_not_there(transport, tmp_path):
    """A missing file, a folder and a path through a file are 404, and their bodies are empty."""
    (tmp_path / "file").write_bytes(b"x")
    for path in ("none", ".", "file/below"):
        assert transport().exchange(ask(f"{tmp_path.as_uri()}/{path}")).open().head.status == 404
        assert body_of(transport(), f"{tmp_path.as_uri()}/{path}") == b""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(transport, url):
    """A file without permission is 403."""
    Path(path_from_url(url, windows=os.name == "nt")).chmod(0)
    assert transport().exchange(ask(url)).open().head.status == 403


def test_an_empty_file(transport, tmp_path):
    """200 with no body."""
    (tmp_path / "e").write_bytes(b"")
    assert body_of(transport(), (tmp_path / "e").as_uri()) == b""


def test_a_file_that_becomes_shorter_while_it_is_read(transport, url):
    """Fewer bytes than announced are a NetworkError, as they would be from a server."""
    response = transport().exchange(ask(url)).open()
    os.truncate(path_from_url(url, windows=os.name == "nt"), 1000)
    with pytest.raises(NetworkError, match="shorter"):
        b"".join(response.chunks())


def test_abort_ends_the_body_silently(transport, url):
    """The next chunk does not come."""
    exchange = transport().exchange(ask(url))
    chunks = exchange.open().chunks()
    next(chunks)
    exchange.abort()
    assert [*chunks] == []


@pytest.mark.parametrize("bad", ["file://elsewhere/f", "file:", "file:///a%00b"])
def test_addresses_that_name_no_file(transport, bad):
    """They are refused for good."""
    with pytest.raises(NetworkError) as caught:
        body_of(transport(), bad)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("address", "posix", "windows"),
    [
        ("file:///tmp/a%20b", "/tmp/a b", "/tmp/a b"),
        ("file://localhost/tmp/a", "/tmp/a", "/tmp/a"),
        ("file:///C:/a/b", "/C:/a/b", "C:/a/b"),
        ("file:///c|/a", "/c|/a", "c:/a"),
        ("file:///C:", "/C:", "C:/"),
        ("file://server/share/a", None, "//server/share/a"),
    ],
)
def test_paths_of_addresses(address, posix, windows):
    """RFC 8089 with its drive letters and shares."""
    assert path_from_url(address, windows=True) == windows
    if posix is None:
        with pytest.raises(ValueError, match="host"):
            path_from_url(address, windows=False)
    else:
        assert path_from_url(address, windows=False) == posix

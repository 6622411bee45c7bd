"""A file on this machine is an exchange like any other."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import resume_dl
from resume_dl.errors import NetworkError
from resume_dl.model.http import ResponseHead
from resume_dl.model.url import path_from_url
from resume_dl.transport import file_transport
from support.users import ALICE, as_user, common_folder, needs_users
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


def test_a_missing_file_is_404(transport, tmp_path):
    """A missing file, a folder and a path through a file are 404, and their bodies are empty."""
    (tmp_path / "file").write_bytes(b"x")
    for path in ("none", ".", "file/below"):
        assert transport().exchange(ask(f"{tmp_path.as_uri()}/{path}")).open().head.status == 404
        assert body_of(transport(), f"{tmp_path.as_uri()}/{path}") == b""


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_403(transport, url):
    """A file without permission is 403."""
    Path(path_from_url(url, windows=os.name == "nt")).chmod(0)
    assert transport().exchange(ask(url)).open().head.status == 403


@pytest.mark.parametrize(("name", "status"), [("file", 403), ("", 404)])
def test_what_the_system_refuses_to_open(transport, tmp_path, monkeypatch, name, status):
    """A file without permission is 403; of a folder Windows says the same, and it is 404 as ever."""
    (tmp_path / "file").write_bytes(b"x")

    def refused(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refused)
    response = transport().exchange(ask(f"{tmp_path.as_uri()}/{name}")).open()
    assert (response.head.status, [*response.chunks()]) == (status, [])


STATUSES = """
import os, sys
sys.path.insert(0, sys.argv.pop(1))
from resume_dl.model.http import RangeRequest
from resume_dl.model.url import RedactedUrl
from resume_dl.transport.file_transport import FileExchange
print(os.access(sys.argv[1], os.R_OK))
for path in sys.argv[1:]:
    print(FileExchange(RangeRequest(RedactedUrl("file://" + path), whole=True)).open().head.status)
"""


@needs_users
def test_what_another_user_may_not_read():
    """A closed file and all below a closed folder are 403, a folder is 404 as ever."""
    with common_folder(0o755) as place:
        (place / "folder").mkdir()
        (place / "folder" / "file").write_bytes(b"x")
        (place / "file").write_bytes(b"x")
        for name in ("folder", "file"):
            (place / name).chmod(0)
        paths = [place / "file", place / "folder" / "file", place / "folder", place]
        ran = as_user(ALICE, "-c", STATUSES, Path(resume_dl.__file__).parents[1], *paths)
    said = ran.stdout.split()
    if said[:1] == ["True"]:
        pytest.skip("her Python lies where only root reads, so she has been given leave to read all")
    assert said == ["False", "403", "403", "404", "404"], ran.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="names of that length and loops of links are POSIX's to refuse")
def test_what_the_system_will_not_open(transport, tmp_path):
    """A name that is too long and a link to itself are told with the system's reason; another try may find better."""
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, reason in {"loop": "symbolic links", "a" * 300: "too long"}.items():
        with pytest.raises(NetworkError, match=reason) as caught:
            body_of(transport(), f"{tmp_path.as_uri()}/{name}")
        assert caught.value.retryable
        assert name in caught.value.source


@pytest.mark.skipif(sys.platform == "win32", reason="pipes with names are POSIX")
def test_a_pipe_is_not_waited_for(transport, tmp_path):
    """What is no regular file is 404 at once, and nothing of it stays open."""
    os.mkfifo(tmp_path / "pipe")

    def lowest() -> int:
        """The next descriptor that the system would give."""
        with Path(os.devnull).open("rb") as file:
            return file.fileno()

    before = lowest()
    for _ in range(3):
        assert transport().exchange(ask((tmp_path / "pipe").as_uri())).open().head.status == 404
        assert transport().exchange(ask(tmp_path.as_uri())).open().head.status == 404
    assert lowest() == before


def test_a_closed_response_yields_nothing(transport, url):
    """Closing twice is fine, and the file is not read any more."""
    response = transport().exchange(ask(url)).open()
    response.close()
    response.close()
    assert [*response.chunks()] == []


def test_an_address_that_names_no_file_says_how_to_write_it(transport):
    """With what is wrong about it."""
    on_windows = ("your settings do not name elsewhere", "copy the file")  # there it is a share's file
    wrong, how = on_windows if os.name == "nt" else ("host", "file:///")
    with pytest.raises(NetworkError, match=wrong) as caught:
        body_of(transport(), "file://elsewhere/f")
    assert how in caught.value.hint


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


@pytest.mark.parametrize("when", ["asked for its size", "read"])
def test_a_disk_failure_is_a_network_error(transport, tmp_path, monkeypatch, when):
    """With the system's reason, another try may find better; the file is closed at once."""

    class Failing(io.FileIO):
        def fileno(self) -> int:
            if when == "asked for its size":
                raise OSError(errno.EIO, "Input/output error")
            return super().fileno()

        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

    (tmp_path / "f").write_bytes(b"x")
    file = Failing(tmp_path / "f", "rb")
    monkeypatch.setattr(file_transport, "_opened", lambda _: file)
    with pytest.raises(NetworkError, match=r"cannot read .*: Input/output error") as caught:
        body_of(transport(), (tmp_path / "f").as_uri())
    assert file.closed
    assert caught.value.retryable
    assert caught.value.source == (tmp_path / "f").as_uri()


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

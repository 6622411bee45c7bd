"""``urls.txt``: whole lines, the last of a name counting, and on the disk once it is said."""

from __future__ import annotations

import os

import pytest

from resume_dl.caches.conda import urls
from resume_dl.caches.conda.urls import add_url, origin_of

A, B = "https://h/a-1-0.conda", "https://h/b-1-0.conda"


@pytest.mark.parametrize(
    ("before", "urls", "after"),
    [
        (None, [A], [A]),
        (b"", [A], [A]),
        (b"x\n", [A, B], ["x", A, B]),
        (b"x", [A], ["x", A]),  # a torn line is ended first
        (b"x\r\n", [A], ["x", A]),
        (b"x\r", [A], ["x", A]),
        (A.encode() + b"\n", [A, B], [A, B]),
        (f"{A}\nhttps://other/a-1-0.conda\n".encode(), [A], [A, "https://other/a-1-0.conda", A]),
        (f"https://other/a-1-0.conda\n  {A} \n".encode(), [A], ["https://other/a-1-0.conda", A]),
        (b"\xff\n", [A], ["\ufffd", A]),
    ],
)
def test_which_urls_are_appended(tmp_path, before, urls, after):
    """A line for each URL that does not count already."""
    path = tmp_path / "urls.txt"
    if before is not None:
        path.write_bytes(before)
    old = path.read_bytes() if before is not None else b""
    assert add_url(tmp_path, *urls) is (path.read_bytes() != old)
    text = path.read_text(encoding="utf-8", errors="replace")
    assert [line.strip() for line in text.splitlines()] == after
    assert text.endswith("\n")
    assert not add_url(tmp_path, *urls)
    assert not add_url(tmp_path)


def test_the_origin_of_an_archive(tmp_path):
    """The last line with its name, the name being all that follows the last slash."""
    assert origin_of(tmp_path, "a-1-0.conda") is None
    (tmp_path / "urls.txt").write_text(f"{A}\nhttps://other/a-1-0.conda\n{B}\n")
    assert origin_of(tmp_path, "a-1-0.conda") == "https://other/a-1-0.conda"
    assert origin_of(tmp_path, "b-1-0.conda") == B
    assert origin_of(tmp_path, "1-0.conda") is None


@pytest.mark.parametrize(("before", "folders"), [(None, 1), ("", 1), ("x\n", 0)])
def test_appended_lines_are_synced(tmp_path, monkeypatch, before, folders):
    """The lines each time, the folder where the file may be new."""
    if before is not None:
        (tmp_path / "urls.txt").write_text(before)
    files, names = [], []
    real = urls.sync_fd
    monkeypatch.setattr(urls, "sync_fd", lambda fd: files.append(os.fstat(fd).st_size) or real(fd))
    monkeypatch.setattr(urls, "sync_directory", names.append)
    add_url(tmp_path, A)
    assert files == [(tmp_path / "urls.txt").stat().st_size]
    assert names == [tmp_path] * folders


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "theirs").write_text("x\n")
    (tmp_path / "urls.txt").symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match=r"urls\.txt"):
        add_url(tmp_path, A)
    assert (tmp_path / "theirs").read_text() == "x\n"

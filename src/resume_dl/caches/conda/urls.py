"""``urls.txt`` of a package cache: which URL an archive came from, one a line, the last line of a name counting.

It is also the file by which conda knows a folder as a package cache, and by which it tests whether it may write there.
"""

from __future__ import annotations

import os
from pathlib import Path

from resume_dl import fs
from resume_dl.store.platform import sync_directory, sync_fd

URLS = "urls.txt"
_MOST_BYTES = 256 << 20


def origin_of(pkgs_dir: Path, filename: str) -> str | None:
    """The URL that conda takes for an archive: the last line whose file name is ``filename``."""
    for line in reversed(_lines(pkgs_dir / URLS)):
        if line.rpartition("/")[2] == filename:
            return line
    return None


def add_url(pkgs_dir: Path, *urls: str) -> bool:
    """Append a line for each URL that does not count already; whether any was written. Makes the file; raises OSError.

    One write of whole lines in append mode: a process that dies or another that appends cannot tear them. A last
    line without a line end (a killed conda, an editor) is ended first.
    """
    path = pkgs_dir / URLS
    counts = {line.rpartition("/")[2]: line for line in _lines(path)}
    new = [url for url in urls if counts.get(url.rpartition("/")[2]) != url]
    if not new:
        return False
    with os.fdopen(fs.open_regular(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+") as file:
        end = file.seek(0, os.SEEK_END)
        torn = False
        if end:
            file.seek(end - 1)
            torn = file.read(1) not in {b"\n", b"\r"}
        eol = os.linesep.encode()
        file.write((eol if torn else b"") + b"".join(url.encode() + eol for url in new))
        file.flush()
        sync_fd(file.fileno())
    if not end:  # perhaps it is new
        sync_directory(pkgs_dir)
    return True


def _lines(path: Path) -> list[str]:
    try:
        data = fs.read_regular(path, _MOST_BYTES)
    except FileNotFoundError:
        return []
    return [line.strip() for line in data.decode("utf-8", "replace").splitlines()]

"""``urls.txt`` of a package cache: which URL an archive came from, one a line, the last line of a name counting.

It is also the file by which conda knows a folder as a package cache, and by which it tests whether it may write there.
"""

from __future__ import annotations

import os
from pathlib import Path

URLS = "urls.txt"


def origin_of(pkgs_dir: Path, filename: str) -> str | None:
    """The URL that conda takes for an archive: the last line whose file name is ``filename``."""
    for line in reversed(_lines(pkgs_dir / URLS)):
        if line.rpartition("/")[2] == filename:
            return line
    return None


def add_url(pkgs_dir: Path, url: str) -> bool:
    """Append a line, unless ``url`` counts already; whether a line was written. Makes the file; raises OSError.

    One write of one whole line in append mode: a process that dies or another that appends cannot tear it. A last
    line without a line end (a killed conda, an editor) is ended first.
    """
    path = pkgs_dir / URLS
    if origin_of(pkgs_dir, url.rpartition("/")[2]) == url:
        return False
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        torn = False
        if end:
            file.seek(end - 1)
            torn = file.read(1) not in {b"\n", b"\r"}
        eol = os.linesep.encode()
        file.write((eol if torn else b"") + url.encode() + eol)
        file.flush()
        os.fsync(file.fileno())
    return True


def _lines(path: Path) -> list[str]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    return [line.strip() for line in data.decode("utf-8", "replace").splitlines()]

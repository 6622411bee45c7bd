"""``urls.txt`` of a package cache: the URLs of its archives, one per line; the last line for a file name counts.

By this file conda also recognises a folder as a package cache, and tests whether it can write there.
"""

from __future__ import annotations

import ntpath
import os
import posixpath
from pathlib import Path

from resume_dl import fs
from resume_dl.store.platform import sync_directory, sync_fd

URLS = "urls.txt"
_MOST_BYTES = 256 << 20


def origin_of(pkgs_dir: Path, filename: str) -> str | None:
    """Return the URL that conda assumes for an archive: the last line with this file name."""
    for line in reversed(_lines(pkgs_dir / URLS)):
        if _name(line) == filename:
            return line
    return None


def add_url(pkgs_dir: Path, *urls: str) -> bool:
    """Append the URLs that are not current yet, creating the file; whether any was written. Raises OSError.

    One write of whole lines in append mode, so that neither a kill nor another process can tear them. An unterminated
    last line (of a killed conda, or an editor) is terminated first.
    """
    path = pkgs_dir / URLS
    counts = {_name(line): line for line in _lines(path)}
    new = [url for url in urls if counts.get(_name(url)) != url]
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


def _name(line: str, *, windows: bool = fs.WINDOWS) -> str:
    r"""The file name in a line, as conda finds it: on Windows behind the last ``\``, too."""
    return ntpath.basename(line) if windows else posixpath.basename(line)


def _lines(path: Path) -> list[str]:
    try:
        data = fs.read_regular(path, _MOST_BYTES)
    except FileNotFoundError:
        return []
    return [line.strip() for line in data.decode("utf-8", "replace").splitlines()]

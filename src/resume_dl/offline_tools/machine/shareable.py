"""Channel URLs that may leave this machine."""

from __future__ import annotations

import platform
import re
import socket
from typing import Iterable
from urllib.parse import urlsplit

_SCHEMES = ("http", "https", "s3", "gs", "oci", "ftp")


def shareable_channels(urls: Iterable[str], subdir: str) -> tuple[list[str], int]:
    """The channel URLs without login, token, subdir and duplicates; and how many are left out.

    Left out are URLs that only this machine can reach (``file:``, its own name) and those that may hold a login.
    """
    kept: dict[str, None] = {}
    left: dict[str, None] = {}
    for url in urls:
        base, _, last = url.rstrip("/").rpartition("/")
        place = base if last in (subdir, "noarch") else url.rstrip("/")
        shown = _shareable(place)
        if shown is None:
            left[place] = None
        else:
            kept[shown] = None
    return list(kept), len(left)


def _shareable(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    path = re.sub(r"/t/[^/]*(?=/|$)", "", parts.path)
    if parts.scheme not in _SCHEMES or not re.fullmatch(r"[A-Za-z0-9._:-]+", host) or _is_own_name(host):
        return None
    if not re.fullmatch(r"(?:/[A-Za-z0-9._~%+-]+)*", path):
        return None
    netloc = "[" + host + "]" if ":" in host else host
    return parts.scheme + "://" + netloc + ("" if port is None else ":" + str(port)) + path


def _is_own_name(host: str) -> bool:
    names = {name.lower() for name in (platform.node(), socket.gethostname()) if name}
    return host.lower() in names | {name.split(".")[0] for name in names} - {"localhost"}

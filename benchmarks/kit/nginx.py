"""One nginx as several hosts, each with a loopback address of its own: clients take one address for one server."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from kit.runs import PROJECT, Machine

sys.path.insert(0, str(PROJECT / "tests"))

from support.nginx import NginxMirrors

__all__ = ["NginxMirrors", "nginx_hosts"]


@contextlib.contextmanager
def nginx_hosts(here: Machine, count: int = 1, *, rate: int | None = None) -> Iterator[tuple[NginxMirrors, list[str]]]:
    """``root/file.bin`` of the machine's folder at ``count`` hosts, and its URLs there.

    ``rate``: bytes a second for each connection. Buffers are the system's: with small ones it comes out as half.
    """
    addresses = [f"127.0.0.{i + 2}" for i in range(count)]
    roots = [here.folder / "root"] * count
    nginx = NginxMirrors(roots, here.folder / "nginx", rate=rate, send_buffer=None, addresses=addresses)
    nginx.start()
    try:
        yield nginx, [f"{nginx.base(i)}/file.bin" for i in range(count)]
    finally:
        nginx.stop()

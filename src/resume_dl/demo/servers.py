"""Mirrors with three kinds of faults, served from a folder by the standard library."""

from __future__ import annotations

import re
import shutil
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_CHUNK = 16 * 1024
_SEND_BUFFER = 64 * 1024
"""A small kernel buffer, so that the bytes sent are about those that a killed client has received."""
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(frozen=True, slots=True)
class Flaws:
    """The faults of a mirror; sizes in bytes, ``rate`` in bytes a second for each connection."""

    rate: int = 0
    """0 means unlimited."""
    drop_after: int = 0
    """Each connection ends after this many body bytes; 0 means never."""
    damage: Mapping[str, int] = field(default_factory=dict)
    """File name -> n: every n-th byte is inverted, in every response; the first is right, so that the file
    looks valid."""


@dataclass(slots=True)
class Counts:
    """A mirror's counts for archives (not repodata); sizes in bytes."""

    requests: int = 0
    body_bytes: int = 0
    dropped: int = 0
    dropped_bytes: int = 0
    """Bytes of responses that ended early."""
    damaged: dict[str, int] = field(default_factory=dict)
    """File name -> bytes of responses with wrong bytes."""


class FlakyMirror:
    """One loopback port that serves ``root`` with ``flaws``; ``counts`` may be read while it runs."""

    def __init__(self, name: str, root: Path, flaws: Flaws | None = None) -> None:
        self.name = name
        self.root = root.resolve()
        self.flaws = flaws or Flaws()
        self.counts = Counts()
        self.lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def base(self) -> str:
        """The base URL, without a slash at its end."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Serve in a thread, until ``stop``."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; connections that are open end with their clients."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], mirror: FlakyMirror) -> None:
        super().__init__(address, _Handler)
        self.mirror = mirror

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: killed clients are expected."""


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD of files below the mirror's root, with single ranges and keep-alive."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        super().setup()
        self._sent_here = 0

    def log_message(self, *_: object) -> None:
        """Log nothing: the demo prints what matters."""

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, *, with_body: bool) -> None:
        mirror = self.server.mirror
        path = (mirror.root / unquote(urlsplit(self.path).path).lstrip("/")).resolve()
        if not path.is_relative_to(mirror.root) or not path.is_file():
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        size = path.stat().st_size
        start, end = 0, size
        asked = _RANGE.fullmatch(self.headers.get("Range", ""))
        if asked:
            start, end = int(asked[1]), min(size, int(asked[2]) + 1) if asked[2] else size
        if asked and not start < end <= size:
            self.send_response(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            self.send_header("Content-Range", f"bytes */{size}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(HTTPStatus.PARTIAL_CONTENT if asked else HTTPStatus.OK)
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if not with_body:
            return
        if path.name.endswith((".conda", ".tar.bz2")):
            self._send_archive(path, start, end)
        else:
            with path.open("rb") as file:
                file.seek(start)
                shutil.copyfileobj(file, self.wfile)

    def _send_archive(self, path: Path, start: int, end: int) -> None:
        """Send ``[start, end)`` of the file, slowly, damaged, or not to its end, and count it."""
        mirror, flaws = self.server.mirror, self.server.mirror.flaws
        every = flaws.damage.get(path.name, 0)
        is_damaged = every > 0 and start // every < end // every
        with mirror.lock:
            mirror.counts.requests += 1
        begun, position = time.monotonic(), start
        with path.open("rb") as file:
            file.seek(start)
            while position < end:
                if flaws.drop_after and self._sent_here >= flaws.drop_after:
                    with mirror.lock:
                        mirror.counts.dropped += 1
                        mirror.counts.dropped_bytes += position - start
                    self.close_connection = True
                    return
                data = file.read(min(_CHUNK, end - position))
                self.wfile.write(_damaged(data, position, every))
                position += len(data)
                self._sent_here += len(data)
                with mirror.lock:
                    mirror.counts.body_bytes += len(data)
                    if is_damaged:
                        mirror.counts.damaged[path.name] = mirror.counts.damaged.get(path.name, 0) + len(data)
                if flaws.rate:
                    time.sleep(max(0.0, begun + (position - start) / flaws.rate - time.monotonic()))


def _damaged(data: bytes, position: int, every: int) -> bytes:
    """``data``, read at ``position`` of a file, with the last of each ``every`` bytes inverted; 0: as it is."""
    if not every:
        return data
    wrong = bytearray(data)
    for at in range(every - 1 - position % every, len(wrong), every):
        wrong[at] ^= 0xFF
    return bytes(wrong)

"""Sources on lines of a known speed: an HTTP server on loopback without any burst; the speed can change at any moment.

    with Line(root, rates=[8e6, 2e6]) as line:     # bytes a second for each connection; None = unlimited
        line.url(0, "file.bin")                    # "http://127.0.0.2:40123/file.bin": an address for each source
        line.set_rate(1, 50_000)                   # running answers, too
        line.stall(1)                              # nothing more comes, connections stay open
        line.die(0)                                # connections are reset, new ones refused
        line.sent                                  # body bytes handed to the kernel, of all sources

nginx's limit_rate sends the first portion of every answer at once; here a byte comes when its time has come.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

_RANGE = re.compile(rb"\r\nrange: *bytes=(\d+)-(\d*)\r\n", re.IGNORECASE)
_CHUNK = 64 * 1024
_SLICE = 0.05
"""Seconds: how soon a change of speed is felt by an answer that is being sent."""
_CREDIT = 0.25
"""Seconds of lateness (a busy machine) that an answer may catch up."""


@dataclass
class Asked:
    """One request; times as ``time.monotonic()`` says them."""

    source: int
    path: str
    start: int
    end: int
    at: float
    first_byte_at: float | None = None
    last_byte_at: float | None = None
    sent: int = 0
    complete: bool = False


@dataclass
class Place:
    """One source."""

    address: str
    rate: float | None
    latency: float = 0.0
    port: int = 0
    sent: int = 0
    flips: Callable[[int, bytearray], None] | None = None
    writers: set[socket.socket] = field(default_factory=set)


@final
class Line:
    """Several sources in one thread with its own event loop."""

    def __init__(self, root: Path, rates: Sequence[float | None], *, latency: float = 0.0) -> None:
        self.root = root
        self.asked: list[Asked] = []
        self.places = [Place(f"127.0.0.{i + 2}", rate, latency) for i, rate in enumerate(rates)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="line", daemon=True)
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Line:
        self._thread.start()
        self._call(self._open())
        return self

    def __exit__(self, *error: object) -> None:
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    # --- what a benchmark does with it -------------------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """Body bytes of all sources."""
        return sum(place.sent for place in self.places)

    def url(self, source: int, path: str) -> str:
        return f"{self.base(source)}/{path}"

    def urls(self, path: str) -> list[str]:
        return [self.url(source, path) for source in range(len(self.places))]

    def base(self, source: int) -> str:
        place = self.places[source]
        return f"http://{place.address}:{place.port}"

    def set_rate(self, source: int, rate: float | None) -> None:
        self.places[source].rate = rate

    def stall(self, source: int) -> None:
        self.places[source].rate = 0.0

    def die(self, source: int) -> None:
        self._call(self._die(source))

    def first_request(self) -> float:
        """When the first request came since this was asked last; by the clock of ``time.monotonic()``."""
        first = self.asked[0].at
        self.asked.clear()
        return first

    def forget(self) -> None:
        """Count from nothing again."""
        self.asked.clear()
        for place in self.places:
            place.sent = 0

    def quiet(self) -> None:
        """Wait until nobody is being answered."""
        while any(place.writers for place in self.places):
            time.sleep(0.005)

    # --- inside ------------------------------------------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=10)

    async def _open(self) -> None:
        for source, place in enumerate(self.places):
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Inherited by each connection: little waits in the kernel, so what was sent is about what arrived.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _CHUNK if place.rate is not None else 8 * _CHUNK)
            listener.bind((place.address, 0))
            listener.listen(64)
            listener.setblocking(False)
            place.port = listener.getsockname()[1]
            self._listeners.append(listener)
            self._spawn(self._accept(source, listener))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, source: int, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = await self._loop.sock_accept(listener)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._spawn(self._serve(source, connection))

    async def _die(self, source: int) -> None:
        self._loop.remove_reader(self._listeners[source].fileno())
        self._listeners[source].close()
        for connection in list(self.places[source].writers):
            connection.shutdown(socket.SHUT_RDWR)

    async def _end(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()

    async def _serve(self, source: int, connection: socket.socket) -> None:
        place = self.places[source]
        place.writers.add(connection)
        buffer = b""
        try:
            while True:
                while b"\r\n\r\n" not in buffer:
                    if not (more := await self._loop.sock_recv(connection, 65536)):
                        return
                    buffer += more
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                await self._answer(source, connection, head + b"\r\n")
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            place.writers.discard(connection)
            connection.close()

    async def _answer(self, source: int, connection: socket.socket, head: bytes) -> None:
        place = self.places[source]
        target = head.split(b" ", 2)[1].decode().partition("?")[0]
        asked = Asked(source, target, 0, 0, time.monotonic())
        self.asked.append(asked)
        if place.latency:
            await asyncio.sleep(place.latency)
        path = self.root / target.lstrip("/")
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            await self._loop.sock_sendall(connection, b"HTTP/1.1 404 none\r\nContent-Length: 0\r\n\r\n")
            return
        try:
            size = os.fstat(file).st_size
            wanted = _RANGE.search(head)
            asked.start, asked.end = 0, size
            if f'if-none-match: "{size}"'.encode() in head.lower():
                await self._loop.sock_sendall(connection, f'HTTP/1.1 304 same\r\nETag: "{size}"\r\n\r\n'.encode())
                asked.complete = True
                return
            lines = [f'ETag: "{size}"', "Accept-Ranges: bytes", "Content-Type: application/octet-stream"]
            if wanted is not None:
                asked.start = int(wanted[1])
                asked.end = min(int(wanted[2]) + 1, size) if wanted[2] else size
                lines.append(f"Content-Range: bytes {asked.start}-{asked.end - 1}/{size}")
            lines.append(f"Content-Length: {asked.end - asked.start}")
            first = f"HTTP/1.1 {'200 ok' if wanted is None else '206 part'}\r\n" + "\r\n".join(lines) + "\r\n\r\n"
            await self._loop.sock_sendall(connection, first.encode())
            if not head.startswith(b"HEAD"):
                await self._body(place, asked, connection, file)
            asked.complete = True
        finally:
            os.close(file)

    async def _body(self, place: Place, asked: Asked, connection: socket.socket, file: int) -> None:
        """Send the range; a chunk goes out when the last of its bytes would have come over a line of that speed."""
        at, rate, began, since = asked.start, place.rate, time.monotonic(), 0
        while at < asked.end:
            if place.rate != rate:
                rate, began, since = place.rate, time.monotonic(), 0
            if rate == 0:
                await asyncio.sleep(_SLICE)
                with contextlib.suppress(BlockingIOError):
                    if not connection.recv(1, socket.MSG_PEEK):  # the client has gone
                        raise ConnectionResetError
                continue
            chunk = _CHUNK if rate is None else max(1024, min(_CHUNK, int(rate * _SLICE / 2)))
            count = min(chunk, asked.end - at)
            if rate is not None:
                now = time.monotonic()
                began = max(began, now - _CREDIT - since / rate)
                due = began + (since + count) / rate
                if due > now:
                    await asyncio.sleep(min(due - now, _SLICE))
                    if due - time.monotonic() > 0.0005 or place.rate != rate:
                        continue
            data: bytes | bytearray = os.pread(file, count, at)
            if place.flips is not None:
                data = bytearray(data)
                place.flips(at, data)
            await self._loop.sock_sendall(connection, data)
            asked.first_byte_at = asked.first_byte_at or time.monotonic()
            at, since = at + count, since + count
            asked.sent += count
            place.sent += count
            asked.last_byte_at = time.monotonic()

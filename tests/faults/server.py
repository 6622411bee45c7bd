"""A real HTTP server on loopback that misbehaves as told, and remembers every request.

    server = FaultServer(ports=3)                      # the fixture fault_server starts and stops it
    server.put("/linux-64/a-1-0.conda", data)          # bytes, at every port
    server.mount(folder)                               # or a folder's files, read when asked for
    server.base(0)                                     # "http://127.0.0.1:45671"
    server.always(0, Latency(0.1), Rate(1_000_000))    # for every request to this port
    server.script(1, [Drop(after=30_000), Ok()], path="*.conda")   # one step a request, the last one stays
    server.close_port(2)                               # connection refused from now on; open_port(2) undoes it
    server.requests()                                  # [Received(port=0, path=..., range=..., sent=...)]

Behaviours (``faults.behaviours``): Ok, Drop, Stall, NeverAnswer, IgnoreRange, WrongContentRange, WrongContentLength,
Truncate, Page, Status, RangeNotSatisfiable, RefuseRange, Flip, Gzip, Multipart, Redirect, ChangingETag, NotModified,
Headers, Rate, Quota, Latency, Demand; ``times(k, behaviour)`` repeats a step. The first script whose path pattern
(fnmatch) and port fit is used, the newest first; ``port`` None means every port (each port then walks through its own
copy of the script).
Without any script a file is served as a good mirror does: ranges, If-Range, keep-alive, a strong ETag. With ``tls`` it
speaks HTTPS, to those whom that context lets in.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from email.utils import formatdate
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from faults.behaviours import Answer, Behaviour, Ok, Quota, Step

_LAST_MODIFIED = "Fri, 01 Jan 2021 00:00:00 GMT"
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
_CHUNK = 16 * 1024


@dataclass
class Received:
    """One request; header names in lower case. ``status``, ``sent`` and ``ended`` are filled in as it is answered."""

    port: int
    """Which port, by its index."""
    connection: int
    """Which connection of the server: equal numbers were kept alive."""
    method: str
    path: str
    headers: dict[str, str]
    status: int = 0
    sent: int = 0
    """Body bytes handed to the kernel."""
    ended: str = ""
    """``complete``, ``fin``, ``rst``, ``stall``, ``silent`` or ``client`` (it went away); empty while it lasts."""

    @property
    def range(self) -> str:
        return self.headers.get("range", "")


@dataclass
class _Script:
    port: int | None
    path: str
    steps: list[Step]
    taken: dict[int, int] = field(default_factory=dict)

    def next_step(self, port: int) -> Step:
        number = self.taken.get(port, 0)
        self.taken[port] = number + 1
        return self.steps[min(number, len(self.steps) - 1)]


class FaultServer:
    """Several loopback ports in one thread with its own event loop."""

    def __init__(
        self, ports: int = 1, *, send_buffer: int | None = 2 * _CHUNK, tls: ssl.SSLContext | None = None
    ) -> None:
        self._count = ports
        self._tls = tls
        self._send_buffer = send_buffer
        self._files: dict[str, bytes] = {}
        self._folders: list[Path] = []
        self._scripts: list[_Script] = []
        self._received: list[Received] = []
        self._connections = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: dict[int, asyncio.Server] = {}
        self._ports: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-server", daemon=True)

    # --- life --------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()
        for index in range(self._count):
            self.open_port(index)

    def stop(self) -> None:
        self._run(self._shut_down())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=60)
        self._loop.close()

    def open_port(self, index: int) -> None:
        """Listen (again, on the same port where there was one)."""
        self._run(self._listen(index))

    def close_port(self, index: int) -> None:
        """Refuse new connections at this port; those that are open go on."""
        self._run(self._close(index))

    def drop_connections(self) -> None:
        """End every open connection at once."""
        self._run(self._cancel_tasks())

    # --- content and behaviour -------------------------------------------------------------------------------------

    def put(self, path: str, data: bytes) -> None:
        """Offer ``data`` at this path of every port."""
        self._files[path] = data

    def mount(self, folder: Path) -> None:
        """Offer a folder's files, at every port; ``put`` wins over it."""
        self._folders.append(folder)

    def always(self, port: int | None, *behaviours: Behaviour, path: str = "*") -> None:
        """Answer every fitting request so."""
        self.script(port, [behaviours], path=path)

    def script(self, port: int | None, steps: Sequence[Step], *, path: str = "*") -> None:
        """Answer fitting requests with one step after another; the last one stays."""
        self._scripts.insert(0, _Script(port, path, list(steps) or [Ok()]))

    # --- what happened ---------------------------------------------------------------------------------------------

    def base(self, port: int = 0) -> str:
        """The port's base URL, without a slash at its end."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self._ports[port]}"

    def port(self, index: int = 0) -> int:
        return self._ports[index]

    def requests(self, port: int | None = None, path: str = "*") -> list[Received]:
        """All requests so far, in the order in which they came."""
        return [
            one
            for one in list(self._received)
            if port in {None, one.port} and fnmatch(one.path.partition("?")[0], path)
        ]

    def body_bytes(self, port: int | None = None, path: str = "*") -> int:
        """What has been sent of bodies, with all that a client has received by now."""
        if self._loop.is_running() and threading.current_thread() is not self._thread:
            self._run(self._let_go_on())
        return sum(one.sent for one in self.requests(port, path))

    # --- inside ----------------------------------------------------------------------------------------------------

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=60)

    async def _let_go_on(self) -> None:
        """Let everything go on that waits for nothing: bytes that are sent but not counted, accepted connections."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def _listen(self, index: int) -> None:
        listener = socket.socket()
        if sys.platform != "win32":  # there it would let two servers share the port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if self._send_buffer is not None:
            # Inherited by each connection: little waits in the kernel, so what was sent is about what arrived. The
            # price is up to 40 ms an answer: a full buffer waits for acknowledgements that the other side delays.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        listener.bind(("127.0.0.1", self._ports.get(index, 0)))
        self._ports[index] = listener.getsockname()[1]

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve_connection(index, reader, writer)

        self._servers[index] = await asyncio.start_server(connected, sock=listener, ssl=self._tls)

    async def _close(self, index: int) -> None:
        await self._stop_listening(self._servers.pop(index))

    async def _cancel_tasks(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _shut_down(self) -> None:
        await self._stop_listening(*self._servers.values())
        await self._cancel_tasks()

    async def _stop_listening(self, *servers: asyncio.Server) -> None:
        """Close the servers, after what they have accepted is served: asyncio would never close that."""
        with contextlib.suppress(NotImplementedError):  # Windows' loop
            for server in servers:
                for listener in server.sockets:
                    self._loop.remove_reader(listener.fileno())
        await self._let_go_on()
        for server in servers:
            server.close()

    async def _serve_connection(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._connections += 1
        connection = self._connections
        writer.transport.set_write_buffer_limits(high=_CHUNK)
        try:
            while (received := await _read_request(reader, port, connection)) is not None:
                self._received.append(received)
                try:
                    kept = await self._answer(received, reader, writer)
                except (ConnectionError, asyncio.CancelledError):
                    received.ended = received.ended or "client"
                    raise
                if not kept:
                    break
        except asyncio.CancelledError:
            writer.transport.abort()  # a client that no longer reads would let the rest of the answer wait for ever
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self._tasks.discard(task)
            writer.close()
            with contextlib.suppress(ConnectionError, asyncio.CancelledError):
                await writer.wait_closed()

    async def _answer(self, received: Received, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; returns whether the connection may be used again."""
        answer = self._good_answer(received)
        answer.number = len(self._received)
        answer.asked = received.headers
        step = self._step(received)
        for behaviour in step if isinstance(step, tuple) else (step,):
            behaviour.apply(answer)
        received.status = answer.status
        if answer.silent:
            received.ended = "silent"
            await reader.read()
            return False
        until = answer.now() + answer.latency
        while (left := until - answer.now()) > 0:  # noqa: ASYNC110 - the clock is the test's: it sets no event
            await asyncio.sleep(left)
        head = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        writer.write(f"HTTP/1.1 {answer.status} x\r\n{head}\r\n".encode("latin-1"))
        body = b"" if received.method == "HEAD" else answer.body
        stopped = answer.stop_after is not None and answer.stop_after < len(body)
        await _send(writer, body[: answer.stop_after] if stopped else body, received, answer.rate, answer.quota)
        if not stopped:
            received.ended = "complete"
            # Fewer bytes than announced: only the connection's end tells the client.
            return received.method == "HEAD" or int(answer.headers.get("Content-Length", "0")) == len(body)
        received.ended = answer.ending
        if answer.ending == "stall":
            await reader.read()
        elif answer.ending == "rst":
            await _reset(writer)
        return False

    def _step(self, received: Received) -> Step:
        path = received.path.partition("?")[0]
        for script in self._scripts:
            if script.port in {None, received.port} and fnmatch(path, script.path):
                return script.next_step(received.port)
        return Ok()

    def _content(self, path: str) -> bytes | None:
        if path in self._files:  # a path may be put with a query, which is another file then
            return self._files[path]
        path = path.partition("?")[0]
        if path in self._files:
            return self._files[path]
        for folder in self._folders:
            file = (folder / path.lstrip("/")).resolve()
            if file.is_file() and file.is_relative_to(folder.resolve()):
                return file.read_bytes()
        return None

    def _good_answer(self, received: Received) -> Answer:
        content = self._content(received.path)
        if content is None:
            return Answer(404, {"Content-Type": "text/plain", "Content-Length": "10"}, b"not found\n")
        etag = f'"{hashlib.md5(content[:4096] + len(content).to_bytes(8, "big")).hexdigest()}"'
        headers = {
            "Content-Type": "application/octet-stream",
            "Accept-Ranges": "bytes",
            "ETag": etag,
            "Last-Modified": _LAST_MODIFIED,
            "Date": formatdate(usegmt=True),
            "Content-Length": str(len(content)),
        }
        asked = _RANGE.fullmatch(received.range)
        if asked is None or received.headers.get("if-range", etag) not in {etag, _LAST_MODIFIED}:
            return Answer(200, headers, content, content=content)
        start = int(asked[1])
        end = min(int(asked[2]) + 1, len(content)) if asked[2] else len(content)
        if start >= len(content) or end <= start:
            headers |= {"Content-Range": f"bytes */{len(content)}", "Content-Length": "0"}
            return Answer(416, headers, b"", content=content)
        headers |= {"Content-Range": f"bytes {start}-{end - 1}/{len(content)}", "Content-Length": str(end - start)}
        return Answer(206, headers, content[start:end], start=start, content=content)


async def _read_request(reader: asyncio.StreamReader, port: int, connection: int) -> Received | None:
    """The next request on this connection, or None when the client has closed it."""
    line = await reader.readline()
    if not line:
        return None
    method, path, _ = line.decode("latin-1").split(" ", 2)
    headers = {}
    while (line := await reader.readline()) not in {b"\r\n", b""}:
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    return Received(port, connection, method, path, headers)


async def _send(
    writer: asyncio.StreamWriter, body: bytes, received: Received, rate: float | None, quota: Quota | None
) -> None:
    """Send ``body`` in small chunks, at ``rate`` bytes a second and within ``quota`` where given."""
    view = memoryview(body)
    chunk = _CHUNK if rate is None else max(1, min(_CHUNK, int(rate / 20)))
    loop = asyncio.get_running_loop()
    started = loop.time()
    await writer.drain()
    offset = 0
    while offset < len(view):
        part = view[offset : offset + chunk]
        if quota is not None:
            part = part[: quota.take(len(part))]
            if not part:
                await asyncio.sleep(0.01)
                continue
        writer.write(part)
        await writer.drain()
        received.sent += len(part)
        offset += len(part)
        if rate is not None:
            await asyncio.sleep(max(0.0, started + offset / rate - loop.time()))


async def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with RST, once the peer has acknowledged what was sent (RST throws the rest away)."""
    sock = writer.get_extra_info("socket")
    for _ in range(200):
        if writer.transport.get_write_buffer_size() == 0 and _unacknowledged(sock) == 0:
            break
        await asyncio.sleep(0.005)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("hh" if sys.platform == "win32" else "ii", 1, 0))
    writer.transport.abort()


def _unacknowledged(sock: socket.socket) -> int:
    """Bytes in the kernel's send queue; 0 where the system cannot say."""
    if sys.platform != "linux":
        return 0
    import fcntl
    import termios

    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, b"\0" * 4), sys.byteorder)

"""What a fault server may do to an answer: small values that compose, applied in the order in which they stand.

A *step* is one behaviour or a tuple of them; a *script* is a list of steps: each request takes the next one, and
the last one stays. ``[*times(2, Status(503, retry_after=1)), Ok()]`` fails twice and is fine from then on.
Offsets and counts are bytes; ``after`` counts body bytes of this answer, ``Flip`` and ``Truncate`` bytes of the file.
"""

from __future__ import annotations

import functools
import gzip
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Literal, Protocol

Ending = Literal["fin", "rst", "stall"]


@dataclass
class Answer:
    """An answer in the making; ``start`` is the file offset of the body's first byte."""

    status: int
    headers: dict[str, str]
    body: bytes
    start: int = 0
    content: bytes = b""
    """The whole file, for behaviours that make another body of it."""
    number: int = 0
    """How many requests this server has had before."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """The request's headers, names in lower case."""
    stop_after: int | None = None
    ending: Ending = "fin"
    silent: bool = False
    latency: float = 0.0
    now: Callable[[], float] = time.monotonic
    """By which clock the latency is waited for."""
    rate: float | None = None
    quota: Quota | None = None

    def replace_body(self, body: bytes) -> None:
        self.body = body
        self.headers["Content-Length"] = str(len(body))


class Behaviour(Protocol):
    """Changes an answer before it is sent."""

    def apply(self, answer: Answer) -> None: ...


Step = Behaviour | tuple[Behaviour, ...]


def times(count: int, *behaviours: Behaviour) -> list[Step]:
    """``count`` equal steps."""
    return [behaviours] * count


@dataclass(frozen=True)
class Ok:
    """Serve the file properly, with ranges and keep-alive."""

    def apply(self, answer: Answer) -> None:
        return


@dataclass(frozen=True)
class Drop:
    """End the connection after so many body bytes, by FIN or RST (all bytes before it have arrived)."""

    after: int = 0
    how: Literal["fin", "rst"] = "fin"

    def apply(self, answer: Answer) -> None:
        answer.stop_after, answer.ending = self.after, self.how


@dataclass(frozen=True)
class Stall:
    """Send so many body bytes, then nothing more, with the connection open until the client leaves."""

    after: int = 0

    def apply(self, answer: Answer) -> None:
        answer.stop_after, answer.ending = self.after, "stall"


@dataclass(frozen=True)
class NeverAnswer:
    """Take the request and say nothing at all."""

    def apply(self, answer: Answer) -> None:
        answer.silent = True


@dataclass(frozen=True)
class SilentUntil:
    """Say nothing at all to requests that come before ``came`` is true."""

    came: Callable[[], bool]

    def apply(self, answer: Answer) -> None:
        answer.silent = not self.came()


@dataclass(frozen=True)
class IgnoreRange:
    """Answer 200 with the whole file, whatever was asked for."""

    def apply(self, answer: Answer) -> None:
        if answer.status == 206:
            answer.status, answer.start = 200, 0
            answer.headers.pop("Content-Range", None)
            answer.replace_body(answer.content)


@dataclass(frozen=True)
class WrongContentRange:
    """Say another range than is sent: its start and end ``shift`` bytes later, or another ``total``.

    With ``body`` the bytes sent are those of the shifted range (as a broken cache would), else only the header lies.
    """

    shift: int = 0
    total: int | None = None
    body: bool = False

    def apply(self, answer: Answer) -> None:
        if answer.status != 206:
            return
        start, end = answer.start + self.shift, answer.start + len(answer.body) + self.shift
        total = len(answer.content) if self.total is None else self.total
        answer.headers["Content-Range"] = f"bytes {start}-{end - 1}/{total}"
        if self.body:
            answer.replace_body(answer.content[start:end])


@dataclass(frozen=True)
class WrongContentLength:
    """Announce ``delta`` bytes more (or less) than the range has; no more than announced is sent."""

    delta: int

    def apply(self, answer: Answer) -> None:
        length = len(answer.body) + self.delta
        answer.headers["Content-Length"] = str(length)
        answer.body = answer.body[:length]


@dataclass(frozen=True)
class Truncate:
    """Serve only the file's first ``size`` bytes as if that were all of it (a mirror in the middle of a sync)."""

    size: int

    def apply(self, answer: Answer) -> None:
        answer.content = answer.content[: self.size]
        if answer.status not in {200, 206}:
            return
        kept = answer.body[: max(0, self.size - answer.start)]
        answer.replace_body(kept)
        if answer.status == 206 and kept:
            answer.headers["Content-Range"] = f"bytes {answer.start}-{answer.start + len(kept) - 1}/{self.size}"
        elif answer.status == 206:
            RangeNotSatisfiable().apply(answer)


@dataclass(frozen=True)
class Page:
    """An HTML page instead of the file: a captive portal (200) or a block page (403)."""

    status: int = 200
    text: str = "<!DOCTYPE html><html><body>Please sign in to the hotel's network</body></html>"

    def apply(self, answer: Answer) -> None:
        answer.status = self.status
        for name in ("Content-Range", "ETag", "Last-Modified", "Accept-Ranges"):
            answer.headers.pop(name, None)
        answer.headers["Content-Type"] = "text/html; charset=utf-8"
        answer.replace_body(self.text.encode())


@dataclass(frozen=True)
class Status:
    """An error status with a short plain body; ``retry_after`` in seconds, as a number or an HTTP date."""

    status: int
    retry_after: float | None = None
    as_date: bool = False

    def apply(self, answer: Answer) -> None:
        Page(self.status, f"status {self.status}\n").apply(answer)
        answer.headers["Content-Type"] = "text/plain"
        if self.retry_after is not None:
            when = formatdate(time.time() + self.retry_after, usegmt=True)
            answer.headers["Retry-After"] = when if self.as_date else f"{self.retry_after:g}"


@dataclass(frozen=True)
class Demand:
    """401 for whoever does not send this header, so that a login is seen to have been needed."""

    header: str
    value: str

    def apply(self, answer: Answer) -> None:
        if answer.asked.get(self.header) != self.value:
            Status(401).apply(answer)


@dataclass(frozen=True)
class RangeNotSatisfiable:
    """416 with the file's size."""

    def apply(self, answer: Answer) -> None:
        Status(416).apply(answer)
        answer.headers["Content-Range"] = f"bytes */{len(answer.content)}"


@dataclass(frozen=True)
class RefuseRange:
    """416 with the file's size to every range that could be given; a request for the whole file is answered."""

    def apply(self, answer: Answer) -> None:
        if answer.status == 206:
            RangeNotSatisfiable().apply(answer)


@dataclass(frozen=True)
class Flip:
    """Invert the bytes at these offsets of the file, wherever a body covers them."""

    offsets: tuple[int, ...]

    def __init__(self, *offsets: int) -> None:
        object.__setattr__(self, "offsets", offsets)

    def apply(self, answer: Answer) -> None:
        body = bytearray(answer.body)
        for offset in self.offsets:
            if 0 <= offset - answer.start < len(body):
                body[offset - answer.start] ^= 0xFF
        answer.body = bytes(body)


@dataclass(frozen=True)
class Gzip:
    """Encode the body, as some proxies do even for ``Accept-Encoding: identity``."""

    def apply(self, answer: Answer) -> None:
        answer.headers["Content-Encoding"] = "gzip"
        answer.replace_body(_gzipped(answer.body))


@functools.lru_cache(maxsize=8)
def _gzipped(body: bytes) -> bytes:
    """Without compression, once: an answer that takes a busy machine a second is another fault, silence."""
    return gzip.compress(body, compresslevel=0, mtime=0)


@dataclass(frozen=True)
class Multipart:
    """Answer a single range as multipart/byteranges."""

    def apply(self, answer: Answer) -> None:
        if answer.status != 206:
            return
        inner = answer.headers.pop("Content-Range")
        answer.headers["Content-Type"] = "multipart/byteranges; boundary=cut"
        answer.replace_body(f"\r\n--cut\r\nContent-Range: {inner}\r\n\r\n".encode() + answer.body + b"\r\n--cut--\r\n")


@dataclass(frozen=True)
class Redirect:
    """Send the client elsewhere; ``to`` may be relative, absolute, of any scheme, or the same path (a loop)."""

    to: str
    status: int = 302

    def apply(self, answer: Answer) -> None:
        Status(self.status).apply(answer)
        answer.headers["Location"] = self.to


@dataclass(frozen=True)
class Conditional:
    """304 without a body where If-None-Match names the file's ETag (RFC 9110 13.1.2), as every usual server."""

    def apply(self, answer: Answer) -> None:
        if answer.asked.get("if-none-match") == answer.headers.get("ETag") and answer.status in {200, 206}:
            answer.status = 304
            answer.headers.pop("Content-Range", None)
            answer.body = b""
            answer.headers["Content-Length"] = "0"


@dataclass(frozen=True)
class ChangingETag:
    """Another strong ETag at each request, as mirrors behind a round robin have."""

    def apply(self, answer: Answer) -> None:
        answer.headers["ETag"] = f'"{answer.number}"'


@dataclass(frozen=True)
class Headers:
    """Set headers (``Via``, ``Content-Type`` ...); None removes one."""

    values: Mapping[str, str | None] = field(default_factory=dict)

    def apply(self, answer: Answer) -> None:
        for name, value in self.values.items():
            if value is None:
                answer.headers.pop(name, None)
            else:
                answer.headers[name] = value


@dataclass(frozen=True)
class NotModified:
    """304 without a body to a request that knows this version, as servers of channels answer."""

    def apply(self, answer: Answer) -> None:
        tag, date = answer.asked.get("if-none-match"), answer.asked.get("if-modified-since")
        if answer.status in {200, 206} and (tag or date) in {answer.headers["ETag"], answer.headers["Last-Modified"]}:
            answer.status, answer.body = 304, b""
            answer.headers["Content-Length"] = "0"
            answer.headers.pop("Content-Range", None)


@dataclass(frozen=True)
class Rate:
    """So many body bytes a second."""

    bytes_per_second: float

    def apply(self, answer: Answer) -> None:
        answer.rate = self.bytes_per_second


class Quota:
    """So many body bytes over all answers that have it, and not one more until it is lifted.

    A client stays at work for as long as a test needs to look at it or to stop it, however fast the machine is.
    """

    def __init__(self, most: int) -> None:
        self._left = most
        self._lifted = threading.Event()

    def apply(self, answer: Answer) -> None:
        answer.quota = self

    def lift(self) -> None:
        """Let everything pass from now on, the answers that wait too."""
        self._lifted.set()

    def take(self, count: int) -> int:
        """How many of ``count`` bytes may be sent now; called by the server's thread alone."""
        if self._lifted.is_set():
            return count
        taken = min(count, self._left)
        self._left -= taken
        return taken


@dataclass(frozen=True)
class Latency:
    """So many seconds before the answer's head, by the clock of the client where one is given."""

    seconds: float
    now: Callable[[], float] = time.monotonic

    def apply(self, answer: Answer) -> None:
        answer.latency, answer.now = self.seconds, self.now

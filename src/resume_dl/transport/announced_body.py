"""Bodies of announced length, read directly from the connection instead of through httpcore and h11.

These copy each byte four times and make about forty Python calls per read: 0.4 s of CPU per GB (docs/performance.md).
So they get only the head, with ``Content-Length: 0`` in place of the announced length, and the body is read from their
stream. All other responses reach them unchanged: those without a Content-Length, with a transfer coding or an error
status, and every head in an unusual form (docs/adr/reading-past-h11.md). No I/O here.
"""

from __future__ import annotations

import re
from collections.abc import Callable

MAX_READ = 256 * 1024
"""Bytes of one read. Larger ones gain nothing (docs/performance.md), and sixteen connections hold 4 MiB."""
MAX_HEAD = 100 * 1024
"""The most bytes of a head that is examined; h11, as httpcore configures it, refuses longer ones."""

_START = b"HTTP/1."
_SUCCESS = re.compile(rb"HTTP/1\.[01] 20[06][ \r]")
_FRAMING = re.compile(rb"\n(content-length|transfer-encoding)", re.IGNORECASE)
_LENGTH = re.compile(rb"\ncontent-length:[ \t]*(0|[1-9][0-9]{0,17})[ \t]*\r\n", re.IGNORECASE)
_FOLDED = re.compile(rb"\n[ \t]")


class AnnouncedBody:
    """Separates bodies from what a connection receives: one response at a time, used by one thread at a time."""

    def __init__(self) -> None:
        self.length: int | None = None
        """Content-Length of a response whose body is read here; None if httpcore reads it."""
        self.left = 0
        """Bytes of that body that were not read yet."""
        self.awaits_head = False
        """Whether a GET request was sent whose response head must pass through ``head``."""
        self._early = b""
        self.has_surplus = False
        """Whether more bytes arrived than announced; the connection must not be reused then (RFC 9112 6.3)."""

    def sent(self, data: bytes) -> None:
        """Note sent data: after a GET a response head is expected; CONNECT and SOCKS replies have no body."""
        if data:
            self.awaits_head = data.startswith(b"GET ")
            self.length = None

    def head(self, receive: Callable[[], bytes]) -> bytes:
        """Return the first bytes of a response for httpcore, read by ``receive``, which returns b"" at the end.

        That is the head without its body if the body is read here, else everything received so far.
        """
        data = bytearray()
        end = -1
        while end < 0 and len(data) < MAX_HEAD and (more := receive()):
            searched = max(0, len(data) - 3)
            data += more
            if not data.startswith(_START[: len(data)]):
                break  # not HTTP: let httpcore raise now, and not after a blank line that may never come
            end = data.find(b"\r\n\r\n", searched)
        self.awaits_head = False
        head = bytes(data[: end + 4])
        span = announced_length(head) if end >= 0 else None
        if span is None:
            return bytes(data)
        self.length = self.left = int(head[slice(*span)])
        self._early = bytes(data[len(head) :])
        self.has_surplus = len(self._early) > self.length
        return head[: span[0]] + b"0" + head[span[1] :]

    def read(self, receive: Callable[[int], bytes]) -> bytes:
        """Return the next bytes of the body, at most MAX_READ; b"" at its end, or if the connection ends early.

        ``receive`` reads at most the given number of bytes from the connection. The body is complete if ``left`` is 0.
        """
        if not self.left:
            return b""
        if self._early:
            data, self._early = self._early[: self.left], b""
        else:
            data = receive(min(MAX_READ, self.left))
        self.left -= len(data)
        return data


def announced_length(head: bytes) -> tuple[int, int] | None:
    """Return start and end of the digits of the Content-Length in ``head``.

    None if anything else may frame the body, or if two parsers could disagree on the head (CWE-444): a status
    other than 200 and 206, a transfer coding, a second Content-Length, folded lines, lines that end in a bare LF.
    """
    found = _LENGTH.search(head)
    if found is None or _SUCCESS.match(head) is None or len(_FRAMING.findall(head)) != 1:
        return None
    if _FOLDED.search(head) is not None or head.count(b"\n") != head.count(b"\r\n"):
        return None
    return found.span(1)
